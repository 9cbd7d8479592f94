"""A batch: packed, numbered, written, parsed; and how much memory it holds on to."""

import pickle
from typing import Any

import pyarrow as pa
import pytest

from ottla.batch import Batch, Stamp, columns_of_arrow, columns_of_lists, columns_of_values, split
from ottla.batch.header import MAX_RAW_BYTES
from ottla.errors import CorruptBatch, InvalidValue

_STAMP = Stamp(b"0123456789abcdef", epoch=2, sequence=9)
_TEXT = [b"truck 1021 on time"] * 100


def test_k9_a_batch_of_nothing_is_an_error_and_an_empty_value_is_not() -> None:
    """SEEDS K9: writing nothing (an empty list) is an error, an empty value is not."""
    with pytest.raises(InvalidValue, match="batch 'of no messages' is not valid: give at least one message"):
        Batch.pack(columns_of_values([]))
    assert Batch.parse(Batch.pack(columns_of_values([b""])).to_bytes()).columns().values.to_pylist() == [b""]


def test_a_packed_batch_knows_its_size_and_has_no_numbers_yet() -> None:
    batch = Batch.pack(columns_of_values(_TEXT))
    assert batch.count == 100
    assert batch.size == batch.header.size == len(batch.to_bytes())
    assert (batch.first_number, batch.next_number) == (0, 100)
    assert repr(batch) == f"Batch(100 messages from 0, {batch.size:,} bytes)"


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_batch_comes_back_from_its_bytes(compression: Any) -> None:
    columns = columns_of_lists(_TEXT, _TEXT, [(("h", b"1"),)] * 100, list(range(100)))
    batch = Batch.pack(columns, compression=compression, stamp=_STAMP).numbered(7, 1234)
    again = Batch.parse(batch.to_bytes())
    assert again.header[:15] == batch.header[:15]
    assert again.columns() == batch.columns() == columns
    assert again.to_bytes() == batch.to_bytes() == b"".join(batch.parts())
    assert again.header.compression == compression
    again.check()


def test_a_stamp_is_in_the_header() -> None:
    header = Batch.pack(columns_of_values(_TEXT), stamp=_STAMP).header
    assert header.has_producer
    assert (header.producer_id, header.producer_epoch, header.sequence) == (b"0123456789abcdef", 2, 9)


@pytest.mark.parametrize(
    ("producer_id", "epoch", "sequence", "what"),
    [
        (b"short", 0, 0, "producer id"),
        ("0123456789abcdef", 0, 0, "producer id"),
        (bytes(16), 0, 0, "producer id"),
        (b"0123456789abcdef", -1, 0, "producer epoch"),
        (b"0123456789abcdef", 2**32, 0, "producer epoch"),
        (b"0123456789abcdef", 0, -1, "sequence"),
        (b"0123456789abcdef", 0, 2**63, "sequence"),
    ],
)
def test_a_wrong_stamp_is_refused(producer_id: Any, epoch: int, sequence: int, what: str) -> None:
    with pytest.raises(InvalidValue, match=f"^{what} "):
        Stamp(producer_id, epoch, sequence)


def test_numbering_shares_the_body_and_reads_nothing_of_it() -> None:
    """The body could even be broken: numbering would not notice, because it does not look."""
    stored = Batch.pack(columns_of_values(_TEXT)).to_bytes()
    batch = Batch.parse(stored)
    batch._body = [b"not to be touched"]
    numbered = batch.numbered(41, 99)
    assert numbered._body is batch._body
    assert numbered._content is batch._content
    assert numbered.parts()[1:] == [b"not to be touched"]
    assert (numbered.first_number, numbered.next_number, numbered.header.append_ms) == (41, 141, 99)
    assert batch.first_number == 0


def test_numbering_again_replaces_the_numbers() -> None:
    batch = Batch.pack(columns_of_values(_TEXT)).numbered(5, 6).numbered(7, 8)
    assert Batch.parse(batch.to_bytes()).header[:15] == batch.header[:15]
    assert batch.first_number == 7


def test_messages_without_a_time_have_that_of_the_append() -> None:
    batch = Batch.pack(columns_of_values([b"a", b"b"])).numbered(1, 1234)
    assert not batch.has_timestamps
    assert batch.timestamps().to_pylist() == [1234, 1234]
    timed = Batch.pack(columns_of_lists([b"a", b"b"], timestamps=[-5, 5])).numbered(1, 1234)
    assert timed.has_timestamps
    assert timed.timestamps().to_pylist() == [-5, 5]


@pytest.mark.parametrize("position", range(17))
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_a_batch_is_parsed_at_any_address(position: int, compression: Any) -> None:
    columns = columns_of_lists(_TEXT, None, None, list(range(100)))
    stored = Batch.pack(columns, compression=compression).to_bytes()
    batch = Batch.parse(bytes(position) + stored, position)
    assert batch.columns() == columns
    assert batch.to_bytes() == stored
    for buffer in batch.columns().values.buffers()[1:]:
        assert buffer.address % 8 == 0


def test_a_batch_is_parsed_out_of_an_arrow_buffer_without_a_copy() -> None:
    stored = pa.py_buffer(Batch.pack(columns_of_values(_TEXT)).to_bytes())
    columns = Batch.parse(stored).columns()
    assert stored.address < columns.values.buffers()[2].address < stored.address + stored.size


