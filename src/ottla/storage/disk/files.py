"""Every system call of the disk engines, in one object, so that a test can make any of them fail.

The rules kept here: short writes are continued, interrupted calls are the interpreter's business, a new
or renamed file is durable only after its folder was synced, and a failed sync is reported, never retried.
"""

import contextlib
import errno
import fcntl
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Buffer = Any  # bytes, or anything else with the buffer protocol

_IOV_MAX = 1024
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)

FOLDER_MODE = 0o700
FILE_MODE = 0o600


class Syncs:
    """How many syncs this process asked for, and the seconds they took: for metrics. Safe from many threads."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.count += 1
                self.seconds += time.perf_counter() - started

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it


SYNCS = Syncs()


class Files:
    """The operating system's files. `ottla.testing` has a kind that fails on command."""

    def open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        """The size of an open file, or -1 if it has no name any more."""
        status = os.fstat(fd)
        return status.st_size if status.st_nlink else -1

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        """Up to *size* bytes; fewer only at the end of the file."""
        data = os.pread(fd, size, position)
        while len(data) < size and (more := os.pread(fd, size - len(data), position + len(data))):
            data += more
        return data

    def write_at(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        """All of *parts*, one after another; returns the position after them."""
        left = [memoryview(part).cast("B") for part in parts if len(part)]
        at = 0
        while at < len(left):
            done = self.pwritev(fd, left[at : at + _IOV_MAX], position)
            if not done:
                raise OSError(errno.EIO, "nothing was written")
            position += done
            while at < len(left) and done >= len(left[at]):
                done -= len(left[at])
                at += 1
            if done:
                left[at] = left[at][done:]
        return position

    def pwritev(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        """One system call, which may write less than it was given."""
        return os.pwritev(fd, parts, position)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Make a file's bytes and size durable."""
        with SYNCS.timed():
            if _FULL_SYNC is not None:  # macOS: fsync alone leaves the bytes in the drive's cache
                fcntl.fcntl(fd, _FULL_SYNC)
            elif sys.platform == "linux":
                os.fdatasync(fd)
            else:
                os.fsync(fd)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync_folder_fd(fd)
        finally:
            os.close(fd)

    def sync_folder_fd(self, fd: int) -> None:
        with SYNCS.timed():
            os.fsync(fd)

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """A second name for a file; raises `FileExistsError` if it is taken."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file; it may be gone already."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """A folder with its missing parents, durable."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        with contextlib.suppress(FileExistsError):
            self.mkdir(path)
        self.sync_folder(path.parent)

    def mkdir(self, path: Path) -> None:
        os.mkdir(path, FOLDER_MODE)

    def read(self, path: Path) -> bytes | None:
        """A whole small file, or `None` where there is none."""
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def replace(self, path: Path, data: bytes, *, durable: bool = True) -> None:
        """A whole small file: the old bytes or the new ones, never a mixture, whatever happens."""
        temporary = path.with_name(temporary_name())
        try:
            fd = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                self.write_at(fd, [data], 0)
                if durable:
                    self.sync(fd)
            finally:
                self.close(fd)
            self.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.unlink(temporary)
            raise
        if durable:
            self.sync_folder(path.parent)


def temporary_name() -> str:
    """A name for a file that is not finished: nobody else's, short, and with a ~, which no checked name has."""
    return f"~{uuid.uuid4().hex}"


SYSTEM = Files()
"""What the engines use unless they are given another."""
