"""What a producer has taken and not yet stored, in one lane for each partition.

The outbox promises order (a lane's batches leave one append after another, as they came), bounded memory
(`buffered` counts from taking a message until its outcome is known) and an outcome for every message.
It does no I/O and starts no thread. Every method is called with `lock` held.
"""

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.batch import Columns
from ottla.client.pending import Chunks, Failure, Pending, Rows
from ottla.errors import Closed
from ottla.storage.producers import REMEMBERED_BATCHES

if TYPE_CHECKING:
    from ottla.client.parcel import Parcel
    from ottla.client.sender import Sender

MOST_BATCHES = REMEMBERED_BATCHES
"""In one append: an append of more could not be repeated after its outcome was lost."""
_AWAKE = -math.inf


class Lane:
    """One partition's way out. While *busy* it belongs to the thread that appends from it."""

    __slots__ = (
        "_sender",
        "busy",
        "epoch",
        "listed",
        "open",
        "parcel",
        "partition",
        "queue",
        "sequence",
        "stale",
        "topic",
    )

    def __init__(self, sender: "Sender", topic: str, partition: int, epoch: int) -> None:
        self._sender = sender
        self.topic = topic
        self.partition = partition
        self.open: Pending | None = None
        """What still takes messages."""
        self.queue: deque[Pending] = deque()
        """What is ready to be sent, before *open*."""
        self.parcel: Parcel | None = None
        """What was packed and is on its way, before *queue*."""
        self.busy: threading.Thread | None = None
        self.listed = False
        self.epoch = epoch
        self.sequence = 0
        """The sequence of the next batch that is packed."""
        self.stale = False
        """Nobody knows which sequence the log expects: a new epoch is needed."""

    def wait(self, pending: Pending, timeout: float | None) -> int | Failure:
        """Send at once, and return the outcome; or `TimeoutError`."""
        return self._sender.wait(pending, timeout)

    def hurry(self) -> None:
        """Let nothing linger."""
        self._sender.hurry(self)

    def when_settled(self, pending: Pending, callback: Callable[[], None]) -> None:
        """Call *callback* when the outcome is known; at once if it is."""
        with self._sender.outbox.lock:
            later = pending.when_settled(callback)
        if not later:
            callback()

    def last(self) -> Pending | None:
        """The last batch in the lane; once it is settled, all before it are."""
        if self.open is not None:
            return self.open
        if self.queue:
            return self.queue[-1]
        return self.parcel.pendings[-1] if self.parcel else None


