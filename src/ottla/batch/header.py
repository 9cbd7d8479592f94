"""The fixed header in front of every batch's body. No I/O.

All integers are little-endian. What the producer sets is covered by the *content* CRC together with
the body, and never changes. What the log sets when it numbers the batch is covered, with all the rest
of the header, by the *header* CRC: numbering a batch rewrites 88 bytes and never reads the body.

     at  size  set by    field
      0     4  producer  magic, the bytes `OTLB`
      4     1  producer  format version, 1
      5     1  producer  body codec: 1 columns, 2 reserved for Kafka record batches; never renumbered
      6     2  producer  flags: bit 0 keys, 1 headers, 2 timestamps present; bit 3 sequences may skip;
                         bits 4-5 compression: 0 none, 1 lz4 (frame), 2 zstd; the rest are 0
      8     4  producer  count, the number of messages, at least 1
     12     4  producer  body length as stored, a multiple of 8
     16     4  producer  body length when decompressed: the same where compression is none, else larger;
                         at most 1 GiB and 1 MiB, and over 64 MiB at most 16 times the length as stored
     20     8  producer  smallest timestamp in Unix milliseconds; 0 where the log's append time counts
     28     8  producer  largest timestamp, likewise
     36    16  producer  producer id; zero bytes where there is none
     52     4  producer  producer epoch
     56     8  producer  sequence: counts this producer's batches in this partition from 0
     64     4  producer  content CRC: CRC-32C of bytes 0 to 63 and then the body
     68     8  log       first number: the number of the batch's first message; 0 before numbering
     76     8  log       append time in Unix milliseconds, never smaller than that of the batch before
     84     4  log       header CRC: CRC-32C of bytes 0 to 83
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import google_crc32c

from ottla.errors import CorruptBatch, InvalidValue
from ottla.settings import LARGEST_MESSAGE_BYTES

MAGIC: Final = b"OTLB"
VERSION: Final = 1
HEADER_BYTES: Final = 88
ALIGNMENT: Final = 8

COLUMNS_CODEC: Final = 1
_RESERVED_CODECS: Final = {2: "Kafka record batches"}

HAS_KEYS: Final = 1 << 0
HAS_HEADERS: Final = 1 << 1
HAS_TIMESTAMPS: Final = 1 << 2
SPARSE_SEQUENCE: Final = 1 << 3
COMPRESSION_SHIFT: Final = 4
_COMPRESSION_BITS: Final = 0b11 << COMPRESSION_SHIFT
_KNOWN_FLAGS: Final = 0b11_1111

Compression = Literal["none", "lz4", "zstd"]
COMPRESSIONS: Final[tuple[Compression, ...]] = ("none", "lz4", "zstd")

NO_PRODUCER: Final = bytes(16)

TIMESTAMP_LIMIT: Final = 2**62
"""Timestamps lie between minus and plus this, so that their differences fit into 64 bits."""
MAX_RAW_BYTES: Final = LARGEST_MESSAGE_BYTES + 2**20
"""The largest body: one message of the largest size and what its columns take."""
_ALWAYS_DECOMPRESSED: Final = 64 * 2**20
_MOST_EXPANSION: Final = 16

_SMALLEST_BODY: Final = 12
"""A column's head and the first of its offsets; each message adds at least one more offset."""
_OFFSET_BYTES: Final = 4
_LARGEST_NUMBER: Final = 2**63 - 1

_PRODUCER_PART = struct.Struct("<4sBBHIIIqq16sIQ")
_LOG_PART = struct.Struct("<Qq")
_ALL = struct.Struct("<4sBBHIIIqq16sIQIQqI")
_CRC = struct.Struct("<I")
_CONTENT_CRC_AT = _PRODUCER_PART.size
_LOG_PART_AT = _CONTENT_CRC_AT + 4
_HEADER_CRC_AT = _LOG_PART_AT + _LOG_PART.size
assert _HEADER_CRC_AT + 4 == _ALL.size == HEADER_BYTES  # the drawing above, checked at import


class Header(NamedTuple):
    """One header, decoded. Field by field the drawing in this module's docstring."""

    magic: bytes
    version: int
    codec: int
    flags: int
    count: int  # type: ignore[assignment]  # the number of messages, not tuple.count
    body_bytes: int
    raw_bytes: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: bytes
    producer_epoch: int
    sequence: int
    content_crc: int
    first_number: int
    append_ms: int
    header_crc: int

    @property
    def size(self) -> int:
        """Bytes of header and body together."""
        return HEADER_BYTES + self.body_bytes

    @property
    def next_number(self) -> int:
        return self.first_number + self.count

    @property
    def compression(self) -> Compression:
        return COMPRESSIONS[(self.flags & _COMPRESSION_BITS) >> COMPRESSION_SHIFT]

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER


