"""Messages side by side: the columns that a batch is packed from and unpacked to. No I/O.

Columns are Arrow arrays, so that a million messages are a handful of objects. What comes from people
is checked here, and refused with one sentence that names the value; `ottla.batch.arrow` does the same
for Arrow data, and `ottla.batch.body` says how columns become bytes.
"""

import bisect
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch.message_headers import encode_headers
from ottla.errors import InvalidValue
from ottla.model import Headers, Record

_INT32 = struct.Struct("<i")
_OFFSET_BYTES = 4
_TIMESTAMP_BYTES = 8
_BYTES_TYPES = {bytes, bytearray, memoryview, type(None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Records side by side. All columns have the same length; an absent column is all nulls."""

    values: pa.BinaryArray
    keys: pa.BinaryArray | None = None
    headers: pa.BinaryArray | None = None
    """Encoded cells, as `ottla.batch.message_headers` draws them."""
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

    def exact(self) -> "Columns":
        """The same columns in buffers that hold them and nothing else; a slice is copied out of its array."""
        return self._each(_exact)

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> "Columns":
        return Columns(
            values=change(self.values),
            keys=None if self.keys is None else change(self.keys),
            headers=None if self.headers is None else change(self.headers),
            timestamps=None if self.timestamps is None else change(self.timestamps),
        )

    def binaries(self) -> list[pa.BinaryArray]:
        """The columns of bytes that are there: values, keys, headers."""
        return [column for column in (self.values, self.keys, self.headers) if column is not None]

    @property
    def nbytes(self) -> int:
        """Bytes of payload: what the columns hold, without offsets and bitmaps."""
        return sum(_offset(column, len(self)) - _offset(column, 0) for column in self.binaries())

    def largest(self) -> int:
        """The size of the largest message: value, key and headers together."""
        sizes: pa.Array = pa.scalar(0, pa.int64())
        for column in self.binaries():  # in 64 bits: three columns of up to 2 GiB each
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column), 0))
        return int(pc.max(sizes).as_py() or 0)


def split(columns: Columns, max_bytes: int) -> Iterator[Columns]:
    """The same messages in slices of at most *max_bytes* each, or of one message that is larger; no copy.

    What counts is the payload and the 4 bytes (8 for a timestamp) that each cell takes beside it.
    """
    binaries = columns.binaries()
    per_message = _OFFSET_BYTES * len(binaries) + (_TIMESTAMP_BYTES if columns.timestamps is not None else 0)

    def bytes_before(index: int) -> int:
        return per_message * index + sum(_offset(column, index) for column in binaries)

    ends = range(1, len(columns) + 1)
    start = 0
    while start < len(columns):
        limit = bytes_before(start) + max_bytes
        end = max(bisect.bisect_right(ends, limit, start, key=bytes_before), start + 1)
        yield columns.slice(start, end - start)
        start = end


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
        keys=None if keys is None else unless_all_null(binary_array(keys, "keys")),
        headers=None
        if headers is None
        else unless_all_null(binary_array([encode_headers(cell) for cell in headers], "headers")),
        timestamps=None if timestamps is None else _timestamp_array(timestamps),
    )


def columns_of_records(records: Iterable[Record], now_ms: int) -> Columns:
    """Columns from records; where only some have a timestamp, the others get *now_ms*."""
    rows = list(records)
    for row in rows:
        if not isinstance(row, Record):
            raise InvalidValue("record", row, "give ottla.Record objects, or values as bytes")
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
        for value in values:
            if not isinstance(value, bytes | bytearray | memoryview | None):
                raise InvalidValue(what, value, "messages are bytes: encode text first, as in 'text'.encode()")
    array = pa.array(values, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        raise InvalidValue(what, f"of {len(values):,} elements", "they are over 2 GiB together: send fewer at once")
    return array


def _timestamp_array(timestamps: Sequence[int]) -> pa.Int64Array:
    for time in timestamps:
        if type(time) is not int or not -(2**63) <= time < 2**63:
            raise InvalidValue("timestamp", time, "give whole Unix milliseconds, one for every message or none at all")
    return pa.array(timestamps, pa.int64())


def unless_all_null(array: pa.Array) -> pa.Array | None:
    """The column, or `None` for an absent one: the two mean the same."""
    return None if array.null_count == len(array) else array


def _exact(array: pa.Array) -> pa.Array:
    """The same array with buffers that start at its first element and end with its last."""
    return array if _is_exact(array) else pa.concat_arrays([array])  # which copies, and rebases the offsets


def _is_exact(array: pa.Array) -> bool:
    if array.offset:
        return False
    count = len(array)
    if array.type == pa.int64():
        return bool(array.buffers()[1].size == _TIMESTAMP_BYTES * count)
    validity, offsets, data = array.buffers()
    return (
        offsets.size == _OFFSET_BYTES * (count + 1)
        and _INT32.unpack_from(offsets)[0] == 0
        and (0 if data is None else data.size) == _INT32.unpack_from(offsets, _OFFSET_BYTES * count)[0]
        and (validity is None or validity.size == (count + 7) // 8)
    )


def _offset(array: pa.BinaryArray, index: int) -> int:
    """Where cell *index* starts in the data."""
    offsets: Any = array.buffers()[1]
    return int(_INT32.unpack_from(offsets, _OFFSET_BYTES * (array.offset + index))[0]) if offsets else 0
