"""Finding a batch inside a segment: a sparse index by number and append time, and scanning by headers.

An index knows one batch in every 64 KiB or so; between two of them the headers are read one by one. Its
stored form beside a sealed segment, all little-endian, followed by CRC-32C of all before it:

    uint64 bytes of the segment that are indexed, int64 append time of its last batch, uint32 entries,
    then the entries' numbers (uint64 each), append times (int64 each) and positions (uint64 each)

It is a convenience and never the truth: a missing or damaged one is made again from the segment.
"""

import bisect
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

import google_crc32c

from ottla.batch import HEADER_BYTES, Header, unpack_header
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.files import Files

_EVERY_BYTES = 64 * 1024
_WINDOW_BYTES = 64 * 1024
_HEAD = struct.Struct("<QqI")
_CRC = struct.Struct("<I")


def scan_headers(files: Files, fd: int, path: Path, position: int, limit: int) -> Iterator[tuple[int, Header]]:
    """Position and header of each batch from *position* to *limit*, which lie at the edges of batches.

    Bodies are skipped, not read. Anything else than whole batches is `CorruptLog`.
    """
    window, window_at = b"", position
    while position < limit:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = files.read_at(fd, min(_WINDOW_BYTES, limit - position), position), position
        try:
            header = unpack_header(window, position - window_at)
        except CorruptBatch as error:
            raise CorruptLog(str(path), position, error.reason) from error
        if position + header.size > limit:
            raise CorruptLog(str(path), position, f"a batch of {header.size} bytes ends beyond byte {limit}")
        yield position, header
        position += header.size


class Index:
    """The sparse index of one segment, filled as far as somebody needed it. Not thread-safe."""

    def __init__(self) -> None:
        self.covered = 0
        """Bytes from the segment's start that are indexed."""
        self.last_ms = 0
        """The append time of the last batch that is covered."""
        self._numbers = array("Q")
        self._times = array("q")
        self._positions = array("Q")

    def add(self, position: int, header: Header) -> None:
        """Take in the batch that follows what is covered."""
        if not self._positions or position - self._positions[-1] >= _EVERY_BYTES:
            self._numbers.append(header.first_number)
            self._times.append(header.append_ms)
            self._positions.append(position)
        self.covered = position + header.size
        self.last_ms = header.append_ms

    def before_number(self, number: int) -> int:
        """A position at or before the batch that holds *number*."""
        at = bisect.bisect_right(self._numbers, number) - 1
        return self._positions[at] if at >= 0 else 0

    def before_time(self, timestamp_ms: int) -> int:
        """A position at or before the first batch that was appended at or after a time."""
        at = bisect.bisect_left(self._times, timestamp_ms) - 1
        return self._positions[at] if at >= 0 else 0

    @property
    def first_ms(self) -> int | None:
        """The append time of the first batch, once one is covered."""
        return self._times[0] if self._times else None

    def encode(self) -> bytes:
        """The stored form, drawn in this module's docstring."""
        columns = b"".join(column.tobytes() for column in (self._numbers, self._times, self._positions))
        data = _HEAD.pack(self.covered, self.last_ms, len(self._numbers)) + columns
        return data + _CRC.pack(google_crc32c.value(data))

    @classmethod
    def decode(cls, stored: bytes) -> "Index | None":
        """The index, or `None` if the bytes are no whole one."""
        data = stored[:-4]
        if len(data) < _HEAD.size or _CRC.unpack(stored[-4:])[0] != google_crc32c.value(data):
            return None
        index = cls()
        index.covered, index.last_ms, count = _HEAD.unpack_from(data)
        if len(data) != _HEAD.size + 24 * count:
            return None
        for number, column in enumerate((index._numbers, index._times, index._positions)):
            start = _HEAD.size + 8 * count * number
            column.frombytes(data[start : start + 8 * count])
        return index
