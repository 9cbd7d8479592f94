"""What a read returns: a sequence of messages that stays columnar until someone asks."""

import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import SCHEMA, Batch, Messages, columns_of_lists, columns_of_values
from ottla.errors import InvalidValue, MissingDependency
from ottla.model import Message


def _messages(*counts: int, start: int = 1, max_messages: int | None = None) -> Messages:
    """Messages 1, 2, 3 … in batches of the given sizes; the value of each is its number."""
    batches, number = [], 1
    for count in counts:
        values = [b"%d" % n for n in range(number, number + count)]
        batches.append(Batch.pack(columns_of_values(values)).numbered(number, 1000 + number))
        number += count
    return Messages.of("deliveries", 3, batches, start, max_messages)


def _numbers(messages: Messages) -> list[int]:
    return [message.number for message in messages]


def test_messages_are_a_sequence() -> None:
    messages = _messages(2, 3)
    assert len(messages) == 5
    assert _numbers(messages) == [1, 2, 3, 4, 5]
    assert messages[0] == Message("deliveries", 3, 1, 1001, None, b"1")
    assert messages[-1] == Message("deliveries", 3, 5, 1003, None, b"5")
    assert messages[2] in messages
    assert repr(messages) == "Messages(5 of 'deliveries')"


def test_messages_have_all_that_was_sent() -> None:
    columns = columns_of_lists(
        [b"a", None, b""], [b"k", None, b""], [(("h", None), ("h", b"2")), (), ()], [5, -5, 2**60]
    )
    messages = Messages.of("deliveries", 0, [Batch.pack(columns).numbered(10, 999)], 1)
    assert list(messages) == [
        Message("deliveries", 0, 10, 5, b"k", b"a", (("h", None), ("h", b"2"))),
        Message("deliveries", 0, 11, -5, None, None),
        Message("deliveries", 0, 12, 2**60, b"", b""),
    ]


@pytest.mark.parametrize(
    ("start", "max_messages", "numbers"),
    [
        (1, None, [1, 2, 3, 4, 5]),
        (0, None, [1, 2, 3, 4, 5]),
        (2, None, [2, 3, 4, 5]),
        (3, None, [3, 4, 5]),
        (6, None, []),
        (2, 2, [2, 3]),
        (1, 0, []),
        (1, 99, [1, 2, 3, 4, 5]),
    ],
)
def test_messages_start_at_a_number_and_stop_at_a_count(
    start: int, max_messages: int | None, numbers: list[int]
) -> None:
    assert _numbers(_messages(2, 3, start=start, max_messages=max_messages)) == numbers


@given(
    st.lists(st.integers(1, 5), max_size=4),
    st.none() | st.integers(-25, 25),
    st.none() | st.integers(-25, 25),
    st.none() | st.integers(-25, 25),
    st.none() | st.integers(-25, 25),
)
def test_slicing_messages_is_slicing_a_list(
    counts: list[int], start: int | None, stop: int | None, again: int | None, end: int | None
) -> None:
    messages = _messages(*counts)
    plain = list(messages)
    assert list(messages[start:stop]) == plain[start:stop]
    assert list(messages[start:stop][again:end]) == plain[start:stop][again:end]
    assert messages[start:stop].values() == [message.value for message in plain[start:stop]]
    assert messages[start:stop].to_arrow()["number"].to_pylist() == [message.number for message in plain[start:stop]]


@given(st.lists(st.integers(1, 5), max_size=4), st.integers(-25, 25))
def test_indexing_messages_is_indexing_a_list(counts: list[int], index: int) -> None:
    messages = _messages(*counts)
    plain = list(messages)
    if -len(plain) <= index < len(plain):
        assert messages[index] == plain[index]
    else:
        with pytest.raises(IndexError, match=f"message {index} of {len(plain)}"):
            messages[index]


def test_a_slice_with_a_step_is_refused_with_the_way_out() -> None:
    with pytest.raises(InvalidValue, match=r"step 2 is not valid: .*slice list"):
        _messages(5)[::2]


def test_messages_are_equal_to_a_list_of_the_same() -> None:
    messages = _messages(2, 3)
    assert messages == list(messages)
    assert messages == _messages(2, 3)
    assert messages == tuple(messages)
    assert messages != _messages(2, 2)
    assert messages != _messages(2, 3)[1:] + _messages(1)
    assert messages != "messages"


def test_messages_add_up() -> None:
    both = _messages(2) + _messages(3)
    assert _numbers(both) == [1, 2, 1, 2, 3]
    assert len(both) == 5


def test_an_arrow_table_has_the_columns_of_the_schema() -> None:
    columns = columns_of_lists([b"a", None], [b"k", None], [(("h", None),), ()], [5, -5])
    table = Messages.of("deliveries", 3, [Batch.pack(columns).numbered(10, 0)], 1).to_arrow()
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert table["topic"].to_pylist() == ["deliveries"] * 2
    assert table["partition"].to_pylist() == [3, 3]
    assert table["number"].to_pylist() == [10, 11]
    assert table["key"].to_pylist() == [b"k", None]
    assert table["value"].to_pylist() == [b"a", None]
    assert table["headers"].to_pylist() == [[{"key": "h", "value": None}], None]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [5, -5]


def test_values_in_a_table_are_those_of_the_batch_and_no_copy() -> None:
    batch = Batch.pack(columns_of_values([b"x" * 1000] * 100)).numbered(1, 0)
    table = Messages.of("t", 0, [batch], 1).to_arrow()
    assert table["value"].chunk(0).buffers()[2].address == batch.columns().values.buffers()[2].address


def test_messages_become_data_frames() -> None:
    messages = _messages(2, 3, start=2)
    pandas, polars = messages.to_pandas(), messages.to_polars()
    assert isinstance(pandas, pd.DataFrame)
    assert isinstance(polars, pl.DataFrame)
    assert list(pandas["value"]) == polars["value"].to_list() == messages.values() == [b"2", b"3", b"4", b"5"]
    assert list(pandas.columns) == polars.columns == SCHEMA.names
    assert [time.timestamp() for time in pandas["timestamp"]] == [1.001, 1.003, 1.003, 1.003]


def test_no_messages_become_empty_tables() -> None:
    nothing = _messages()
    assert (len(nothing), list(nothing), nothing.values()) == (0, [], [])
    assert nothing.to_arrow().schema == SCHEMA
    assert len(nothing.to_pandas()) == len(nothing.to_polars()) == 0


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_says_how_to_get_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependency, match=rf"needs the package '{package}': pip install 'ottla\[{package}\]'"):
        getattr(_messages(1), f"to_{package}")()
