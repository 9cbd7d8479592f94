"""What a producer's calls return: where messages landed, or why they did not.

A future is two words on top of its batch; asking for its result sends the batch at once instead of
letting it linger. Safe from many threads.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.client.pending import Failure, Pending
from ottla.model import Landed, LandedRange
from ottla.settings import check_timeout

_logger = logging.getLogger("ottla.producer")


class SendFuture:
    """Where one sent message will be."""

    __slots__ = ("_count", "_pending")

    def __init__(self, pending: Pending, count: int) -> None:
        self._pending = pending
        self._count = count
        """How many messages the batch had with this one."""

    def result(self, timeout: float | None = None) -> Landed:
        """Where the message is, once it is as durable as its topic promises; or the error that kept it out.

        Raises `TimeoutError` after *timeout* seconds; the message may still arrive. A timeout of a second or more is
        not kept while storage hangs, because this thread may be the one that appends.
        """
        pending = self._pending
        outcome = pending.outcome
        if outcome is None:
            outcome = pending.lane.wait(pending, timeout)
        if isinstance(outcome, Failure):
            raise outcome.tell()
        return Landed(pending.lane.topic, pending.lane.partition, outcome + self._count - 1)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that kept the message out, `None` once it has landed."""
        outcome = self._pending.lane.wait(self._pending, timeout)
        return outcome.tell() if isinstance(outcome, Failure) else None

    def done(self) -> bool:
        return self._pending.outcome is not None

    def add_done_callback(self, callback: Callable[["SendFuture"], object]) -> None:
        """Call *callback* with this future when it is done, in the thread that stored it; at once if it is done."""
        self._pending.lane.when_settled(self._pending, lambda: _call(callback, self))

    def __repr__(self) -> str:
        return f"<SendFuture {'done' if self.done() else 'pending'}>"


class Part(NamedTuple):
    """Messages of one `send_many` that are in one batch: *length* of them from *start*."""

    pending: Pending
    start: int
    length: int


class SendManyFuture:
    """Where messages that were sent together will be."""

    __slots__ = ("_failure", "_parts")

    def __init__(self, parts: list[Part], failure: Failure | None = None) -> None:
        self._parts = parts
        self._failure = failure
        """Why the rest of the messages was not even taken."""

    def result(self, timeout: float | None = None) -> list[LandedRange]:
        """Where the messages are, or the first error that kept some of them out.

        Without a partitioner's preference the ranges follow the order of the messages; within a partition
        they always do.
        """
        if error := self.exception(timeout):
            raise error
        return self.landed()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The first error that kept messages out, `None` once all have landed."""
        deadline = time.monotonic() + check_timeout(timeout)
        for part in self._parts[1:]:  # the background thread helps with these
            part.pending.lane.hurry()
        failure = None
        for part in self._parts:
            outcome = part.pending.lane.wait(part.pending, max(deadline - time.monotonic(), 0))
            if isinstance(outcome, Failure):
                outcome.reported = True
                failure = failure or outcome
        failure = failure or self._failure
        return None if failure is None else failure.tell()

    def landed(self) -> list[LandedRange]:
        """Where those messages are that are in the log by now: all of them, unless there was an error."""
        ranges: list[LandedRange] = []
        for pending, start, length in self._parts:
            if not isinstance(pending.outcome, int):
                continue
            first = pending.outcome + start
            landed = LandedRange(pending.lane.topic, pending.lane.partition, range(first, first + length))
            if ranges and _adjoin(ranges[-1], landed):
                first = ranges.pop().numbers.start
            ranges.append(landed._replace(numbers=range(first, landed.numbers.stop)))
        return ranges

    def done(self) -> bool:
        return all(part.pending.outcome is not None for part in self._parts)

    def add_done_callback(self, callback: Callable[["SendManyFuture"], object]) -> None:
        """Call *callback* with this future when all is done, in the thread that stored the last of it."""
        left = len(self._parts)
        lock = threading.Lock()

        def settled() -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
            if last:
                _call(callback, self)

        for part in self._parts:
            part.pending.lane.when_settled(part.pending, settled)

    def __repr__(self) -> str:
        return f"<SendManyFuture {'done' if self.done() else 'pending'}>"


def _adjoin(before: LandedRange, after: LandedRange) -> bool:
    return before.partition == after.partition and before.numbers.stop == after.numbers.start


def _call(callback: Callable[[Any], object], future: object) -> None:
    try:
        callback(future)
    except (Exception, SystemExit):  # which would end the thread that sends, in silence
        _logger.exception("a callback of %r raised an error", future)
