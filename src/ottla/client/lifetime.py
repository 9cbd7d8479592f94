"""What happens to unsent messages when a process ends or forks.

At the end of the interpreter they are sent, within a limited time. A forked child starts with empty
hands: what its parent had not sent yet is sent by the parent.
"""

import atexit
import functools
import os
import sys
import time
import weakref
from typing import Protocol

EXIT_S = 10.0
"""How long the end of a process waits for its producers, together."""


class Unsent(Protocol):
    """Something that holds unsent messages."""

    def finish(self, timeout: float) -> None:
        """Send everything, and log what cannot be sent."""


class Forking(Protocol):
    """Something that must not go on in a forked child as it is."""

    def forked(self) -> None:
        """Start afresh, in the child; other threads are gone, and locks may be held for ever."""


_unsent: "weakref.WeakSet[Unsent]" = weakref.WeakSet()
_forking: "weakref.WeakSet[Forking]" = weakref.WeakSet()


def finish_at_exit(unsent: Unsent) -> None:
    """Finish it when this process ends, unless it is garbage by then."""
    _unsent.add(unsent)
    atexit.unregister(_finish_all)
    atexit.register(_finish_all)  # the last to be registered is the first to be called: before logs are closed
    if "multiprocessing.process" in sys.modules:
        _finish_with_child(os.getpid())


def tell_at_fork(forking: Forking) -> None:
    """Tell it in every forked child."""
    _forking.add(forking)


@functools.cache
def _finish_with_child(pid: int) -> None:  # noqa: ARG001  (once in each process)
    """A child process of multiprocessing does not run what atexit holds."""
    from multiprocessing import process, util  # noqa: PLC0415  (only where it is in use)

    if process.parent_process() is not None:
        util.Finalize(None, _finish_all, exitpriority=0)


def _finish_all() -> None:
    deadline = time.monotonic() + EXIT_S
    for unsent in list(_unsent):
        unsent.finish(max(deadline - time.monotonic(), 0))


def _forked() -> None:
    _unsent.clear()
    for forking in list(_forking):
        forking.forked()


os.register_at_fork(after_in_child=_forked)
