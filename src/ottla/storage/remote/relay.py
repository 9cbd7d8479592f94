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
        while True:
            with self._lock:
                if ready():
                    return True
                mine = not self._reading
                if mine:
                    self._reading = True
                else:
                    waiter = _Waiter(key)
                    self._waiting[waiter] = None
            if mine:
                return self._read(ready, deadline)
            if not waiter.sleep(deadline - time.monotonic()):
                return self._give_up(waiter, ready)

    def try_step(self) -> None:
        """Read what is there already, unless somebody reads anyway."""
        with self._lock:
            if self._reading:
                return
            self._reading = True
        self._read(lambda: False, 0.0, at_least_once=True)

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

    def _read(self, ready: Callable[[], Any], deadline: float, *, at_least_once: bool = False) -> bool:
        try:
            while True:
                left = deadline - time.monotonic()
                if left <= 0 and not at_least_once:
                    return False
                at_least_once = False
                self._step(max(left, 0))
                with self._lock:
                    if ready():
                        return True
        finally:
            with self._lock:
                self._reading = False
                self._hand_over()

    def _hand_over(self) -> None:
        for waiter in self._waiting:
            del self._waiting[waiter]
            waiter.wake()
            return

    def _give_up(self, waiter: _Waiter, ready: Callable[[], Any]) -> bool:
        with self._lock:
            if waiter in self._waiting:
                del self._waiting[waiter]
            elif not self._reading:
                self._hand_over()  # it was this one's turn to read
            return bool(ready())
