"""Reading one partition: a piece at a time, and the next one already on its way to those who read on.

Pieces are of about a megabyte, which servers are best at. What was read ahead is used only by a read that goes on
where the last one ended, only if there is something in it, and only while it is fresh: at the tail every read asks
the server, and so sees what was acknowledged before it began.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from ottla.batch import Batch
from ottla.errors import CorruptBatch, OttlaError
from ottla.model import Bounds
from ottla.storage.disk import forks
from ottla.storage.remote.calls import Calls, Underway
from ottla.storage.remote.stream import Lost
from ottla.v1 import log_pb2 as pb

PIECE_BYTES: Final = 2**20
_FRESH_S: Final = 1.0
"""How old a piece that was read ahead may be: retention or deletion may have come since."""
WAIT_MARGIN_S: Final = 5.0
"""How much longer than it was told a waiting call may take to be answered."""
_BATCHES: Final = pb.FetchResponse.DESCRIPTOR.fields_by_name["batches"].number
_BOUNDS: Final = pb.FetchResponse.DESCRIPTOR.fields_by_name["bounds"].number
_VARINT, _EIGHT_BYTES, _COUNTED, _FOUR_BYTES = 0, 1, 2, 5
"""How the fields of a message may be encoded."""


class _Piece:
    """A piece that was asked for, or has come."""

    __slots__ = ("answer", "asked", "start", "underway")

    def __init__(self, start: int, underway: Underway | None, answer: pa.Buffer | None = None) -> None:
        self.start = start
        self.underway = underway
        self.answer = answer
        self.asked = time.monotonic()

    def fits(self, start: int) -> bool:
        return self.start == start and time.monotonic() - self.asked < _FRESH_S

    def drop(self) -> None:
        if self.underway is not None:
            self.underway.connection.cancel(self.underway.stream)


class Reading:
    """Fetches pieces of one partition. Safe from many threads, of which one at a time is helped by reading ahead."""

    def __init__(self, calls: Calls, names: dict[str, Any], partition: int) -> None:
        self._calls = calls
        self._names = names
        self._partition = partition
        self._lock = threading.Lock()
        self._ended = 0
        """Where the last read ended."""
        self._ahead: _Piece | None = None
        forks.register(self)

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._ahead = None

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        """Batches as `PartitionStore.read` promises them; never much more than a megabyte."""
        size = min(max(max_bytes, 1), PIECE_BYTES)
        with self._lock:
            ahead, self._ahead = self._ahead, None
            reads_on = start == self._ended
        batches, bounds = self._arrived(ahead, start)
        if not batches:
            batches, bounds = parse_fetched(self._fetched(start, size))
        batches = batches[: _fitting(batches, max_bytes)]
        end = self._ended = batches[-1].next_number if batches else start
        if reads_on and end < bounds.next:
            self._read_ahead(end, size)
        return batches

    def wait(self, number: int, seconds: float) -> bool:
        """Wait for a message at or above *number*, and keep it for the read that follows; False if none came."""
        deadline = time.monotonic() + seconds + WAIT_MARGIN_S
        answer = self._fetched(number, PIECE_BYTES, wait_ms=round(seconds * 1000), deadline=deadline)
        batches, _ = parse_fetched(answer)
        if batches:
            self._keep(_Piece(number, None, answer))
        return bool(batches)

    def drop(self) -> None:
        """Forget what was read ahead."""
        self._keep(None)

    def _keep(self, piece: _Piece | None) -> None:
        with self._lock:
            before, self._ahead = self._ahead, piece
        if before is not None:
            before.drop()

    def _arrived(self, ahead: _Piece | None, start: int) -> tuple[list[Batch], Bounds]:
        """What was read ahead, if it is of use."""
        nothing: tuple[list[Batch], Bounds] = [], Bounds(0, 0)
        if ahead is None:
            return nothing
        if not ahead.fits(start):
            ahead.drop()
            return nothing
        if ahead.underway is not None:
            try:
                ahead.answer = self._calls.finished(ahead.underway, self._calls.deadline())
            except (OttlaError, Lost):  # asked again, it will be told again
                return nothing
        assert ahead.answer is not None
        return parse_fetched(ahead.answer)

    def _request(self, start: int, size: int, wait_ms: int = 0) -> pb.FetchRequest:
        fields = self._names | {"from": start, "max_bytes": size, "wait_ms": wait_ms}
        return pb.FetchRequest(**fields)

    def _fetched(self, start: int, size: int, *, wait_ms: int = 0, deadline: float | None = None) -> pa.Buffer:
        request = self._request(start, size, wait_ms)
        return self._calls.unary("Fetch", request, partition=self._partition, deadline=deadline)

    def _read_ahead(self, start: int, size: int) -> None:
        deadline = self._calls.deadline()
        try:
            channel = self._calls.brokers.owner(self._partition, deadline)
            piece = _Piece(start, self._calls.start(channel, "Fetch", self._request(start, size), deadline))
        except (OttlaError, Lost):  # then it is asked for when it is needed
            return
        self._keep(piece)


def parse_fetched(answer: pa.Buffer) -> tuple[list[Batch], Bounds]:
    """The batches in the bytes of a `FetchResponse`, not copied, and the partition's bounds."""
    batches: list[Batch] = []
    bounds = Bounds(0, 0)
    for field, content in _fields(answer):
        if field == _BATCHES:
            batches += Batch.parse_all(content)
        elif field == _BOUNDS:
            sent = pb.Bounds.FromString(content.to_pybytes())
            bounds = Bounds(sent.first, sent.next)
    return batches, bounds


def _fields(message: pa.Buffer) -> Iterator[tuple[int, pa.Buffer]]:
    """The fields that are counted bytes, by their numbers; a newer server may send others beside them."""
    data = memoryview(message)
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            kind = tag & 7
            if kind == _COUNTED:
                size, at = _varint(data, at)
                if size > len(data) - at:
                    raise CorruptBatch("an answer of the server ends early")
                yield tag >> 3, message.slice(at, size)
                at += size
            elif kind == _VARINT:
                _, at = _varint(data, at)
            elif kind in {_EIGHT_BYTES, _FOUR_BYTES}:
                at += 8 if kind == _EIGHT_BYTES else 4
            else:
                raise CorruptBatch("an answer of the server cannot be read")
    except IndexError:
        raise CorruptBatch("an answer of the server ends early") from None


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7


def _fitting(batches: list[Batch], max_bytes: int) -> int:
    """How many batches a read of so many bytes gives: at least one."""
    count = 0
    for batch in batches:
        max_bytes -= batch.size
        if count and max_bytes < 0:
            break
        count += 1
    return count
