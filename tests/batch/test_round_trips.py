"""Records to a batch, to bytes, and back to every form: nothing is lost, whatever the combination."""

from typing import Any, get_args

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.batch import Batch, Compression, Messages, Stamp, columns_of_arrow, columns_of_records
from ottla.model import Headers, Message, Record

_MANY = settings(max_examples=max(200, settings().max_examples))
_BYTES = st.none() | st.binary(max_size=30)
_TIMES = st.integers(-(2**62), 2**62 - 1) | st.integers(-1000, 1000) | st.integers(1_700_000_000_000, 1_800_000_000_000)
_HEADERS = st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=3).map(tuple)
_STAMPS = st.builds(
    Stamp,
    st.binary(min_size=16, max_size=16).filter(any),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**63 - 1),
    st.booleans(),
)


@st.composite
def _records(draw: st.DrawFn) -> list[Record]:
    """Records that have keys, headers and timestamps all, none, or some of them."""
    keys, headers, times = (draw(st.sampled_from(["all", "none", "some"])) for _ in range(3))

    def of(kind: str, strategy: st.SearchStrategy[Any], nothing: Any) -> st.SearchStrategy[Any]:
        return {"all": strategy, "none": st.just(nothing), "some": st.just(nothing) | strategy}[kind]

    record = st.builds(
        Record,
        value=_BYTES,
        key=of(keys, st.binary(max_size=10), None),
        headers=of(headers, _HEADERS, ()),
        timestamp_ms=of(times, _TIMES, None),
    )
    return draw(st.lists(record, min_size=1, max_size=30))


_NOW_MS, _APPEND_MS = 1_600_000_000_000, 1_600_000_000_123


def _expected(records: list[Record], first: int) -> list[Message]:
    fallback = _APPEND_MS if all(record.timestamp_ms is None for record in records) else _NOW_MS
    return [
        Message("t", 2, number, fallback if r.timestamp_ms is None else r.timestamp_ms, r.key, r.value, r.headers)
        for number, r in enumerate(records, first)
    ]


def _rows(table: pa.Table) -> list[Message]:
    """The rows of a table as messages; times as numbers, because datetime ends with the year 9999."""
    columns = [table[name].to_pylist() for name in ("topic", "partition", "number", "key", "value", "headers")]
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return [
        Message(topic, partition, number, time, key, value, _pairs(headers))
        for (topic, partition, number, key, value, headers), time in zip(zip(*columns, strict=True), times, strict=True)
    ]


def _pairs(headers: list[dict[str, Any]] | None) -> Headers:
    return tuple((header["key"], header["value"]) for header in headers or ())


@_MANY
@given(_records(), st.sampled_from(get_args(Compression)), st.none() | _STAMPS, st.integers(1, 2**62))
def test_every_form_gives_back_what_was_sent(
    records: list[Record], compression: Compression, stamp: Stamp | None, first: int
) -> None:
    columns = columns_of_records(records, _NOW_MS)
    batch = Batch.pack(columns, compression=compression, stamp=stamp).numbered(first, _APPEND_MS)
    again = Batch.parse(batch.to_bytes())

    assert again.header[:15] == batch.header[:15]
    assert again.to_bytes() == batch.to_bytes()
    assert again.columns() == batch.columns() == columns
    if stamp is not None:
        assert (again.header.producer_id, again.header.producer_epoch) == (stamp.producer_id, stamp.epoch)
        assert (again.header.sequence, again.header.has_producer) == (stamp.sequence, True)

    expected = _expected(records, first)
    messages = Messages.of("t", 2, [again], 1)
    assert list(messages) == expected
    assert messages.values() == [record.value for record in records]
    table = messages.to_arrow()
    table.validate(full=True)
    assert _rows(table) == expected
    assert _rows(messages.to_polars().to_arrow()) == expected
    frame = messages.to_pandas()
    assert list(frame["value"]) == [record.value for record in records]
    assert list(frame["timestamp"].astype("int64")) == [message.timestamp_ms for message in expected]


@_MANY
@given(_records(), st.data())
def test_what_was_read_and_is_sent_again_is_the_same(records: list[Record], data: st.DataObject) -> None:
    batch = Batch.pack(columns_of_records(records, _NOW_MS)).numbered(1, _APPEND_MS)
    start = data.draw(st.integers(1, len(records)))
    messages = Messages.of("t", 2, [batch], start)
    again = Batch.pack(columns_of_arrow(messages.to_arrow())).numbered(start, 0)
    assert list(Messages.of("t", 2, [again], 1)) == list(messages)


@_MANY
@given(_records(), st.integers(1, 2**62), st.sampled_from(get_args(Compression)))
def test_numbering_is_the_same_before_and_after_parsing(
    records: list[Record], first: int, compression: Compression
) -> None:
    batch = Batch.pack(columns_of_records(records, _NOW_MS), compression=compression)
    assert Batch.parse(batch.to_bytes()).numbered(first, 5).to_bytes() == batch.numbered(first, 5).to_bytes()
