"""An exclusive lock between processes, on one small file that is also read and written in place."""

import contextlib
import fcntl
import threading
from collections.abc import Iterator
from pathlib import Path

from ottla.storage.disk import forks
from ottla.storage.disk.handles import OpenFile, OpenFiles


class LockedFile:
    """A file with a `flock`. Threads of this process queue at a mutex, processes at the lock.

    `flock` and not `lockf`: closing any descriptor of the file would release the latter. The lock dies
    with its process, so nobody ever has to clean up after a killed one. Not reentrant.
    """

    __slots__ = ("__weakref__", "_held", "_mutex", "_open", "path")

    def __init__(self, handles: OpenFiles, path: Path) -> None:
        self._open = handles
        self.path = path
        self._mutex = threading.Lock()
        self._held: OpenFile | None = None
        forks.register(self)

    def forget(self) -> None:
        self._mutex = threading.Lock()

    def acquire(self) -> int:
        """Take the lock; gives the descriptor. Raises `FileNotFoundError` where there is no file."""
        forks.unforkable.enter()
        mutex = self._mutex
        try:
            mutex.acquire()
            try:
                handle = self._open.get(self.path)
                fcntl.flock(handle.fd, fcntl.LOCK_EX)
            except BaseException:
                mutex.release()
                raise
        except BaseException:
            forks.unforkable.leave()
            raise
        self._held = handle
        return handle.fd

    def release(self) -> None:
        """Let go of what `acquire` took."""
        handle, self._held = self._held, None
        assert handle is not None
        try:
            fcntl.flock(handle.fd, fcntl.LOCK_UN)
        finally:
            self._mutex.release()
            forks.unforkable.leave()

    @contextlib.contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the lock while the block runs; gives the descriptor."""
        fd = self.acquire()
        try:
            yield fd
        finally:
            self.release()

    @contextlib.contextmanager
    def tried(self) -> Iterator[bool]:
        """Hold the lock for long work, unless somebody else does; gives whether it is held.

        A fork does not wait for it, and the child does not hold it.
        """
        mutex = self._mutex
        if not mutex.acquire(blocking=False):
            yield False
            return
        try:
            handle = self._open.get(self.path)
            try:
                fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            try:
                yield True
            finally:
                if handle.fd >= 0:
                    fcntl.flock(handle.fd, fcntl.LOCK_UN)
        finally:
            mutex.release()
