"""The header in front of every batch: its drawing, its checks, its numbering."""

import struct

import google_crc32c
import pytest

from ottla.batch import HEADER_BYTES, Batch, Header, Stamp, columns_of_lists, columns_of_values, unpack_header
from ottla.batch.header import MAX_RAW_BYTES, compression_flag, may_expand, pack_numbered
from ottla.errors import CorruptBatch, InvalidValue

_FIELDS = {
    "version": (4, "<B"),
    "codec": (5, "<B"),
    "flags": (6, "<H"),
    "count": (8, "<I"),
    "body_bytes": (12, "<I"),
    "raw_bytes": (16, "<I"),
    "min_timestamp_ms": (20, "<q"),
    "max_timestamp_ms": (28, "<q"),
    "producer_id": (36, "16s"),
    "producer_epoch": (52, "<I"),
    "sequence": (56, "<Q"),
    "content_crc": (64, "<I"),
    "first_number": (68, "<Q"),
    "append_ms": (76, "<q"),
    "header_crc": (84, "<I"),
}
"""Field by field, the drawing in the module's docstring."""


def _stored() -> bytes:
    columns = columns_of_lists([b"a", b"b"], [b"k", None], None, [1_700_000_000_000, 1_700_000_000_500])
    stamp = Stamp(bytes(range(16)), epoch=3, sequence=2**40)
    return Batch.pack(columns, stamp=stamp).numbered(41, 1_700_000_000_600).to_bytes()


def _changed(**fields: int) -> bytes:
    """A header with some fields changed and the right checksum: what a hostile writer would make."""
    head = bytearray(_stored()[:HEADER_BYTES])
    for name, value in fields.items():
        at, form = _FIELDS[name]
        struct.pack_into(form, head, at, value)
    struct.pack_into("<I", head, 84, google_crc32c.value(bytes(head[:84])))
    return bytes(head)


def test_every_field_is_where_the_drawing_says() -> None:
    stored = _stored()
    header = unpack_header(stored)
    assert stored[:4] == b"OTLB"
    for name, (at, form) in _FIELDS.items():
        assert struct.unpack_from(form, stored, at)[0] == getattr(header, name), name


def test_k9_the_stored_form_carries_number_time_checksum_and_version() -> None:
    """SEEDS K9: offset, timestamp in ms, checksum and format version are part of what is stored."""
    header = unpack_header(_stored())
    assert (header.version, header.codec, header.count) == (1, 1, 2)
    assert (header.first_number, header.next_number) == (41, 43)
    assert (header.min_timestamp_ms, header.max_timestamp_ms) == (1_700_000_000_000, 1_700_000_000_500)
    assert header.append_ms == 1_700_000_000_600
    assert header.content_crc
    assert header.header_crc


def test_a_header_is_found_at_any_position() -> None:
    assert unpack_header(b"xyz" + _stored(), 3) == unpack_header(_stored())


def test_numbering_changes_the_logs_part_only() -> None:
    stored = _stored()
    again = pack_numbered(stored[:68], 99, 5)
    assert again[:68] == stored[:68]
    header = unpack_header(again)
    assert (header.first_number, header.append_ms) == (99, 5)


def test_each_bit_of_a_header_is_covered_by_its_checksum() -> None:
    head = _stored()[:HEADER_BYTES]
    for at in range(HEADER_BYTES):
        for bit in range(8):
            damaged = head[:at] + bytes([head[at] ^ 1 << bit]) + head[at + 1 :]
            with pytest.raises(CorruptBatch):
                unpack_header(damaged)


@pytest.mark.parametrize("length", range(HEADER_BYTES))
def test_a_short_header_says_how_many_bytes_there_are(length: int) -> None:
    with pytest.raises(CorruptBatch, match=f"^not a valid batch: {length} bytes where a header of 88 should be"):
        unpack_header(_stored()[:length])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 2}, "format version 2 is not known here: a newer ottla may read it"),
        ({"codec": 2}, "body codec 2 is reserved for Kafka record batches and not read by this version"),
        ({"codec": 9}, "body codec 9 is not known by this version"),
        ({"flags": 1 << 6}, "flags 0x40 are not known here"),
        ({"flags": 3 << 4}, "flags 0x30 are not known here"),
        ({"count": 0}, "a count of 0 in"),
        ({"count": 2**32 - 1}, "a count of 4294967295 in"),
        ({"count": 1000}, "a count of 1000 in"),
        ({"body_bytes": 81}, "81 as stored, cannot be"),
        ({"raw_bytes": 80_000}, "stored bytes that say they are 80,000 .none. are refused"),
        ({"body_bytes": 2**32 - 8, "raw_bytes": 2**32 - 8}, "are refused"),
        (
            {"flags": 2 << 4, "body_bytes": 1024, "raw_bytes": 2**30},
            "1024 stored bytes that say they are 1,073,741,824",
        ),
        ({"flags": 2 << 4, "body_bytes": 1024, "raw_bytes": 1016}, "1024 stored bytes that say they are 1,016"),
        ({"min_timestamp_ms": 2**61, "max_timestamp_ms": 0}, "timestamps of .* to 0 cannot be"),
        ({"max_timestamp_ms": 2**62}, "timestamps of .* cannot be"),
        ({"min_timestamp_ms": -(2**62) - 1}, "timestamps of .* cannot be"),
        ({"first_number": 2**63 - 2}, "a first number of 9223372036854775806 at"),
        ({"first_number": 2**64 - 1}, "a first number of 18446744073709551615 at"),
        ({"append_ms": 2**63 - 1}, "at 9223372036854775807 ms cannot be"),
    ],
)
def test_a_header_with_the_right_checksum_is_still_not_believed(fields: dict[str, int], reason: str) -> None:
    with pytest.raises(CorruptBatch, match=reason):
        unpack_header(_changed(**fields))


def test_flags_tell_what_a_batch_has() -> None:
    header = unpack_header(_stored())
    assert (header.compression, header.has_producer) == ("none", True)
    values = columns_of_values([b"truck " * 100])
    for compression in ("lz4", "zstd"):
        packed: Header = Batch.pack(values, compression=compression).header
        assert (packed.compression, packed.has_producer) == (compression, False)


def test_an_unknown_compression_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match="compression 'snappy' is not valid: choose one of none, lz4, zstd"):
        compression_flag("snappy")


def test_a_compressed_body_is_smaller_but_not_by_a_suspicious_factor() -> None:
    mebibyte = 2**20
    assert may_expand(8, 64 * mebibyte)
    assert not may_expand(8, 64 * mebibyte + 1)
    assert may_expand(64 * mebibyte, 1024 * mebibyte)
    assert not may_expand(64 * mebibyte - 8, 1024 * mebibyte)
    assert not may_expand(100, 100)
    assert 1024 * mebibyte < MAX_RAW_BYTES
