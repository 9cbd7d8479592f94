"""A batch: the unit that is packed, sent, checksummed, stored and handed to Spark. No I/O.

A batch is immutable. Its body stays as the buffers that it was packed from or read as, so that
writing one is `writev` and reading one is a slice; columns are decoded when someone asks.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from ottla.batch.columns import Columns, pack_columns, unpack_columns
from ottla.batch.header import (
    ALIGNMENT,
    COLUMNS_CODEC,
    HAS_TIMESTAMPS,
    HEADER_BYTES,
    MAGIC,
    NO_PRODUCER,
    SPARSE_SEQUENCE,
    VERSION,
    Compression,
    Header,
    check_content,
    compression_flag,
    content_of,
    pack_content,
    pack_numbered,
    unpack_header,
)
from ottla.errors import CorruptBatch, InvalidValue
from ottla.settings import LARGEST_MESSAGE_BYTES

_LENGTH = struct.Struct("<Q")
_MAX_RAW_BYTES = LARGEST_MESSAGE_BYTES + 2**20
"""A batch that says it is larger when decompressed is refused before anything is allocated."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who packed a batch: what makes a retry recognisable."""

    producer_id: bytes
    """Sixteen bytes, not all zero."""
    epoch: int
    sequence: int
    sparse: bool = False
    """The producer's sequences rise but may skip; one at or below the last is a duplicate."""


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
        """Pack columns of at least one message; the batch has no numbers yet."""
        if not len(columns):
            raise InvalidValue("batch", "of no messages", "give at least one message")
        flags, low, high, body = pack_columns(columns)
        flags |= compression_flag(compression)
        raw_bytes = sum(map(len, body))
        if compression != "none":
            body = _compressed(body, compression)
        producer_id, epoch, sequence = NO_PRODUCER, 0, 0
        if stamp is not None:
            producer_id, epoch, sequence = stamp.producer_id, stamp.epoch, stamp.sequence
            flags |= SPARSE_SEQUENCE if stamp.sparse else 0
        header = Header(
            MAGIC, VERSION, COLUMNS_CODEC, flags, len(columns), sum(map(len, body)), raw_bytes, low, high,
            producer_id, epoch, sequence, 0, 0, 0, 0,
        )  # fmt: skip
        content = pack_content(header, body)
        return cls(unpack_header(pack_numbered(content, 0, 0)), content, body, columns)

    @classmethod
    def parse(cls, buffer: bytes | pa.Buffer, position: int = 0) -> Self:
        """The batch at *position*, pointing into *buffer*; header and body are checked, columns are not yet."""
        header = unpack_header(buffer, position)
        body_at = position + HEADER_BYTES
        if len(buffer) - body_at < header.body_bytes:
            raise CorruptBatch(f"{len(buffer) - body_at} bytes where a body of {header.body_bytes} should be")
        if header.codec != COLUMNS_CODEC or header.raw_bytes > _MAX_RAW_BYTES:
            raise CorruptBatch(f"codec {header.codec} with {header.raw_bytes:,} bytes is not known here")
        content = content_of(bytes(buffer[position:body_at]))
        body = pa.py_buffer(buffer).slice(body_at, header.body_bytes)
        check_content(header, content, body)
        return cls(header, content, [body], None)

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
            header = self.header
            self._columns = unpack_columns(self._raw_body(), header.count, header.flags, header.min_timestamp_ms)
        return self._columns

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
        header = self.header
        body = pa.py_buffer(self._body[0] if len(self._body) == 1 else b"".join(self._body))
        if header.compression != "none":
            return _decompressed(header, body)
        if header.raw_bytes != header.body_bytes:
            raise CorruptBatch("an uncompressed body has two lengths")
        return body

    def __repr__(self) -> str:
        return f"Batch({self.count} messages from {self.first_number}, {self.size:,} bytes)"


def _compressed(body: list[pa.Buffer | bytes], compression: Compression) -> list[pa.Buffer | bytes]:
    """A compressed body: its exact length in 8 bytes, the compressed columns, zero bytes to a multiple of 8."""
    packed = pa.compress(b"".join(body), codec=compression)
    return [_LENGTH.pack(packed.size), packed, bytes(-packed.size % ALIGNMENT)]


def _decompressed(header: Header, body: pa.Buffer) -> pa.Buffer:
    length = _LENGTH.unpack_from(body)[0] if body.size >= _LENGTH.size else body.size
    if length > body.size - _LENGTH.size:
        raise CorruptBatch(f"{length} compressed bytes do not fit into a body of {body.size}")
    try:
        raw = pa.decompress(body.slice(_LENGTH.size, length), header.raw_bytes, codec=header.compression)
    except (OSError, pa.ArrowException) as error:
        raise CorruptBatch(f"the body cannot be decompressed ({error})") from error
    if raw.size != header.raw_bytes:
        raise CorruptBatch(f"the body is {raw.size:,} bytes when decompressed, not {header.raw_bytes:,}")
    return raw
