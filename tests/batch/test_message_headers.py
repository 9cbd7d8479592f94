"""The headers of one message: a cell in a batch, pairs in Python, structs in Arrow."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import HEADERS_TYPE, decode_headers, encode_headers
from ottla.batch.message_headers import headers_from_arrow, headers_to_arrow
from ottla.errors import CorruptBatch, InvalidValue
from ottla.model import Headers

_HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4).map(tuple)


@given(_HEADERS)
def test_headers_come_back_from_their_cell(headers: Headers) -> None:
    assert decode_headers(encode_headers(headers)) == headers


def test_a_cell_is_as_it_is_drawn() -> None:
    assert encode_headers((("é", b"xyz"), ("n", None))) == (
        b"\x02\x00\x00\x00\xc3\xa9\x03\x00\x00\x00xyz" + b"\x01\x00\x00\x00n\xff\xff\xff\xff"
    )


def test_no_headers_is_a_null_cell() -> None:
    assert encode_headers(()) is None
    assert decode_headers(None) == ()
    assert decode_headers(b"") == ()


def test_a_name_may_come_twice_and_the_order_stays() -> None:
    headers = (("b", b"1"), ("a", b"2"), ("b", b"3"))
    assert decode_headers(encode_headers(headers)) == headers


def test_a_mapping_will_do() -> None:
    assert decode_headers(encode_headers({"trace": b"1", "none": None})) == (("trace", b"1"), ("none", None))


def test_a_value_may_be_any_kind_of_bytes() -> None:
    words = memoryview(b"12345678").cast("I")
    headers: Any = (("a", bytearray(b"x")), ("b", words))
    assert decode_headers(encode_headers(headers)) == (("a", b"x"), ("b", b"12345678"))


@pytest.mark.parametrize(
    "headers",
    [
        *(5, "ab", ["x"], [None], [("a",)], [("a", b"1", 2)]),
        *([(b"a", b"1")], [("\ud800", b"1")]),
        *([("a", "1")], [("a", 1)], [("a", [1])], {"a": 1}),
    ],
)
def test_wrong_headers_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidValue, match=r"a name \(text\) and a value \(bytes or None\)"):
        encode_headers(headers)


@pytest.mark.parametrize(
    "cell",
    [
        b"\x01",
        b"\x05\x00\x00\x00ab",
        b"\xff\xff\xff\xffab",
        b"\x01\x00\x00\x00a",
        b"\x01\x00\x00\x00a\x05\x00\x00\x00xy",
        b"\x01\x00\x00\x00a\xfe\xff\xff\xff",
        b"\x01\x00\x00\x00a\xff\xff\xff\x7f",
        b"\x01\x00\x00\x00\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00",
    ],
)
def test_a_malformed_cell_is_corrupt(cell: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_headers(cell)


@given(st.binary(max_size=60))
def test_any_bytes_are_headers_or_corrupt(cell: bytes) -> None:
    try:
        headers = decode_headers(cell)
    except CorruptBatch:
        return
    assert encode_headers(headers) == (cell or None)


@given(st.lists(_HEADERS, max_size=20), st.data())
def test_headers_go_to_arrow_and_back(rows: list[Headers], data: st.DataObject) -> None:
    cells = pa.array([encode_headers(row) for row in rows], pa.binary())
    lists = headers_to_arrow(cells, len(rows))
    lists.validate(full=True)
    assert lists.to_pylist() == [[{"key": k, "value": v} for k, v in row] or None for row in rows]
    start = data.draw(st.integers(0, len(rows)))
    assert headers_from_arrow(lists.slice(start)) == cells.slice(start)


def test_no_column_of_headers_is_a_column_of_nulls() -> None:
    assert headers_to_arrow(None, 3) == pa.nulls(3, HEADERS_TYPE)


def test_what_lies_under_a_null_list_is_not_taken() -> None:
    whole = pa.array([[{"key": "a", "value": b"1"}], [{"key": "b", "value": b"2"}]], HEADERS_TYPE)
    masked = pa.ListArray.from_arrays(whole.offsets, whole.values, mask=pa.array([True, False])).cast(HEADERS_TYPE)
    assert [decode_headers(cell) for cell in headers_from_arrow(masked).to_pylist()] == [(), (("b", b"2"),)]


@pytest.mark.parametrize("pair", [{"key": None, "value": b"1"}, None])
def test_a_header_without_a_name_is_refused(pair: object) -> None:
    with pytest.raises(InvalidValue, match="every header has a name"):
        headers_from_arrow(pa.array([[pair]], HEADERS_TYPE))
