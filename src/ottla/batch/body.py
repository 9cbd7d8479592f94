"""Body codec 1: columns as bytes, in the Arrow memory layout without its envelope. No I/O.

A body is these buffers back to back, each padded to a multiple of 8 with bytes that are written as zero
and not looked at:

    timestamps   count x int64, milliseconds above the header's smallest timestamp   if the flag is set
    for each present column, in the order values, keys, headers:
        nulls    int32 number of nulls, then uint32 length of the data in bytes
        validity bitmap, least significant bit first, 1 for present                 if it has nulls
        offsets  (count + 1) x int32, the first is 0, never falling, the last is the data's length
        data     the bytes

Values are always there. Unpacking copies no value: it checks everything that a reader relies on, then
points Arrow arrays at the bytes.
"""

import struct
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.columns import Columns
from ottla.batch.header import ALIGNMENT, HAS_HEADERS, HAS_KEYS, HAS_TIMESTAMPS, TIMESTAMP_LIMIT, Header
from ottla.errors import CorruptBatch, InvalidValue

_COLUMN_HEAD = struct.Struct("<iI")
_INT32 = struct.Struct("<i")
_PADDING = tuple(bytes(-size % ALIGNMENT) for size in range(ALIGNMENT))


class Body(NamedTuple):
    """Packed columns, and what the header must say about them."""

    flags: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    parts: list[pa.Buffer | bytes]
    """Buffers to be written one after another."""


def pack_columns(columns: Columns) -> Body:
    """The body of *columns*, which must be exact; its buffers are theirs wherever possible."""
    flags = low = high = 0
    parts: list[pa.Buffer | bytes] = []
    if columns.timestamps is not None:
        flags |= HAS_TIMESTAMPS
        low, high = _span(columns.timestamps)
        if not -TIMESTAMP_LIMIT <= low <= high < TIMESTAMP_LIMIT:
            raise InvalidValue("timestamp", low if low < -TIMESTAMP_LIMIT else high, "give Unix milliseconds")
        parts.append(pc.subtract(columns.timestamps, low).buffers()[1].slice(0, 8 * len(columns)))
    _pack_binary(columns.values, parts)
    if columns.keys is not None:
        flags |= HAS_KEYS
        _pack_binary(columns.keys, parts)
    if columns.headers is not None:
        flags |= HAS_HEADERS
        _pack_binary(columns.headers, parts)
    return Body(flags, low, high, parts)


def _span(timestamps: pa.Int64Array) -> tuple[int, int]:
    span = pc.min_max(timestamps)
    return span["min"].as_py(), span["max"].as_py()


def _pack_binary(array: pa.BinaryArray, parts: list[pa.Buffer | bytes]) -> None:
    validity, offsets, data = array.buffers()
    nulls = array.null_count
    size = 0 if data is None else data.size
    parts.append(_COLUMN_HEAD.pack(nulls, size))
    for buffer in (validity if nulls else None, offsets, data if size else None):
        if buffer is not None:
            parts.append(buffer)
            if padding := _PADDING[buffer.size % ALIGNMENT]:
                parts.append(padding)


def unpack_columns(body: pa.Buffer, header: Header) -> Columns:
    """Columns that point into *body*, after checking everything that a reader will rely on."""
    count, flags = header.count, header.flags
    at = 0
    timestamps = keys = headers = None
    if flags & HAS_TIMESTAMPS:
        buffer, at = _cut(body, at, 8 * count)
        timestamps = _unpack_timestamps(pa.Array.from_buffers(pa.int64(), count, [None, buffer]), header)
    values, at = _unpack_binary(body, at, count)
    if flags & HAS_KEYS:
        keys, at = _unpack_binary(body, at, count)
    if flags & HAS_HEADERS:
        headers, at = _unpack_binary(body, at, count)
    if at != body.size:
        raise CorruptBatch(f"{body.size - at} bytes are left over after the columns")
    return Columns(values=values, keys=keys, headers=headers, timestamps=timestamps)


def _unpack_timestamps(deltas: pa.Int64Array, header: Header) -> pa.Int64Array:
    if _span(deltas) != (0, header.max_timestamp_ms - header.min_timestamp_ms):
        raise CorruptBatch("the timestamps are not those that the header tells of")
    return pc.add(deltas, header.min_timestamp_ms)


def _unpack_binary(body: pa.Buffer, at: int, count: int) -> tuple[pa.BinaryArray, int]:
    head, at = _cut(body, at, _COLUMN_HEAD.size)
    nulls, size = _COLUMN_HEAD.unpack(head)
    if not 0 <= nulls <= count:
        raise CorruptBatch(f"{nulls} nulls among {count} messages cannot be")
    validity = None
    if nulls:
        validity, at = _cut(body, at, (count + 7) // 8)
    offsets, at = _cut(body, at, 4 * (count + 1))
    data, at = _cut(body, at, size)
    if _INT32.unpack_from(offsets)[0] != 0 or _INT32.unpack_from(offsets, 4 * count)[0] != size:
        raise CorruptBatch("a column's offsets do not span its data")
    try:
        array = pa.Array.from_buffers(pa.binary(), count, [validity, offsets, data], null_count=nulls)
        array.validate(full=True)  # offsets that never fall, and as many nulls as were said
    except pa.ArrowInvalid as error:
        raise CorruptBatch(f"a column is malformed ({error})") from error
    return array, at


def _cut(body: pa.Buffer, at: int, length: int) -> tuple[pa.Buffer, int]:
    """The next *length* bytes of the body and where the buffer after them starts."""
    if length > body.size - at:
        raise CorruptBatch(f"a column of {length} bytes does not fit into the {body.size - at} that are left")
    return body.slice(at, length), at + length + (-length % ALIGNMENT)
