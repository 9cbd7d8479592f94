"""A sparse index of a file by number and append time: one batch in every 64 KiB or so.

Between two entries the file is read batch by batch. The stored form beside a sealed segment, all
little-endian, followed by CRC-32C of all before it:

    uint64 bytes of the segment that are indexed, int64 append time of its last batch, uint32 entries,
    then the entries' numbers (uint64 each), append times (int64 each) and positions (uint64 each)

It is a convenience and never the truth: a missing or damaged one is made again from the segment.
"""

import bisect
import struct
from array import array
from typing import Protocol

import google_crc32c

_EVERY_BYTES = 64 * 1024
_HEAD = struct.Struct("<QqI")
_CRC = struct.Struct("<I")


class Indexed(Protocol):
    """What an index must know of a stored batch."""

    @property
    def first_number(self) -> int: ...
    @property
    def append_ms(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes as stored."""


class Index:
    """The sparse index of one file from byte *start* on, filled as far as somebody needed it.

    One thread at a time may add to it; others may look things up meanwhile.
    """

    def __init__(self, start: int = 0) -> None:
        self._start = start
        self.covered = start
        """The file is indexed up to this byte."""
        self.last_ms = 0
        """The append time of the last batch that is covered."""
        self._numbers = array("Q")
        self._times = array("q")
        self._positions = array("Q")

    def add(self, position: int, batch: Indexed) -> None:
        """Take in the batch that follows what is covered."""
        if not self._positions or position - self._positions[-1] >= _EVERY_BYTES:
            self._positions.append(position)  # first: whoever finds a number or a time has its position
            self._times.append(batch.append_ms)
            self._numbers.append(batch.first_number)
        self.covered = position + batch.size
        self.last_ms = batch.append_ms

    def before_number(self, number: int) -> int:
        """A position at or before the batch that holds *number*."""
        at = bisect.bisect_right(self._numbers, number) - 1
        return self._positions[at] if at >= 0 else self._start

    def before_time(self, timestamp_ms: int) -> int:
        """A position at or before the first batch that was appended at or after a time."""
        at = bisect.bisect_left(self._times, timestamp_ms) - 1
        return self._positions[at] if at >= 0 else self._start

    @property
    def first_number(self) -> int | None:
        """The number of the first batch, once one is covered."""
        return self._numbers[0] if self._numbers else None

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