def compression_flag(name: str) -> int:
    """The flag bits of a compression by its name."""
    if name not in COMPRESSIONS:
        raise InvalidValue("compression", name, f"choose one of {', '.join(COMPRESSIONS)}")
    return COMPRESSIONS.index(name) << COMPRESSION_SHIFT


def may_expand(body_bytes: int, raw_bytes: int) -> bool:
    """Whether a compressed body of that length may say that it is so long when decompressed.

    It must have shrunk, and a few bytes must not make a reader allocate a gigabyte: above 64 MiB the
    stored bytes themselves must be at least a sixteenth. A body that breaks this is stored as it is.
    """
    return body_bytes < raw_bytes <= max(_ALWAYS_DECOMPRESSED, _MOST_EXPANSION * body_bytes)


def pack_content(fields: tuple[Any, ...], body: Sequence[bytes]) -> tuple[bytes, int]:
    """The producer's part of a header from its twelve fields, with its CRC over itself and the body's *parts*."""
    part = _PRODUCER_PART.pack(*fields)
    crc = google_crc32c.value(part)
    for piece in body:
        crc = google_crc32c.extend(crc, piece)
    return part + _CRC.pack(crc), crc


def pack_numbered(content: bytes, first_number: int, append_ms: int) -> bytes:
    """A whole header: the producer's part as it is, the log's part and the header CRC anew."""
    head = content + _LOG_PART.pack(first_number, append_ms)
    return head + _CRC.pack(google_crc32c.value(head))


def unpack_header(buffer: bytes, position: int = 0) -> Header:
    """Decode and check a header; every length in it is then within what the format allows.

    *buffer* must be `bytes` or another read-only buffer. The body is not looked at.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch(f"{max(len(buffer) - position, 0)} bytes where a header of {HEADER_BYTES} should be")
    header = Header._make(_ALL.unpack_from(buffer, position))
    if header.magic != MAGIC:
        raise CorruptBatch(f"it starts with {bytes(header.magic)!r} and not with {MAGIC!r}")
    if google_crc32c.value(bytes(buffer[position : position + _HEADER_CRC_AT])) != header.header_crc:
        raise CorruptBatch("the header's checksum does not match")
    _check_known(header)
    _check_lengths(header)
    return header


def _check_known(header: Header) -> None:
    if header.version != VERSION:
        raise CorruptBatch(f"format version {header.version} is not known here: a newer ottla may read it")
    if header.codec != COLUMNS_CODEC:
        reserved = _RESERVED_CODECS.get(header.codec)
        what = f"is reserved for {reserved} and not read" if reserved else "is not known"
        raise CorruptBatch(f"body codec {header.codec} {what} by this version: a newer ottla may read it")
    if header.flags & ~_KNOWN_FLAGS or header.flags >> COMPRESSION_SHIFT >= len(COMPRESSIONS):
        raise CorruptBatch(f"flags {header.flags:#x} are not known here: a newer ottla may read it")


def _check_lengths(header: Header) -> None:
    stored, raw = header.body_bytes, header.raw_bytes
    if header.count < 1 or raw < _SMALLEST_BODY + _OFFSET_BYTES * header.count or stored % ALIGNMENT:
        raise CorruptBatch(f"a count of {header.count} in {raw} bytes, {stored} as stored, cannot be")
    if raw > MAX_RAW_BYTES or not (may_expand(stored, raw) if header.flags & _COMPRESSION_BITS else stored == raw):
        raise CorruptBatch(f"{stored} stored bytes that say they are {raw:,} ({header.compression}) are refused")
    if not -TIMESTAMP_LIMIT <= header.min_timestamp_ms <= header.max_timestamp_ms < TIMESTAMP_LIMIT:
        raise CorruptBatch(f"timestamps of {header.min_timestamp_ms} to {header.max_timestamp_ms} cannot be")
    if header.first_number + header.count > _LARGEST_NUMBER or abs(header.append_ms) >= TIMESTAMP_LIMIT:
        raise CorruptBatch(f"a first number of {header.first_number} at {header.append_ms} ms cannot be")


def check_content(header: Header, content: bytes, body: bytes) -> None:
    """Raise `CorruptBatch` unless *body* is what the producer packed under this header."""
    crc = google_crc32c.extend(google_crc32c.value(content[:_CONTENT_CRC_AT]), body)
    if crc != header.content_crc:
        raise CorruptBatch("the body's checksum does not match")


def content_of(header_bytes: bytes) -> bytes:
    """The producer's part of a whole header, as `pack_numbered` takes it."""
    return header_bytes[:_LOG_PART_AT]
