"""Many threads wait for things that come in on one line, and no thread is kept just to read it.

Whoever waits first reads, for everybody, until its own thing is there; then one of the others takes over. A thread
that is alone needs no hand-off, which costs more than most answers.
"""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any


class _Waiter:
    """A thread that sleeps until it is woken, once."""

    __slots__ = ("_lock", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        self._lock.release()

    def sleep(self, seconds: float) -> bool:
        """Whether it was woken; False if the time is over."""
        return self._lock.acquire(timeout=min(max(seconds, 0), threading.TIMEOUT_MAX))


class Relay:
    """Takes turns at reading. *lock* guards what the conditions look at; *step* reads, for so long at most."""

    def __init__(self, lock: threading.Lock, step: Callable[[float], None]) -> None:
        self._lock = lock
        self._step = step
        self._reading = False
        self._waiting: dict[_Waiter, None] = {}
        """In the order in which they came."""

    @property
    def reading(self) -> bool:
        """Whether a thread reads at this moment."""
        return self._reading

    def wait(self, key: Hashable, ready: Callable[[], Any], deadline: float) -> bool:
        """Wait until *ready*, which is asked whenever *key* is woken; False if the time ran out."""
        waiter = None
        mine = False
        try:
            while True:
                with self._lock:
                    if ready():
                        return True
                    if waiter is not None and waiter in self._waiting:
                        return False  # it was not woken: the time is over
                    if not (mine or self._reading):
                        mine = self._reading = True
                    elif not mine:
                        waiter = _Waiter(key)
                        self._waiting[waiter] = None
                left = deadline - time.monotonic()
                if not mine:
                    assert waiter is not None
                    waiter.sleep(left)
                elif left > 0:
                    self._step(left)
                else:
                    return False
        finally:
            self._leave(waiter, mine=mine)

    def try_step(self) -> None:
        """Read what is there already, unless somebody reads anyway."""
        mine = False
        try:
            with self._lock:
                if not self._reading:
                    mine = self._reading = True
            if mine:
                self._step(0)
        finally:
            self._leave(None, mine=mine)

    def wake(self, key: Hashable) -> None:
        """Something came for *key*. Called with the lock held."""
        for waiter in [waiter for waiter in self._waiting if waiter.key is key]:
            del self._waiting[waiter]
            waiter.wake()

    def wake_all(self) -> None:
        """Something came for everybody. Called with the lock held."""
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            waiter.wake()

    def _leave(self, waiter: _Waiter | None, *, mine: bool) -> None:
        """Done, or interrupted: somebody else must read, if anybody is left who waits."""
        with self._lock:
            if waiter is not None:
                self._waiting.pop(waiter, None)
            if mine:
                self._reading = False
            if not self._reading:
                for successor in self._waiting:
                    del self._waiting[successor]
                    successor.wake()
                    break
