"""Body codec 1: messages as columns, in the Arrow memory layout without its envelope. No I/O.

A body is these buffers back to back, each padded with zero bytes to a multiple of 8:

    timestamps   count x int64, milliseconds above the header's smallest timestamp   if the flag is set
    for each present column, in the order values, keys, headers:
        nulls    int32 number of nulls, then int32 length of the data in bytes
        validity bitmap, least significant bit first, 1 for present                 if it has nulls
        offsets  (count + 1) x int32, the first is 0, never falling, the last is the data's length
        data     the bytes

Values are always there. One message's headers are one cell: for each header a uint32 length of the
name, the name in UTF-8, an int32 length of the value (-1 for none) and the value; no headers is a null.
Unpacking copies nothing: it checks every length and then points Arrow arrays at the bytes.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.header import ALIGNMENT, HAS_HEADERS, HAS_KEYS, HAS_TIMESTAMPS
from ottla.errors import CorruptBatch, InvalidValue
from ottla.model import Headers, Record

_COLUMN_HEAD = struct.Struct("<iI")
_UINT32 = struct.Struct("<I")
_INT32 = struct.Struct("<i")
_TIMESTAMP_LIMIT = 2**62
_BYTES_TYPES = {bytes, bytearray, memoryview, type(None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Records side by side. All columns have the same length; an absent column is all nulls."""

    values: pa.BinaryArray
    keys: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None
    """Encoded as this module's docstring says; `decode_headers` reads a cell."""
    timestamps: pa.Int64Array | None = None
    """Unix milliseconds, without nulls; absent where the log's append time counts."""

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, length: int) -> "Columns":
        """A view of part of the columns; nothing is copied."""
        return self._each(lambda column: column.slice(start, length))

    def take(self, indices: pa.Array) -> "Columns":
        """The rows at *indices*, in that order."""
        return self._each(lambda column: column.take(indices))

    def _each(self, change: Any) -> "Columns":
        return Columns(
            values=change(self.values),
            keys=None if self.keys is None else change(self.keys),
            headers=None if self.headers is None else change(self.headers),
            timestamps=None if self.timestamps is None else change(self.timestamps),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of payload: what the columns hold, without offsets and bitmaps."""
        return sum(_data_bytes(c) for c in (self.values, self.keys, self.headers) if c is not None)

    def largest(self) -> int:
        """The size of the largest message: value, key and headers together."""
        sizes = pc.fill_null(pc.binary_length(self.values), 0)
        for column in (self.keys, self.headers):
            if column is not None:
                sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column), 0))
        return int(pc.max(sizes).as_py() or 0)


def columns_of_values(values: Sequence[bytes | None]) -> Columns:
    """Columns from a list of values and nothing else: the fast way."""
    return Columns(values=binary_array(values, "values"))


def columns_of_lists(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Headers] | None = None,
    timestamps: Sequence[int] | None = None,
) -> Columns:
    """Columns from lists of equal length; an absent list is an absent column."""
    for name, column in (("keys", keys), ("headers", headers), ("timestamps", timestamps)):
        if column is not None and len(column) != len(values):
            raise InvalidValue(name, f"of length {len(column)}", f"there are {len(values)} values: give one for each")
    return Columns(
        values=binary_array(values, "values"),
        keys=None if keys is None else _unless_all_null(binary_array(keys, "keys")),
        headers=None if headers is None else _unless_all_null(pa.array(map(encode_headers, headers), pa.binary())),
        timestamps=None if timestamps is None else _timestamp_array(timestamps),
    )


def columns_of_records(records: Iterable[Record], now_ms: int) -> Columns:
    """Columns from records; where only some have a timestamp, the others get *now_ms*."""
    rows = list(records)
    if stranger := next((row for row in rows if not isinstance(row, Record)), None):
        raise InvalidValue("record", stranger, "give ottla.Record objects, or values as bytes")
    times = [row.timestamp_ms for row in rows]
    timed = any(time is not None for time in times)
    return columns_of_lists(
        [row.value for row in rows],
        [row.key for row in rows] if any(row.key is not None for row in rows) else None,
        [row.headers for row in rows] if any(row.headers for row in rows) else None,
        [now_ms if time is None else time for time in times] if timed else None,
    )


def binary_array(values: Sequence[bytes | None], what: str) -> pa.BinaryArray:
    """An Arrow array of bytes from a sequence, or one sentence about the element that is not bytes."""
    if not set(map(type, values)) <= _BYTES_TYPES:  # Arrow would take text in silence, and encode it
        wrong = next(value for value in values if type(value) not in _BYTES_TYPES)
        raise InvalidValue(what, wrong, "messages are bytes: encode text first, as in 'text'.encode()")
    array = pa.array(values, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        raise InvalidValue(what, f"of {len(values):,} elements", "they are over 2 GiB together: send fewer at once")
    return array


def _timestamp_array(timestamps: Sequence[int]) -> pa.Int64Array:
    try:
        array = pa.array(timestamps, pa.int64())
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise InvalidValue("timestamps", timestamps, "give whole Unix milliseconds") from error
    if array.null_count:
        raise InvalidValue("timestamps", timestamps, "give one for every message, or none at all")
    return array


def _unless_all_null(array: pa.Array) -> pa.Array | None:
    return None if array.null_count == len(array) else array


def encode_headers(headers: Headers) -> bytes | None:
    """One message's headers as a cell; `None` for none."""
    if not headers:
        return None
    parts: list[bytes] = []
    for pair in headers.items() if isinstance(headers, dict) else headers:
        try:
            name, value = pair
            encoded = name.encode()
            size = -1 if value is None else len(value)
            parts += (_UINT32.pack(len(encoded)), encoded, _INT32.pack(size), b"" if value is None else bytes(value))
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidValue("header", pair, "a header is a name (text) and a value (bytes or None)") from error
    return b"".join(parts)


def decode_headers(cell: bytes | None) -> Headers:
    """One message's headers from its cell."""
    headers: list[tuple[str, bytes | None]] = []
    at = 0
    try:
        while cell is not None and at < len(cell):
            (length,) = _UINT32.unpack_from(cell, at)
            name = str(cell[at + 4 : at + 4 + length], "utf-8")
            at += 4 + length
            (size,) = _INT32.unpack_from(cell, at)
            at += 4
            if size < -1 or at + max(size, 0) > len(cell):
                raise CorruptBatch(f"a header says it has {size} bytes")
            headers.append((name, None if size < 0 else cell[at : at + size]))
            at += max(size, 0)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptBatch(f"the headers of a message are malformed ({error})") from error
    return tuple(headers)


def pack_columns(columns: Columns) -> tuple[int, int, int, list[pa.Buffer | bytes]]:
    """Flags, smallest and largest timestamp, and the body's buffers, ready to be written one after another."""
    flags = low = high = 0
    parts: list[pa.Buffer | bytes] = []
    if columns.timestamps is not None:
        span = pc.min_max(columns.timestamps)
        low, high = span["min"].as_py(), span["max"].as_py()
        if not -_TIMESTAMP_LIMIT <= low <= high < _TIMESTAMP_LIMIT:
            raise InvalidValue("timestamp", low if low < -_TIMESTAMP_LIMIT else high, "give Unix milliseconds")
        flags |= HAS_TIMESTAMPS
        parts.append(_exact(pc.subtract(columns.timestamps, low)).buffers()[1].slice(0, 8 * len(columns)))
    _pack_binary(columns.values, parts)
    for flag, column in ((HAS_KEYS, columns.keys), (HAS_HEADERS, columns.headers)):
        if column is not None:
            flags |= flag
            _pack_binary(column, parts)
    return flags, low, high, parts


def _pack_binary(array: pa.BinaryArray, parts: list[pa.Buffer | bytes]) -> None:
    array = _exact(array)
    validity, offsets, data = array.buffers()
    count, nulls = len(array), array.null_count
    size = _data_bytes(array)
    parts.append(_COLUMN_HEAD.pack(nulls, size))
    if nulls:
        _pad(parts, validity.slice(0, (count + 7) // 8))
    _pad(parts, offsets.slice(0, 4 * (count + 1)))
    if size:
        _pad(parts, data.slice(0, size))


def _exact(array: pa.Array) -> pa.Array:
    """The same array with buffers that start at its first element."""
    if array.offset == 0 and not _first_offset(array):
        return array
    return pa.concat_arrays([array.slice(0, 0), array])  # concatenation copies and rebases the offsets


def _first_offset(array: pa.Array) -> int:
    if not pa.types.is_binary(array.type):
        return 0
    return int(_INT32.unpack_from(array.buffers()[1], 4 * array.offset)[0])


def _data_bytes(array: pa.BinaryArray) -> int:
    offsets = array.buffers()[1]
    if offsets is None or not len(array):
        return 0
    (start,) = _INT32.unpack_from(offsets, 4 * array.offset)
    (end,) = _INT32.unpack_from(offsets, 4 * (array.offset + len(array)))
    return int(end - start)


def _pad(parts: list[pa.Buffer | bytes], buffer: pa.Buffer) -> None:
    parts.append(buffer)
    if missing := -buffer.size % ALIGNMENT:
        parts.append(bytes(missing))


def unpack_columns(body: pa.Buffer, count: int, flags: int, min_timestamp_ms: int) -> Columns:
    """Columns that point into *body*, after checking everything that a reader will rely on."""
    at = 0
    timestamps = None
    if flags & HAS_TIMESTAMPS:
        buffer, at = _cut(body, at, 8 * count)
        deltas = pa.Array.from_buffers(pa.int64(), count, [None, buffer])
        timestamps = pc.add(deltas, min_timestamp_ms)
    values, at = _unpack_binary(body, at, count)
    keys = headers = None
    if flags & HAS_KEYS:
        keys, at = _unpack_binary(body, at, count)
    if flags & HAS_HEADERS:
        headers, at = _unpack_binary(body, at, count)
    if at != body.size:
        raise CorruptBatch(f"{body.size - at} bytes are left over after the columns")
    return Columns(values=values, keys=keys, headers=headers, timestamps=timestamps)


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
    array = pa.Array.from_buffers(pa.binary(), count, [validity, offsets, data], null_count=nulls)
    if _INT32.unpack_from(offsets)[0] != 0 or _INT32.unpack_from(offsets, 4 * count)[0] != size:
        raise CorruptBatch("a column's offsets do not span its data")
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptBatch(f"a column is malformed ({error})") from error
    return array, at


def _cut(body: pa.Buffer, at: int, length: int) -> tuple[pa.Buffer, int]:
    """The next *length* bytes of the body and where the buffer after them starts."""
    if length > body.size - at:
        raise CorruptBatch(f"a column of {length} bytes does not fit into the {body.size - at} that are left")
    return body.slice(at, length), at + length + (-length % ALIGNMENT)
