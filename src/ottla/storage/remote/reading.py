"""Reading one partition: a piece at a time, and the next one already on its way to those who read on.

Pieces are of about a megabyte, which servers are best at. What was read ahead is used only by a read that goes on
where the last one ended, only if there is something in it, and only while it is fresh: at the tail every read asks
the server, and so sees what was acknowledged before it began.
"""

import threading
import time
from typing import Any, Final

import pyarrow as pa

from ottla.batch import Batch
from ottla.errors import OttlaError
from ottla.model import Bounds
from ottla.protocol.packed import parse_fetch
from ottla.storage.disk import forks
from ottla.storage.remote.calls import Calls, Underway
from ottla.storage.remote.stream import Lost
from ottla.v1 import log_pb2 as pb

PIECE_BYTES: Final = 2**20
_FRESH_S: Final = 1.0
"""How old a piece that was read ahead may be: retention or deletion may have come since."""
WAIT_MARGIN_S: Final = 5.0
"""How much longer than it was told a waiting call may take to be answered."""


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

    def read(self, start: int, max_bytes: int) -> tuple[list[Batch], Bounds]:
        """Batches as `PartitionStore.read` promises them, never much more than a megabyte, and the bounds."""
        size = min(max(max_bytes, 1), PIECE_BYTES)
        with self._lock:
            ahead, self._ahead = self._ahead, None
            reads_on = start == self._ended
        batches, bounds = self._arrived(ahead, start)
        if not batches:
            batches, bounds = _parsed(self._fetched(start, size))
        batches = batches[: _fitting(batches, max_bytes)]
        end = self._ended = batches[-1].next_number if batches else start
        if reads_on and end < bounds.next:
            self._read_ahead(end, size)
        return batches, bounds

    def wait(self, number: int, seconds: float) -> bool:
        """Wait for a message at or above *number*, and keep it for the read that follows; False if none came."""
        deadline = time.monotonic() + seconds + WAIT_MARGIN_S
        answer = self._fetched(number, PIECE_BYTES, wait_ms=round(seconds * 1000), deadline=deadline)
        batches, _ = _parsed(answer)
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
        return _parsed(ahead.answer)

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


def _parsed(answer: pa.Buffer) -> tuple[list[Batch], Bounds]:
    fetched = parse_fetch(answer)
    return list(Batch.parse_all(fetched.batches)), fetched.bounds


def _fitting(batches: list[Batch], max_bytes: int) -> int:
    """How many batches a read of so many bytes gives: at least one."""
    count = 0
    for batch in batches:
        max_bytes -= batch.size
        if count and max_bytes < 0:
            break
        count += 1
    return count
