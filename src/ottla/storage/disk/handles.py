"""Open files: few at a time, closed when nobody uses them any more, none shared across a fork."""

import threading
import weakref
from collections import OrderedDict
from pathlib import Path

from ottla.storage.disk import forks
from ottla.storage.disk.files import Files


class OpenFile:
    """One descriptor, closed with its last reference: a reader keeps a file that was evicted or unlinked."""

    __slots__ = ("__weakref__", "_files", "fd")

    def __init__(self, files: Files, path: Path, flags: int) -> None:
        self._files = files
        self.fd = -1
        self.fd = files.open(path, flags)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            self._files.close(fd)

    __del__ = close


class OpenFiles:
    """The most recently used files of one engine, all opened in one way."""

    def __init__(self, files: Files, flags: int, limit: int = 128) -> None:
        self._files = files
        self._flags = flags
        self._limit = limit
        self._lock = threading.Lock()
        self._recent: OrderedDict[Path, OpenFile] = OrderedDict()
        self._live: weakref.WeakSet[OpenFile] = weakref.WeakSet()
        forks.register(self)

    def forget(self) -> None:
        """A child closes even what a thread that it does not have was using: it may carry the parent's lock."""
        for handle in list(self._live):
            handle.close()
        self._lock = threading.Lock()
        self._recent = OrderedDict()
        self._live = weakref.WeakSet()

    def get(self, path: Path) -> OpenFile:
        """The file, opened if it is not open; raises `FileNotFoundError` if it is gone and was not open."""
        with self._lock:
            handle = self._recent.get(path)
            if handle is None:
                handle = self._recent[path] = OpenFile(self._files, path, self._flags)
                self._live.add(handle)
                if len(self._recent) > self._limit:
                    self._recent.popitem(last=False)
            else:
                self._recent.move_to_end(path)
            return handle

    def drop(self, path: Path) -> None:
        """Forget a file that was removed or replaced."""
        with self._lock:
            self._recent.pop(path, None)

    def clear(self) -> None:
        with self._lock:
            self._recent.clear()
