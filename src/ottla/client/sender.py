"""Stores what is in the outbox: in the background, or in the thread that waits for it.

A batch is sent when it is full, when it has lingered long enough, or when somebody waits for it. Whoever
waits sends it in its own thread if nobody else is at that partition, because a hand-off between threads costs
more than most appends. The background thread starts at the first message and ends when nothing comes for a while.
"""

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from ottla.batch import Batch, Compression, Stamp
from ottla.client.identity import Identity
from ottla.client.lifetime import finish_at_exit
from ottla.client.outbox import MOST_BATCHES, Lane, Outbox
from ottla.client.parcel import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Parcel,
    is_fatal,
    is_forgotten,
    is_open,
    is_passing,
    loses_count,
)
from ottla.client.pending import Failure, Pending
from ottla.clock import Clock
from ottla.errors import Closed, SendTimeout, Uncertain
from ottla.log.topics import TopicHandle
from ottla.model import Appended
from ottla.settings import check_timeout
from ottla.storage import Pipelined, Underway

_logger = logging.getLogger("ottla.producer")
_INLINE_S = 1.0
"""Who waits shorter than this leaves the append to the background thread, so that the time is kept."""
_IDLE_S = 10.0
_APPEND_BYTES = 2**21
"""Of one append while others are on their way: batches are added until it has so many."""
_IN_A_ROW = 64
"""Appends of one partition, before the others have their turn."""
_JOIN_S = 1.0


