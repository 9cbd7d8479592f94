"""A batch: the unit that is packed, sent, checksummed, stored and handed to Spark. No I/O.

A batch is immutable. Its body stays as the buffers that it was packed from or read as, so that
writing one is `writev` and reading one is a slice; columns are decoded when someone asks.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from ottla.batch.body import pack_columns, unpack_columns
from ottla.batch.columns import Columns
from ottla.batch.header import (
    ALIGNMENT,
    COLUMNS_CODEC,
    HAS_TIMESTAMPS,
    HEADER_BYTES,
    MAGIC,
    MAX_RAW_BYTES,
    NO_PRODUCER,
    SPARSE_SEQUENCE,
    VERSION,
    Compression,
    Header,
    check_content,
    compression_flag,
    content_of,
    may_expand,
    pack_content,
    pack_numbered,
    unpack_header,
)
from ottla.batch.message_headers import distinct_headers
from ottla.errors import CorruptBatch, InvalidValue

_LENGTH = struct.Struct("<Q")
_EPOCHS = 2**32
_SEQUENCES = 2**63


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who packed a batch: what makes a retry recognisable."""

    producer_id: bytes
    """Sixteen bytes, not all zero."""
    epoch: int
    sequence: int
    sparse: bool = False
    """The producer's sequences rise but may skip; one at or below the last is a duplicate."""

    def __post_init__(self) -> None:
        if not isinstance(self.producer_id, bytes) or len(self.producer_id) != len(NO_PRODUCER):
            raise InvalidValue("producer id", self.producer_id, f"it must be {len(NO_PRODUCER)} bytes")
        if self.producer_id == NO_PRODUCER:
            raise InvalidValue("producer id", self.producer_id, "zero bytes mean no producer: choose others")
        if not 0 <= self.epoch < _EPOCHS:
            raise InvalidValue("producer epoch", self.epoch, "it must be at least 0 and fit into 32 bits")
        if not 0 <= self.sequence < _SEQUENCES:
            raise InvalidValue("sequence", self.sequence, "it must be at least 0 and fit into 63 bits")