class Outbox:
    """The lanes of a producer, and what is ready, lingering or failed in them."""

    def __init__(self, *, linger_s: float, max_batch_bytes: int, max_buffer_bytes: int) -> None:
        self.lock = threading.Lock()
        self.work = threading.Condition(self.lock)
        """Notified when there is something for the background thread to do."""
        self.room = threading.Condition(self.lock)
        """Notified when a batch was settled."""
        self.lanes: list[Lane] = []
        self.cursor = 0
        """The partition that the next message without a preference goes to."""
        self.buffered = 0
        self.max_buffer_bytes = max_buffer_bytes
        self.limit = max_buffer_bytes
        """What `buffered` may reach; below zero when the next call must look at `check` first."""
        self.sleeping_until = _AWAKE
        """When the background thread wakes by itself."""
        self.closed = False
        self._fatal: BaseException | None = None
        self._failures: deque[Failure] = deque()
        self._linger_s = linger_s
        self._max_batch_bytes = min(max_batch_bytes, max_buffer_bytes)
        self._lingering: OrderedDict[Lane, Pending] = OrderedDict()
        """What is open, the oldest first; nothing else, so that it keeps no messages that are stored."""
        self._ready: deque[Lane] = deque()

    def open_rows(self, lane: Lane, size: int) -> Rows:
        """A batch for single messages, with room for at least *size* bytes."""
        self.seal(lane)
        rows = Rows(lane, max(self._max_batch_bytes, size), time.monotonic() + self._linger_s)
        self._linger(lane, rows)
        return rows

    def add_columns(self, lane: Lane, columns: Columns, size: int) -> tuple[Pending, int]:
        """Take messages together; the batch they are in, and how many are before them there."""
        chunks = lane.open
        if not isinstance(chunks, Chunks) or not chunks.takes(columns, size):
            self.seal(lane)
            chunks = Chunks(lane, max(self._max_batch_bytes, size), time.monotonic() + self._linger_s)
            self._linger(lane, chunks)
        start = chunks.add(columns, size)
        self.buffered += size
        if chunks.left < size:  # another one like it would not fit
            self.seal(lane)
        return chunks, start

    def turns(self, count: int) -> int:
        """Take so many turns of dealing messages out, and return the partition of the first."""
        first = self.cursor
        self.cursor = (first + count) % len(self.lanes)
        return first

    def _linger(self, lane: Lane, pending: Pending) -> None:
        lane.open = self._lingering[lane] = pending
        if pending.due < self.sleeping_until:
            self._wake()

    def seal(self, lane: Lane) -> None:
        """Let the lane's open batch go."""
        if lane.open is not None:
            lane.queue.append(lane.open)
            lane.open = None
            del self._lingering[lane]
            self.announce(lane)

    def seal_all(self) -> None:
        for lane in self.lanes:
            self.seal(lane)

    def announce(self, lane: Lane) -> None:
        """Note that the lane has something to send."""
        if not lane.listed and not lane.busy:
            lane.listed = True
            self._ready.append(lane)
            self._wake()

    def _wake(self) -> None:
        if self.sleeping_until != _AWAKE:
            self.sleeping_until = _AWAKE
            self.work.notify()

    def claim(self) -> Lane | None:
        """A lane that has something to send, now the caller's; `None` if there is none."""
        now = time.monotonic()
        while (oldest := self._oldest()) is not None and oldest.due <= now:
            self.seal(oldest.lane)
        for _ in range(len(self._ready)):
            lane = self._ready.popleft()
            lane.listed = False
            if not lane.busy and (lane.queue or lane.parcel):
                if lane.parcel is None or lane.parcel.retry_at <= now:
                    lane.busy = threading.current_thread()
                    return lane
                lane.listed = True
                self._ready.append(lane)
        return None

    def next_due(self) -> float:
        """When `claim` will have something again if nothing is added."""
        times = [lane.parcel.retry_at for lane in self._ready if lane.parcel is not None]
        oldest = self._oldest()
        return min([*times, math.inf if oldest is None else oldest.due])

    def _oldest(self) -> Pending | None:
        return next(iter(self._lingering.values()), None)

    def take(self, lane: Lane, most: int = MOST_BATCHES, most_bytes: float = math.inf) -> list[Pending]:
        """The next batches of a lane, as many as go in one append: at least one if there is any and *most* allows."""
        taken: list[Pending] = []
        while lane.queue and len(taken) < most and most_bytes > 0:
            taken.append(lane.queue.popleft())
            most_bytes -= taken[-1].size
        return taken

    def free(self, lane: Lane) -> None:
        """Give a claimed lane back."""
        lane.busy = None
        if lane.queue or lane.parcel:
            self.announce(lane)

    def sleep(self, until: float, now: float) -> None:
        """Let the background thread sleep until it is woken or a moment has come."""
        self.sleeping_until = until
        self.work.wait(until - now)
        self.sleeping_until = _AWAKE

    def close(self) -> None:
        """Take nothing more."""
        self.closed = True
        self.limit = -1
        self._wake()

    def settle(self, pending: Pending, outcome: int | Failure) -> list[Callable[[], None]]:
        """A batch is stored or has failed; returns what is to be called without the lock.

        Harmless when repeated after an interrupt: the first outcome counts.
        """
        if pending.outcome is None:
            self.buffered -= pending.size
        self.room.notify_all()
        return pending.settle(outcome if pending.outcome is None else pending.outcome)

    def fail(self, lane: Lane, error: BaseException, *, fatal: bool) -> list[Callable[[], None]]:
        """Fail what a claimed lane holds, because order would be lost if later batches were stored; if *fatal*,
        fail what all lanes hold and refuse every later call.
        """
        failure = Failure(error)
        self._failures.append(failure)
        self.limit = -1
        dropped = self._drop(lane, all_of_it=True)
        if fatal:
            self._fatal = error
            for other in self.lanes:
                dropped += self._drop(other, all_of_it=not other.busy)
        return [callback for pending in dropped for callback in self.settle(pending, failure)]

    def _drop(self, lane: Lane, *, all_of_it: bool) -> list[Pending]:
        """What a lane holds, taken out of it; what is being appended at this moment only if *all_of_it*."""
        dropped = list(lane.queue)
        lane.queue.clear()
        if lane.open is not None:
            dropped.append(lane.open)
            lane.open = None
            del self._lingering[lane]
        if all_of_it and lane.parcel is not None:
            dropped = lane.parcel.pendings + dropped
            lane.parcel = None
        return dropped

    def check(self) -> None:
        """Raise what the next call must say: an error that nobody saw, or that there is no next call."""
        self.raise_unreported()
        if self.closed:
            raise Closed("producer")
        if self._fatal is not None:
            raise self._fatal
        self.limit = self.max_buffer_bytes

    def note(self, failure: Failure) -> None:
        """Let the next call raise this error unless somebody sees it earlier."""
        self._failures.append(failure)
        self.limit = -1

    def raise_unreported(self) -> None:
        """Raise the first error that nobody has seen, once."""
        while self._failures:
            failure = self._failures.popleft()
            if not failure.reported:
                raise failure.tell()
