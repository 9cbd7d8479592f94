"""Open files: few at a time, closed when nobody uses them any more, none shared across a fork."""

import errno
import resource
import threading
import weakref
from collections import OrderedDict
from pathlib import Path

from ottla.storage.disk import forks
from ottla.storage.disk.files import Files

_MOST = 256
_SHARE = 6
"""One of so many of the descriptors that the process may have."""


class OpenFile:
    """One descriptor, closed with its last reference: a reader keeps a file that was evicted or unlinked.

    So keep the object for as long as its `fd` is used: a number alone may soon be that of another file.
    """

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

    def __init__(self, files: Files, flags: int, limit: int | None = None) -> None:
        self._files = files
        self._flags = flags
        self._limit = limit or _affordable()
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
            if handle is not None:
                self._recent.move_to_end(path)
                return handle
        with forks.unforkable, self._lock:  # a child must know every descriptor that it inherits
            handle = self._recent.get(path)
            if handle is None:
                handle = self._recent[path] = self._opened(path)
                self._live.add(handle)
                if len(self._recent) > self._limit:
                    self._recent.popitem(last=False)
            return handle

    def sized(self, path: Path) -> tuple[OpenFile, int]:
        """The file that has this name now, and its size: opened again if it was replaced since it was opened."""
        handle = self.get(path)
        size = self._files.size(handle.fd)
        if size < 0:
            self.drop(path)
            handle = self.get(path)
            size = self._files.size(handle.fd)
        return handle, size

    def _opened(self, path: Path) -> OpenFile:
        try:
            return OpenFile(self._files, path, self._flags)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            self._recent.clear()  # the rest of the process needs more than was expected
            return OpenFile(self._files, path, self._flags)

    def drop(self, path: Path) -> None:
        """Forget a file that was removed or replaced."""
        with self._lock:
            self._recent.pop(path, None)

    def drop_below(self, folder: Path) -> None:
        """Forget every file of a folder that was removed."""
        with self._lock:
            for path in [path for path in self._recent if folder in path.parents]:
                del self._recent[path]

    def clear(self) -> None:
        with self._lock:
            self._recent.clear()


def _affordable() -> int:
    """How many files to keep open: an engine has two of these, and a process may have several engines."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if allowed == resource.RLIM_INFINITY else max(4, min(_MOST, allowed // _SHARE))
