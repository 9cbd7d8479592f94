"""Fork safety: Spark forks its workers, and a child must not share its parent's locks.

A child inherits the parent's file descriptors, and with them its `flock`s: the parent's lock would live
on in the child after the parent died, and both could hold "the same" lock at once. So a fork waits until
no commit is running, and in the child every registered object lets go of what it inherited and starts
afresh, as if it had just been opened.
"""

import os
import threading
import weakref
from types import TracebackType
from typing import Protocol


class Forgetful(Protocol):
    """Something that holds locks, descriptors or threads of this process."""

    def forget(self) -> None:
        """In a forked child: drop what was inherited and replace every lock. Called before anything else runs."""


class _Gate:
    """Counts the sections that a fork must wait for.

    While a fork waits nobody else may enter, or busy appenders would keep it waiting for ever; a thread that is
    inside already may go deeper.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._inside = 0
        self._closing = False
        self._mine = threading.local()

    def enter(self) -> None:
        """Begin a section; `leave` ends it."""
        depth = getattr(self._mine, "depth", 0)
        with self._changed:
            while self._closing and not depth:
                self._changed.wait()
            self._inside += 1
            self._mine.depth = depth + 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            self._mine.depth -= 1
            if not self._inside and self._closing:
                self._changed.notify_all()

    __enter__ = enter

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def close(self) -> None:
        """Wait until nobody is inside, and keep everybody out."""
        self._changed.acquire()
        while self._closing:  # another thread forks
            self._changed.wait()
        self._closing = True
        while self._inside:
            self._changed.wait()

    def open(self) -> None:
        self._closing = False
        self._changed.notify_all()
        self._changed.release()


unforkable = _Gate()
"""`with unforkable:` around a section that holds a `flock`, or opens a file that may be locked."""

_registered: "weakref.WeakSet[Forgetful]" = weakref.WeakSet()


def register(forgetful: Forgetful) -> None:
    """Have *forgetful* told in every forked child."""
    _registered.add(forgetful)


def _in_child() -> None:
    unforkable.__init__()  # type: ignore[misc]  # the condition was held across the fork
    for forgetful in list(_registered):
        forgetful.forget()


os.register_at_fork(before=unforkable.close, after_in_parent=unforkable.open, after_in_child=_in_child)