class Batch:
    """Messages that are whole or absent together, with the header that describes them."""

    __slots__ = ("_body", "_columns", "_content", "header")

    def __init__(self, header: Header, content: bytes, body: list[pa.Buffer | bytes], columns: Columns | None) -> None:
        self.header = header
        self._content = content
        self._body = body
        self._columns = columns

    @classmethod
    def pack(cls, columns: Columns, *, compression: Compression = "none", stamp: Stamp | None = None) -> Self:
        """Pack columns of at least one message; the batch has no numbers yet.

        A body that does not shrink is stored as it is. The batch holds on to no more memory than its own
        messages take, even if *columns* is a small slice of something large.
        """
        if not len(columns):
            raise InvalidValue("batch", "of no messages", "give at least one message")
        compressed_flag = compression_flag(compression)
        columns = columns.exact()
        flags, low, high, body = pack_columns(columns)
        raw_bytes = body_bytes = sum(map(len, body))
        if raw_bytes > MAX_RAW_BYTES:
            raise InvalidValue("batch", f"of {raw_bytes:,} bytes", f"it holds at most {MAX_RAW_BYTES:,}: make several")
        kept: Columns | None = columns
        if compressed_flag and (compressed := _compressed(body, raw_bytes, compression)):
            body, body_bytes = compressed, sum(map(len, compressed))
            flags |= compressed_flag
            kept = None
        producer_id, epoch, sequence = NO_PRODUCER, 0, 0
        if stamp is not None:
            producer_id, epoch, sequence = stamp.producer_id, stamp.epoch, stamp.sequence
            flags |= SPARSE_SEQUENCE if stamp.sparse else 0
        fields = (
            MAGIC, VERSION, COLUMNS_CODEC, flags, len(columns), body_bytes, raw_bytes, low, high,
            producer_id, epoch, sequence,
        )  # fmt: skip
        content, crc = pack_content(fields, body)
        return cls(Header(*fields, crc, 0, 0, 0), content, body, kept)

    @classmethod
    def parse(cls, buffer: bytes | pa.Buffer, position: int = 0, *, max_raw_bytes: int = MAX_RAW_BYTES) -> Self:
        """The batch at *position*, pointing into *buffer*; header and body are checked, columns are not yet.

        Nothing is decompressed before someone asks for the columns, and never more than *max_raw_bytes*.
        """
        body_at = position + HEADER_BYTES
        head = bytes(buffer[position:body_at])
        header = unpack_header(head)
        if len(buffer) - body_at < header.body_bytes:
            raise CorruptBatch(f"{len(buffer) - body_at} bytes where a body of {header.body_bytes} should be")
        if header.raw_bytes > max_raw_bytes:
            raise CorruptBatch(f"a body of {header.raw_bytes:,} bytes is over the {max_raw_bytes:,} that are allowed")
        content = content_of(head)
        body = pa.py_buffer(buffer).slice(body_at, header.body_bytes)
        check_content(header, content, body)
        return cls(header, content, [_aligned(body)], None)

    @classmethod
    def parse_all(cls, buffer: bytes | pa.Buffer) -> Iterator[Self]:
        """Every batch in *buffer*, which must hold whole batches back to back."""
        position = 0
        while position < len(buffer):
            batch = cls.parse(buffer, position)
            yield batch
            position += batch.header.size

    def numbered(self, first_number: int, append_ms: int) -> "Batch":
        """The same batch with the log's numbers; the body is shared, not read."""
        header = self.header._replace(first_number=first_number, append_ms=append_ms)
        return Batch(header, self._content, self._body, self._columns)

    @property
    def count(self) -> int:
        return self.header.count

    @property
    def size(self) -> int:
        """Bytes as stored."""
        return HEADER_BYTES + self.header.body_bytes

    @property
    def first_number(self) -> int:
        return self.header.first_number

    @property
    def next_number(self) -> int:
        return self.header.first_number + self.header.count

    def parts(self) -> list[pa.Buffer | bytes]:
        """The stored form, as buffers to be written one after another."""
        return [pack_numbered(self._content, self.header.first_number, self.header.append_ms), *self._body]

    def to_bytes(self) -> bytes:
        """The stored form in one piece."""
        return b"".join(self.parts())

    def columns(self) -> Columns:
        """The messages' columns, decoded and checked once."""
        if self._columns is None:
            self._columns = unpack_columns(self._raw_body(), self.header)
        return self._columns

    def check(self) -> None:
        """Raise `CorruptBatch` unless every message can be read: the columns, and the headers in them."""
        headers = self.columns().headers
        if headers is not None:
            distinct_headers(headers)

    def timestamps(self) -> pa.Int64Array:
        """Unix milliseconds of each message: the producer's, or else the log's append time."""
        timestamps = self.columns().timestamps
        if timestamps is not None:
            return timestamps
        return pa.repeat(pa.scalar(self.header.append_ms, pa.int64()), self.header.count)

    @property
    def has_timestamps(self) -> bool:
        return bool(self.header.flags & HAS_TIMESTAMPS)

    def _raw_body(self) -> pa.Buffer:
        body = pa.py_buffer(self._body[0] if len(self._body) == 1 else b"".join(self._body))
        return body if self.header.compression == "none" else _decompressed(self.header, body)

    def __repr__(self) -> str:
        return f"Batch({self.count} messages from {self.first_number}, {self.size:,} bytes)"


def _aligned(body: pa.Buffer) -> pa.Buffer:
    """The body, copied if it lies at an odd address: Arrow's kernels expect numbers where processors do."""
    return pa.py_buffer(body.to_pybytes()) if body.address % ALIGNMENT else body


def _compressed(body: list[pa.Buffer | bytes], raw_bytes: int, compression: str) -> list[pa.Buffer | bytes] | None:
    """A compressed body: its exact length in 8 bytes, the compressed columns, zero bytes to a multiple of 8.

    `None` where that is not worth it, or would take a reader too much memory on trust.
    """
    packed = pa.compress(b"".join(body), codec=compression, asbytes=True)  # a buffer would keep its first, full size
    padding = bytes(-len(packed) % ALIGNMENT)
    stored_bytes = _LENGTH.size + len(packed) + len(padding)
    return [_LENGTH.pack(len(packed)), packed, padding] if may_expand(stored_bytes, raw_bytes) else None


def _decompressed(header: Header, body: pa.Buffer) -> pa.Buffer:
    length = _LENGTH.unpack_from(body)[0] if body.size >= _LENGTH.size else body.size
    if length > body.size - _LENGTH.size:
        raise CorruptBatch(f"{length} compressed bytes do not fit into a body of {body.size}")
    packed = body.slice(_LENGTH.size, length)
    try:
        if header.compression == "lz4":
            # A frame of lz4 does not say how long it is, and decompressing it in one go would leave what
            # it does not fill of the buffer as the memory was; a stream tells where it ended.
            raw = pa.CompressedInputStream(pa.BufferReader(packed), "lz4").read_buffer(header.raw_bytes + 1)
        else:
            raw = pa.decompress(packed, header.raw_bytes, codec=header.compression)
    except (OSError, pa.ArrowException) as error:
        raise CorruptBatch(f"the body cannot be decompressed ({error})") from error
    if raw.size != header.raw_bytes:
        raise CorruptBatch(f"the body is {raw.size:,} bytes when decompressed, not {header.raw_bytes:,}")
    return raw