class Sender:
    """Appends, repeats and settles. Safe from many threads; not for a forked child, which must `abandon` it."""

    def __init__(
        self,
        handle: TopicHandle,
        outbox: Outbox,
        identity: Identity | None,
        *,
        clock: Clock,
        compression: Compression,
        timeout_s: float,
        owner: object = None,
    ) -> None:
        self.outbox = outbox
        self._handle = handle
        self._identity = identity
        self._clock = clock
        self._compression = compression
        self._timeout_s = timeout_s
        self._owner = owner
        """Whoever a log closes in the end: it must not be garbage while the thread has something to send."""
        self._thread: threading.Thread | None = None
        self._abandoned = False

    def add_lanes(self, partitions: int) -> None:
        """Have a lane for each partition. Called with the lock held."""
        epoch = self._identity.epoch if self._identity else 0
        for partition in range(len(self.outbox.lanes), partitions):
            self.outbox.lanes.append(Lane(self, self._handle.name, partition, epoch))

    def make_room(self, size: int) -> None:
        """Wait until the buffer can take *size* bytes. Called with the lock held, which is let go meanwhile."""
        outbox = self.outbox
        outbox.check()
        start = time.monotonic()
        in_callback = threading.current_thread() is self._thread  # then nobody else would make room
        while outbox.buffered + size > outbox.max_buffer_bytes:
            outbox.seal_all()
            left = start + self._timeout_s - time.monotonic()
            if in_callback and (lane := outbox.claim()) is not None:
                self._attempt_unlocked(lane)
            elif left > 0:
                outbox.room.wait(min(left, LONGEST_PAUSE_S) if in_callback else left)
            else:
                raise SendTimeout(self._timeout_s, outbox.buffered, outbox.max_buffer_bytes)
            outbox.check()

    def _attempt_unlocked(self, lane: Lane) -> None:
        self.outbox.lock.release()
        try:
            self._attempt(lane)
        finally:
            self.outbox.lock.acquire()

    def hurry(self, lane: Lane) -> None:
        self._check_parent()
        with self.outbox.lock:
            self.outbox.seal(lane)

    def wait(self, pending: Pending, timeout: float | None, *, inline: bool = True) -> int | Failure:
        """The outcome of a batch, which is sent at once, by this thread if *inline*; or `TimeoutError`."""
        wait_s = check_timeout(timeout)
        deadline = time.monotonic() + wait_s
        inline = inline and wait_s >= _INLINE_S
        while pending.outcome is None:
            self._check_parent()
            if inline and self._attempt_here(pending):
                continue
            with self.outbox.lock:
                if pending.lane.open is pending:
                    self.outbox.seal(pending.lane)
                event = pending.event()
                self.start()
            if not event.wait(self._patience(deadline)) and time.monotonic() >= deadline:
                raise TimeoutError(f"the message was not stored within {wait_s:g} s: it may still be; wait again")
        return pending.outcome

    def _attempt_here(self, pending: Pending) -> bool:
        """One append by this thread from the lane of a batch; False if another one has it, or it pauses.

        An interrupt may come between any two steps, and leaves the lane to others.
        """
        lane, mine = pending.lane, False
        try:
            with self.outbox.lock:
                mine = self._claim(lane)
                if mine and lane.open is pending:
                    self.outbox.seal(lane)
            if mine:
                self._attempt(lane)
        except BaseException:
            with self.outbox.lock:
                if mine and lane.busy is threading.current_thread():
                    self.outbox.free(lane)
                    self.start()
            raise
        return mine

    def _patience(self, deadline: float) -> float | None:
        """How long to wait before looking again."""
        left = max(deadline - time.monotonic(), 0)
        if threading.current_thread() is self._thread:  # in a callback: nobody else repeats an append that pauses
            return min(left, FIRST_PAUSE_S)
        return None if left > threading.TIMEOUT_MAX else left

    def _check_parent(self) -> None:
        if self._abandoned:
            raise Closed("future, of a message that the parent process sends,")

    def _claim(self, lane: Lane) -> bool:
        """Take a lane for an append in this thread, unless another one has it or it pauses before a repetition."""
        if lane.busy or (lane.parcel is not None and lane.parcel.retry_at > time.monotonic()):
            return False
        lane.busy = threading.current_thread()
        return True

    def flush(self, timeout: float | None = None, *, inline: bool = True) -> None:
        """Wait until the outcome is known of everything that was taken before."""
        deadline = time.monotonic() + check_timeout(timeout)
        with self.outbox.lock:
            last = [pending for lane in self.outbox.lanes if (pending := lane.last()) is not None]
            for pending in last[1:]:  # the background thread helps with these
                self.outbox.seal(pending.lane)
        for pending in last:
            self.wait(pending, max(deadline - time.monotonic(), 0), inline=inline)

    def close(self, timeout: float | None = None) -> None:
        """Take nothing more, and send what was taken."""
        with self.outbox.lock:
            self.outbox.close()
        self.flush(timeout)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def finish(self, timeout: float) -> None:
        """Send what was taken before the process ends; nobody is left to be told of an error, so it is logged."""
        try:
            self.flush(timeout, inline=self._thread is None)  # in the background, so that the time is kept
            with self.outbox.lock:
                self.outbox.raise_unreported()
        except Exception:
            _logger.exception("messages to topic %r were not stored before the process ended", self._handle.name)

    def abandon(self) -> None:
        """Forget everything, in a forked child: the parent sends it. The lock may be held by a thread that is gone."""
        self._abandoned = True
        self._thread = None
        self.outbox.lock = threading.Lock()

    def start(self) -> None:
        """Have a background thread. Called with the lock held."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"ottla-producer-{self._handle.name}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is on its way out: whoever flushes sends
                return
            self._thread = thread
            finish_at_exit(self)

    def _run(self) -> None:
        while (lane := self._next_lane()) is not None:
            self._attempt(lane)

    def _next_lane(self) -> Lane | None:
        """Wait for work; `None` when the thread is to end."""
        outbox = self.outbox
        idle_until = time.monotonic() + _IDLE_S
        with outbox.lock:
            while True:
                lane = outbox.claim()
                if lane is not None:
                    return lane
                now, due = time.monotonic(), outbox.next_due()
                if due == math.inf and (now >= idle_until or outbox.closed):
                    self._thread = None
                    return None
                outbox.sleep(idle_until if due == math.inf else due, now)

    def _attempt(self, lane: Lane) -> None:
        """One append from a lane that the caller has claimed, and gives back with this."""
        callbacks: list[Callable[[], None]] = []
        try:
            callbacks = self._append(lane)
        finally:
            with self.outbox.lock:
                self.outbox.free(lane)
                if lane.listed:
                    self.start()
        for callback in callbacks:
            callback()

    def _append(self, lane: Lane) -> list[Callable[[], None]]:
        store = self._pipelined(lane)
        callbacks: list[Callable[[], None]] = []
        try:
            callbacks += self._append_one(lane) if store is None else self._append_many(lane, store, callbacks)
        except BaseException:  # an interrupt: this thread goes, the batch stays
            if lane.parcel is not None:
                what = f"a batch of {lane.topic}/{lane.partition}"
                callbacks += self._failed(lane, lane.parcel, Uncertain(what, "the append was interrupted"))
            for callback in callbacks:
                callback()
            raise
        return callbacks

    def _pipelined(self, lane: Lane) -> Pipelined | None:
        """The partition, if it takes several appends at once and nothing is to be repeated first.

        Only sequences keep those behind an append that is refused out of the log.
        """
        if self._identity is None or lane.parcel is not None or len(lane.queue) < 2:  # noqa: PLR2004  (several)
            return None
        try:
            store = self._handle.partition(lane.partition)
        except Exception:  # noqa: BLE001  (it comes again where it is reported)
            return None
        return store if isinstance(store, Pipelined) else None

    def _append_one(self, lane: Lane) -> list[Callable[[], None]]:
        """One append, and its outcome."""
        parcel = lane.parcel
        if parcel is None:
            with self.outbox.lock:
                pendings = self.outbox.take(lane)
                if not pendings:
                    return []
                parcel = lane.parcel = Parcel(pendings, self._deadline())
        try:
            self._pack(lane, parcel)
            appended = self._handle.append(lane.partition, parcel.batches)
        except Exception as error:  # noqa: BLE001  (whatever it is, it reaches the futures)
            return self._failed(lane, parcel, error)
        return self._stored(lane, parcel, appended)

    def _append_many(
        self, lane: Lane, store: Pipelined, callbacks: list[Callable[[], None]]
    ) -> list[Callable[[], None]]:
        """Several appends, each sent while those before it are on their way. Together they are one parcel, so that what
        is left of it after a failure is repeated together; it has no more batches than the log remembers.

        What is stored adds to *callbacks*, and they must be called before more is sent.
        """
        underway: deque[Underway] = deque()
        parcel = Parcel([], self._deadline())
        failure: Exception | None = None
        turns = _IN_A_ROW
        while True:
            if failure is None and not callbacks and turns and self._take_more(lane, parcel):
                turns -= 1
                try:
                    underway.append(store.start(self._pack(lane, parcel)))
                except Exception as error:  # noqa: BLE001  (whatever it is, it reaches the futures)
                    failure = error  # unless one before it fails too
            elif underway:
                try:
                    callbacks += self._stored(lane, parcel, underway.popleft().finish())
                except Exception as error:  # noqa: BLE001  (likewise)
                    failure = error
                    _await(underway)
                    break
            else:
                break
        return [] if failure is None else self._failed(lane, parcel, failure)

    def _take_more(self, lane: Lane, parcel: Parcel) -> bool:
        with self.outbox.lock:
            more = self.outbox.take(lane, MOST_BATCHES - len(parcel.pendings), _APPEND_BYTES)
            parcel.pendings += more
            lane.parcel = parcel if parcel.pendings else None
        return bool(more)

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s

    def _pack(self, lane: Lane, parcel: Parcel) -> list[Batch]:
        """Pack what is not packed yet, with the sequences that follow."""
        done, count = len(parcel.batches), len(parcel.pendings)
        if self._identity is None:
            stamps: Sequence[Stamp | None] = [None] * (count - done)
        else:
            if lane.stale and not done:
                lane.epoch = self._identity.renew(lane.epoch)
                lane.sequence, lane.stale = 0, False
            stamps = [Stamp(self._identity.id, lane.epoch, lane.sequence + i) for i in range(done, count)]
        return parcel.pack(self._clock.now_ms(), self._compression, stamps)

    def _stored(self, lane: Lane, parcel: Parcel, appended: list[Appended]) -> list[Callable[[], None]]:
        """The first batches of the parcel are stored."""
        count, deadline = len(appended), self._deadline()
        with self.outbox.lock:
            callbacks = [
                callback
                for pending, numbers in zip(parcel.pendings[:count], appended, strict=True)
                for callback in self.outbox.settle(pending, numbers.first)
            ]
            parcel.settled(count, deadline)  # last: after an interrupt before this, all of it is repeated
            lane.parcel = parcel if parcel.pendings else None
            lane.sequence += count
        return callbacks

    def _failed(self, lane: Lane, parcel: Parcel, error: BaseException) -> list[Callable[[], None]]:
        """Repeat the append later where that is right; else fail what the lane holds."""
        if is_passing(error) or (self._identity is not None and is_open(parcel, error)):
            parcel.uncertain = error if isinstance(error, Uncertain) else parcel.uncertain
            now = time.monotonic()
            if now < parcel.deadline:
                parcel.postpone(now, error)
                return []
            error = parcel.uncertain or error
        elif is_forgotten(parcel, error) and lane.sequence:
            lane.stale = True
            parcel.batches = []
            return []
        lane.stale = lane.stale or loses_count(parcel, error)
        with self.outbox.lock:
            return self.outbox.fail(lane, error, fatal=is_fatal(error))


def _await(underway: Iterable[Underway]) -> None:
    """Wait for appends behind one that failed: they are refused as out of sequence, or lost with it."""
    for behind in underway:
        with contextlib.suppress(Exception):
            behind.finish()
