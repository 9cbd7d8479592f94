"""Columns from Arrow data: every layout that people have, and one sentence for what cannot be taken."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import (
    HEADERS_TYPE,
    Batch,
    Columns,
    Messages,
    columns_of_arrow,
    columns_of_lists,
    columns_of_values,
    decode_headers,
)
from ottla.errors import InvalidValue

_VALUES = [b"abc", None, b"", b"xyz" * 10]
_TEXTS = ["abc", None, "", "xyz" * 10]
_PAIRS = pa.struct([("key", pa.string()), ("value", pa.binary())])


def _dictionary(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), values)


@pytest.mark.parametrize("layout", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
@pytest.mark.parametrize("wrap", [lambda a: a, _dictionary, lambda a: pa.chunked_array([a[:1], a[1:]])])
def test_values_come_from_every_binary_layout(layout: pa.DataType, wrap: Callable[[pa.Array], Any]) -> None:
    assert columns_of_arrow(wrap(pa.array(_VALUES, layout))) == columns_of_values(_VALUES)


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("wrap", [lambda a: a, _dictionary, lambda a: pa.chunked_array([a[:1], a[1:]])])
def test_text_is_taken_as_utf8(layout: pa.DataType, wrap: Callable[[pa.Array], Any]) -> None:
    assert columns_of_arrow(wrap(pa.array(_TEXTS, layout))) == columns_of_values(_VALUES)


def test_values_come_from_bytes_of_fixed_size() -> None:
    assert columns_of_arrow(pa.array([b"abc", None], pa.binary(3))) == columns_of_values([b"abc", None])


def test_values_come_from_a_slice_and_from_nothing() -> None:
    assert columns_of_arrow(pa.array(_VALUES, pa.binary())[1:3]) == columns_of_values(_VALUES[1:3])
    assert len(columns_of_arrow(pa.chunked_array([], pa.string()))) == 0
    assert columns_of_arrow(pa.nulls(2)) == columns_of_values([None, None])


def test_what_is_binary_already_is_not_copied() -> None:
    array = pa.array([b"x" * 1000] * 1000, pa.binary())
    before = pa.total_allocated_bytes()
    columns = columns_of_arrow(pa.table({"value": array, "key": array}))
    assert pa.total_allocated_bytes() == before
    assert columns.values.buffers()[2].address == array.buffers()[2].address


def test_a_table_gives_all_columns() -> None:
    headers = pa.array([[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None], HEADERS_TYPE)
    table = pa.table(
        {"key": [None, "k"], "value": ["a", "b"], "headers": headers, "timestamp": pa.array([5, -6], pa.int64())}
    )
    expected = columns_of_lists([b"a", b"b"], [None, b"k"], [(("h", b"1"), ("n", None)), ()], [5, -6])
    assert columns_of_arrow(table) == expected
    assert columns_of_arrow(table.to_batches()[0]) == expected
    assert columns_of_arrow(pa.concat_tables([table[:1], table[1:]])) == expected


def _cells(table: pa.Table) -> list[bytes | None]:
    headers = columns_of_arrow(table).headers
    assert headers is not None
    return list(headers.to_pylist())


def _times(table: pa.Table) -> list[int]:
    timestamps = columns_of_arrow(table).timestamps
    assert timestamps is not None
    return list(timestamps.to_pylist())


@pytest.mark.parametrize(
    "layout",
    [
        pa.list_(_PAIRS),
        pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])),
        pa.list_(pa.struct([("value", pa.binary_view()), ("key", pa.string_view())])),
        pa.map_(pa.string(), pa.binary()),
    ],
    ids=str,
)
def test_headers_come_from_every_layout(layout: pa.DataType) -> None:
    rows: list[Any] = [[("a", b"1"), ("a", None)], None, [], [("é", b"")]]
    if not pa.types.is_map(layout):
        rows = [None if row is None else [{"key": k, "value": v} for k, v in row] for row in rows]
    expected = [(("a", b"1"), ("a", None)), (), (), (("é", b""),)]
    table = pa.table({"value": pa.nulls(4), "headers": pa.array(rows, layout)})
    cells = _cells(table)
    assert [decode_headers(cell) for cell in cells] == expected
    assert cells.count(None) == 2
    assert [decode_headers(cell) for cell in _cells(table[1:])] == expected[1:]


@pytest.mark.parametrize(("unit", "each"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
@pytest.mark.parametrize("zone", [None, "UTC", "Australia/Melbourne"])
def test_timestamps_come_in_every_unit_and_zone(unit: str, each: float, zone: str | None) -> None:
    times = [0, 1_700_000_000_000, -86_400_000]
    column = pa.array([round(time * each) for time in times], pa.timestamp(unit, zone))
    assert _times(pa.table({"value": ["a", "b", "c"], "timestamp": column})) == times


def test_finer_timestamps_are_cut_to_milliseconds() -> None:
    column = pa.array([1_999_999, 2_000_000], pa.timestamp("ns"))
    assert _times(pa.table({"value": ["a", "b"], "timestamp": column})) == [1, 2]


def test_columns_that_are_all_null_are_absent() -> None:
    table = pa.table({"value": ["a"], "key": pa.nulls(1), "headers": pa.nulls(1), "timestamp": pa.nulls(1)})
    assert columns_of_arrow(table) == columns_of_values([b"a"])
    typed = pa.table(
        {"value": ["a"], "timestamp": pa.nulls(1, pa.timestamp("ns")), "headers": pa.nulls(1, HEADERS_TYPE)}
    )
    assert columns_of_arrow(typed) == columns_of_values([b"a"])


def _read() -> tuple[Columns, Messages]:
    columns = columns_of_lists([b"a", None], [b"k", None], [(("h", b"1"),), ()], [5, 2**50])
    return columns, Messages.of("deliveries", 3, [Batch.pack(columns).numbered(7, 9)], 1)


def test_a_table_that_was_read_can_be_sent_again() -> None:
    columns, messages = _read()
    assert columns_of_arrow(messages.to_arrow()) == columns
    with_offset = messages.to_arrow().rename_columns({"number": "offset"})
    assert columns_of_arrow(with_offset) == columns


def test_data_frames_can_be_sent() -> None:
    columns, messages = _read()
    assert columns_of_arrow(messages.to_polars()) == columns
    assert columns_of_arrow(messages.to_pandas()) == columns
    assert columns_of_arrow(pl.DataFrame({"value": ["a", "b"]})) == columns_of_values([b"a", b"b"])
    assert columns_of_arrow(pd.DataFrame({"value": ["a", "b"]})) == columns_of_values([b"a", b"b"])


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (pa.table({"key": ["a"]}), "it must have a column 'value'"),
        (pa.table({"value": ["a"], "vaule": ["b"]}), "column 'vaule' is not valid: a table to send has value,"),
        (pa.table([["a"], ["b"]], names=["value", "value"]), "column 'value' is not valid: it is there twice"),
        (pa.table({"value": [1]}), "column 'value' 'of type int64' is not valid: it must be binary or text"),
        (pa.array([1.5]), "column 'value' 'of type double' is not valid: it must be binary or text"),
        (pa.array([1, 1]).dictionary_encode(), "column 'value' 'of type dictionary<values=int64"),
        (pa.table({"value": ["a"], "key": [1]}), "column 'key' 'of type int64'"),
        (pa.table({"value": ["a"], "headers": ["h"]}), "column 'headers' 'of type string' is not valid: it must"),
        (pa.table({"value": ["a"], "headers": pa.nulls(1, pa.list_view(_PAIRS))}), "column 'headers' 'of type list_vi"),
        (pa.table({"value": ["a"], "headers": [["h"]]}), "column 'headers' 'of type list<"),
        (pa.table({"value": ["a"], "headers": [[{"name": "a", "value": b""}]]}), "column 'headers' 'of type list<"),
        (pa.table({"value": ["a"], "headers": [[{"key": b"\xff", "value": b""}]]}), "column 'headers' .*Invalid UTF8"),
        (pa.table({"value": ["a"], "headers": [[{"key": "a", "value": 1.5}]]}), "column 'headers' 'of type list<"),
        (pa.table({"value": ["a"], "headers": [[{"key": None, "value": b""}]]}), "every header has a name"),
        (pa.table({"value": ["a"], "timestamp": ["now"]}), "column 'timestamp' 'of type string' is not valid: it must"),
        (pa.table({"value": ["a"], "timestamp": [1.5]}), "column 'timestamp' 'of type double'"),
        (pa.table({"value": ["a", "b"], "timestamp": [1, None]}), "column 'timestamp' 'with 1 nulls' is not valid"),
        (pa.table({"value": ["a"], "timestamp": pa.array([2**60], pa.timestamp("s"))}), "'timestamp' .*out of bounds"),
        ([b"a"], "Arrow data .* is not valid: give a pyarrow array, table or record batch, or a data frame"),
        (None, "Arrow data None is not valid"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_by_name(table: Any, sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence):
        columns_of_arrow(table)


def test_more_than_two_gibibytes_at_once_are_refused() -> None:
    chunk = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.array([0, 2**30], pa.int32()).buffers()[1], pa.allocate_buffer(2**30)]
    )  # never touched
    with pytest.raises(
        InvalidValue, match=r"column 'value' 'of type binary' is not valid: .* up to 2 GiB: .*in slices"
    ):
        columns_of_arrow(pa.chunked_array([chunk, chunk, chunk]))


@given(st.lists(st.none() | st.text(max_size=10), max_size=30), st.data())
def test_any_text_in_any_chunks_is_the_same_as_its_bytes(texts: list[str | None], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(texts)))
    layout = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    chunked = pa.chunked_array([pa.array(texts[:cut], layout), pa.array(texts[cut:], layout)], layout)
    assert columns_of_arrow(chunked) == columns_of_values([None if t is None else t.encode() for t in texts])
