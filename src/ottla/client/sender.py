"""Stores what is in the outbox: in the background, or in the thread that waits for it.

A batch is sent when it is full, when it has lingered long enough, or when somebody waits for it. Whoever
waits sends it in its own thread if nobody else is at that partition, because a hand-off between threads costs
more than most appends. The background thread starts at the first message and ends when nothing comes for a while.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from ottla.batch import Compression, Stamp
from ottla.client.identity import Identity
from ottla.client.lifetime import finish_at_exit
from ottla.client.outbox import Lane, Outbox
from ottla.client.parcel import LONGEST_PAUSE_S, Parcel, is_fatal, is_forgotten, is_open, is_passing, loses_count
from ottla.client.pending import Failure, Pending
from ottla.clock import Clock
from ottla.errors import Closed, SendTimeout, Uncertain
from ottla.log.topics import TopicHandle
from ottla.model import Appended

_logger = logging.getLogger("ottla.producer")
_INLINE_S = 1.0
"""Who waits shorter than this leaves the append to the background thread, so that the time is kept."""
_IDLE_S = 10.0
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
    ) -> None:
        self.outbox = outbox
        self._handle = handle
        self._identity = identity
        self._clock = clock
        self._compression = compression
        self._timeout_s = timeout_s
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
        with self.outbox.lock:
            self.outbox.seal(lane)

    def wait(self, pending: Pending, timeout: float | None, *, inline: bool = True) -> int | Failure:
        """The outcome of a batch, which is sent at once, by this thread if *inline*; or `TimeoutError`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        inline = inline and (timeout is None or timeout >= _INLINE_S)
        while pending.outcome is None:
            if self._abandoned:
                raise Closed("future, of a message that the parent process sends,")
            with self.outbox.lock:
                mine = inline and self._claim(pending.lane)
                if pending.lane.open is pending:
                    self.outbox.seal(pending.lane)
                event = pending.event()
                if not mine:
                    self.start()
            if mine:
                self._attempt(pending.lane)
            elif not event.wait(None if timeout is None else max(deadline - time.monotonic(), 0)):
                raise TimeoutError(f"the message was not stored within {timeout:g} s: it may still be; wait again")
        return pending.outcome

    def _claim(self, lane: Lane) -> bool:
        """Take a lane for an append in this thread, unless another one has it or it pauses before a repetition."""
        if lane.busy or (lane.parcel is not None and lane.parcel.retry_at > time.monotonic()):
            return False
        lane.busy = True
        return True

    def flush(self, timeout: float | None = None, *, inline: bool = True) -> None:
        """Wait until the outcome is known of everything that was taken before."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self.outbox.lock:
            last = [pending for lane in self.outbox.lanes if (pending := lane.last()) is not None]
            for pending in last[1:]:  # the background thread helps with these
                self.outbox.seal(pending.lane)
        for pending in last:
            self.wait(pending, None if timeout is None else max(deadline - time.monotonic(), 0), inline=inline)

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
        parcel = lane.parcel
        if parcel is None:
            with self.outbox.lock:
                pendings = self.outbox.take(lane)
                if not pendings:
                    return []
                parcel = lane.parcel = Parcel(pendings, time.monotonic() + self._timeout_s)
        try:
            if not parcel.batches:
                self._pack(lane, parcel)
            appended = self._handle.append(lane.partition, parcel.batches)
        except Exception as error:  # noqa: BLE001  (whatever it is, it reaches the futures)
            return self._failed(lane, parcel, error)
        except BaseException:  # an interrupt: this thread goes, the batch stays
            what = f"a batch of {lane.topic}/{lane.partition}"
            for callback in self._failed(lane, parcel, Uncertain(what, "the append was interrupted")):
                callback()
            raise
        return self._stored(lane, parcel, appended)

    def _pack(self, lane: Lane, parcel: Parcel) -> None:
        if self._identity is None:
            stamps: Sequence[Stamp | None] = [None] * len(parcel.pendings)
        else:
            if lane.stale:
                lane.epoch = self._identity.renew(lane.epoch)
                lane.sequence, lane.stale = 0, False
            stamps = [Stamp(self._identity.id, lane.epoch, lane.sequence + i) for i in range(len(parcel.pendings))]
        parcel.pack(self._clock.now_ms(), self._compression, stamps)

    def _stored(self, lane: Lane, parcel: Parcel, appended: list[Appended]) -> list[Callable[[], None]]:
        lane.sequence += len(parcel.batches)
        with self.outbox.lock:
            lane.parcel = None
            return [
                callback
                for pending, numbers in zip(parcel.pendings, appended, strict=True)
                for callback in self.outbox.settle(pending, numbers.first)
            ]

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
