"""Columns from people's lists and records, and cutting them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Columns, columns_of_lists, columns_of_records, columns_of_values, decode_headers, split
from ottla.errors import InvalidValue
from ottla.model import Record

_VALUES = st.lists(st.none() | st.binary(max_size=20), max_size=50)


def test_m1_messages_are_opaque_bytes_of_any_length() -> None:
    """SEEDS M1: zero bytes too; and a null is not empty."""
    values = [b"", None, b"\x00\xff", b"x" * 100_000]
    assert columns_of_values(values).values.to_pylist() == values


def test_values_may_be_any_kind_of_bytes() -> None:
    kinds: list[Any] = [bytearray(b"a"), memoryview(b"b"), np.bytes_(b"c"), b"d"]
    assert columns_of_values(kinds).values.to_pylist() == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("wrong", ["text", 5, 1.5, ["x"], object()])
def test_what_is_not_bytes_is_refused_with_the_way_out(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match=r"messages are bytes: encode text first, as in 'text'\.encode\(\)"):
        columns_of_values([b"fine", wrong])
    with pytest.raises(InvalidValue, match=r"^keys "):
        columns_of_lists([b"fine"], [wrong])


def test_lists_become_columns() -> None:
    columns = columns_of_lists([b"a", None], [None, b"k"], [(("h", b"1"),), ()], [5, -5])
    values, keys, cells = (column.to_pylist() for column in columns.binaries())
    assert (values, keys) == ([b"a", None], [None, b"k"])
    assert [decode_headers(cell) for cell in cells] == [(("h", b"1"),), ()]
    assert columns.timestamps == pa.array([5, -5])


def test_a_column_of_nothing_is_no_column() -> None:
    columns = columns_of_lists([b"a", b"b"], [None, None], [(), ()])
    assert columns == columns_of_values([b"a", b"b"])


@pytest.mark.parametrize("name", ["keys", "headers", "timestamps"])
def test_lists_of_different_lengths_are_refused(name: str) -> None:
    lists: dict[str, Any] = {name: [None]}
    with pytest.raises(InvalidValue, match=f"{name} 'of length 1' is not valid: there are 2 values: give one for each"):
        columns_of_lists([b"a", b"b"], **lists)


@pytest.mark.parametrize("wrong", [None, 1.0, 1.5, "1", True, 2**63, -(2**63) - 1])
def test_a_timestamp_is_a_whole_number(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="give whole Unix milliseconds, one for every message or none at all"):
        columns_of_lists([b"a", b"b"], timestamps=[1, wrong])


def test_records_become_columns_and_now_fills_in_where_only_some_have_a_time() -> None:
    records = [Record(value=b"a", key=b"k", headers=(("h", None),), timestamp_ms=5), Record(value=None)]
    assert columns_of_records(iter(records), now_ms=9) == columns_of_lists(
        [b"a", None], [b"k", None], [(("h", None),), ()], [5, 9]
    )


def test_records_without_times_leave_them_to_the_log() -> None:
    assert columns_of_records([Record(value=b"a")], now_ms=9) == columns_of_values([b"a"])


@pytest.mark.parametrize("stranger", [b"", None, 0, b"value", "text", (b"a",)])
def test_what_is_no_record_is_refused(stranger: Any) -> None:
    with pytest.raises(InvalidValue, match=r"give ottla\.Record objects, or values as bytes"):
        columns_of_records([Record(value=b"a"), stranger], now_ms=0)


def test_the_largest_message_counts_value_key_and_headers() -> None:
    assert columns_of_values([b"12345", None, b""]).largest() == 5
    assert columns_of_lists([b"12345", b"1234"], [None, b"12"], [(("h", b"1"),), ()]).largest() == 5 + 10
    assert columns_of_values([]).largest() == 0


def test_the_largest_message_does_not_wrap_around_at_two_gibibytes() -> None:
    offsets, data = pa.array([0, 2**31 - 1], pa.int32()).buffers()[1], pa.allocate_buffer(2**31 - 1)  # never touched
    huge = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    assert Columns(values=huge, keys=huge, headers=huge).largest() == 3 * (2**31 - 1)


@given(_VALUES, st.data())
def test_columns_slice_and_take_like_lists(values: list[bytes | None], data: st.DataObject) -> None:
    columns = columns_of_lists(values, values, None, list(range(len(values))))
    start = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - start))
    part = columns.slice(start, length)
    assert len(part) == length
    assert part.values.to_pylist() == values[start : start + length]
    assert part.timestamps == pa.array(range(start, start + length), pa.int64())
    assert part.nbytes == sum(len(value or b"") for value in values[start : start + length]) * (2 if part.keys else 1)
    backwards = columns.take(pa.array(range(len(values))[::-1], pa.int64()))
    assert backwards.values.to_pylist() == values[::-1]


@given(_VALUES, st.data())
def test_exact_columns_are_equal_and_hold_nothing_else(values: list[bytes | None], data: st.DataObject) -> None:
    columns = columns_of_lists(values, values, None, list(range(len(values))))
    start = data.draw(st.integers(0, len(values)))
    part = columns.slice(start, data.draw(st.integers(0, len(values) - start)))
    exact = part.exact()
    assert exact == part
    for column in exact.binaries():
        assert column.offset == 0
        assert column.buffers()[2] is None or column.buffers()[2].size == sum(len(v or b"") for v in column.to_pylist())
    assert exact.timestamps is not None
    assert exact.timestamps.buffers()[1].size == 8 * len(part)


def test_exact_columns_are_the_same_objects_where_nothing_is_to_do() -> None:
    columns = columns_of_lists([b"a", None], [b"k", None], None, [1, 2])
    assert columns.exact().values is columns.values
    assert columns.exact().timestamps is columns.timestamps


def _cost(columns: Columns) -> int:
    timestamps = 8 * len(columns) if columns.timestamps is not None else 0
    return columns.nbytes + 4 * len(columns) * len(columns.binaries()) + timestamps


@given(_VALUES, st.integers(1, 200), st.booleans(), st.integers(0, 5))
def test_a_split_gives_every_message_once_and_fills_each_slice(
    values: list[bytes | None], max_bytes: int, timed: bool, start: int
) -> None:
    columns = columns_of_lists(values, values, None, list(range(len(values))) if timed else None)
    columns = columns.slice(min(start, len(values)), len(values))
    parts = list(split(columns, max_bytes))
    assert [value for part in parts for value in part.values.to_pylist()] == values[start:]
    at = 0
    for part in parts:
        assert len(part) == 1 or _cost(part) <= max_bytes
        at += len(part)
        if at < len(columns):
            assert _cost(columns.slice(at - len(part), len(part) + 1)) > max_bytes, "one more would have fitted"


def test_a_split_copies_nothing() -> None:
    columns = columns_of_values([b"x" * 100] * 10_000)
    before = pa.total_allocated_bytes()
    parts = list(split(columns, 10_000))
    assert len(parts) == 105
    assert pa.total_allocated_bytes() == before


def test_a_message_that_is_too_large_travels_alone() -> None:
    parts = split(columns_of_values([b"a", b"x" * 100, b"b"]), 20)
    assert [part.values.to_pylist() for part in parts] == [[b"a"], [b"x" * 100], [b"b"]]


def test_even_empty_messages_fill_a_slice() -> None:
    assert [len(part) for part in split(columns_of_values([b""] * 10), 16)] == [4, 4, 2]


def test_nothing_splits_into_nothing() -> None:
    assert list(split(columns_of_values([]), 10)) == []