def test_batches_back_to_back_are_parsed_one_after_another() -> None:
    batches = [Batch.pack(columns_of_values([b"x" * n])).numbered(n, 0) for n in range(1, 20)]
    stored = b"".join(batch.to_bytes() for batch in batches)
    assert [batch.first_number for batch in Batch.parse_all(stored)] == list(range(1, 20))
    assert list(Batch.parse_all(b"")) == []
    with pytest.raises(CorruptBatch, match="1 bytes where a header of 88 should be"):
        list(Batch.parse_all(stored + b"x"))


def test_a_body_that_does_not_shrink_is_stored_as_it_is() -> None:
    for compression in ("lz4", "zstd"):
        batch = Batch.pack(columns_of_values([b"a"]), compression=compression)
        assert batch.header.compression == "none"
        assert batch.size == Batch.pack(columns_of_values([b"a"])).size


def test_a_body_that_shrinks_suspiciously_is_stored_as_it_is() -> None:
    """Else a reader would have to allocate so much on the word of a few bytes."""
    batch = Batch.pack(columns_of_values([bytes(65 * 2**20)]), compression="zstd")
    assert batch.header.compression == "none"
    assert Batch.parse(batch.to_bytes()).columns().nbytes == 65 * 2**20


@pytest.mark.parametrize("wrong", ["gzip", "nonsense", "", None, []])
@pytest.mark.parametrize("values", [[b""], _TEXT])
def test_an_unknown_compression_is_refused(wrong: Any, values: list[bytes]) -> None:
    with pytest.raises(InvalidValue, match=r"compression .* is not valid: choose one of none, lz4, zstd"):
        Batch.pack(columns_of_values(values), compression=wrong)


def test_a_batch_that_no_reader_would_take_is_not_packed() -> None:
    data = pa.allocate_buffer(MAX_RAW_BYTES)  # never touched
    offsets = pa.array([0, MAX_RAW_BYTES], pa.int32()).buffers()[1]
    columns = columns_of_arrow(pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data]))
    with pytest.raises(InvalidValue, match=r"batch 'of 1,074,790,[0-9]+ bytes' is not valid: it holds at most"):
        Batch.pack(columns)


def test_a_message_of_the_default_limit_travels_whole() -> None:
    value = bytes(range(256)) * 2**15
    assert len(value) == 8 * 2**20
    for compression in ("none", "lz4", "zstd"):
        batch = Batch.parse(Batch.pack(columns_of_values([value]), compression=compression).to_bytes())
        assert batch.columns().values.to_pylist() == [value]


def test_a_caller_may_allow_less() -> None:
    stored = Batch.pack(columns_of_values([bytes(10_000)]), compression="zstd").to_bytes()
    assert Batch.parse(stored, max_raw_bytes=10_016).count == 1
    with pytest.raises(CorruptBatch, match="a body of 10,016 bytes is over the 10,015 that are allowed"):
        Batch.parse(stored, max_raw_bytes=10_015)


def test_packing_a_small_slice_does_not_hold_on_to_the_whole() -> None:
    before = pa.total_allocated_bytes()
    whole = columns_of_arrow(pa.table({"value": pa.array([b"x" * 1000] * 5000), "timestamp": pa.array(range(5000))}))
    batches = [Batch.pack(whole.slice(start, 10)) for start in (0, 2500, 4990)]
    del whole
    assert pa.total_allocated_bytes() - before < 100_000
    assert [batch.timestamps().to_pylist()[0] for batch in batches] == [0, 2500, 4990]


def test_packing_a_slice_copies_that_slice_only() -> None:
    whole = columns_of_values([b"x" * 1000] * 5000)
    before = pa.total_allocated_bytes()
    batch = Batch.pack(whole.slice(100, 10))
    assert pa.total_allocated_bytes() - before < 20_000
    assert batch.count == 10


def test_packing_a_whole_array_copies_nothing() -> None:
    whole = columns_of_values([b"x" * 1000] * 5000)
    before = pa.total_allocated_bytes()
    batch = Batch.pack(whole)
    assert pa.total_allocated_bytes() == before
    assert batch.columns().values is whole.values


def test_a_slice_packs_to_the_same_bytes_as_its_copy() -> None:
    values = [None if n % 3 == 0 else b"%d" % n for n in range(100)]
    for part in split(columns_of_values(values).slice(1, 98), 50):
        copy = columns_of_values(part.values.to_pylist())
        assert Batch.pack(part).to_bytes() == Batch.pack(copy).to_bytes()


def test_a_compressed_batch_does_not_keep_the_columns_too() -> None:
    before = pa.total_allocated_bytes()
    columns = columns_of_values([b"x" * 1000] * 1000)
    batch = Batch.pack(columns, compression="zstd")
    del columns
    assert pa.total_allocated_bytes() - before < 100_000
    assert batch.columns().nbytes == 1_000_000


def test_columns_are_decoded_once() -> None:
    batch = Batch.parse(Batch.pack(columns_of_values(_TEXT)).to_bytes())
    assert batch.columns() is batch.columns()


def test_a_check_looks_into_the_headers_of_messages_too() -> None:
    broken = columns_of_values(_TEXT)
    object.__setattr__(broken, "headers", pa.array([b"\xff"] * 100, pa.binary()))
    batch = Batch.parse(Batch.pack(broken).to_bytes())
    assert len(batch.columns()) == 100
    with pytest.raises(CorruptBatch, match="headers of a message are malformed"):
        batch.check()


def test_a_batch_pickles() -> None:
    batch = Batch.pack(columns_of_values(_TEXT), stamp=_STAMP).numbered(3, 4)
    assert pickle.loads(pickle.dumps(batch)).to_bytes() == batch.to_bytes()
