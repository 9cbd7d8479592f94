"""An operation taken apart: its system calls one after another, to fail, or to die, at any of them.

    steps = Steps()
    with using(steps):
        engine = open_engine("file:///tmp/log")
    steps.act_at(7, die)
    engine.partition(topic, 0).append(batches)

`Fault` names one kind of call; here every call counts, those that only look too.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ottla.storage.disk import files as disk_files
from ottla.storage.disk.files import Buffer, Files


class Unsynced(Files):
    """The operating system's files without waiting for the disk: for what a killed process would leave."""

    def sync(self, fd: int) -> None:
        """Nothing."""

    def sync_folder(self, path: Path) -> None:
        """Nothing."""


class Steps(Unsynced):
    """The operating system's files, counted: `count` calls so far since `act_at`, the next of which may do *act*."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []
        """What the calls were, for a test to say where it failed."""
        self._at = 0
        self._act: Callable[[], None] | None = None

    def act_at(self, number: int, act: Callable[[], None] | None) -> None:
        """Count from 0 again, and do *act* before call *number*, which is 1 for the next."""
        self.count, self.names, self._at, self._act = 0, [], number, act

    def _step(self, name: str, target: object) -> None:
        self.count += 1
        self.names.append(f"{name} {target}")
        if self._act is not None and self.count == self._at:
            self._act()

    def open(self, path: Path, flags: int) -> int:
        self._step("open", path)
        return super().open(path, flags)

    def size(self, fd: int) -> int:
        self._step("size", fd)
        return super().size(fd)

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        self._step("read_at", fd)
        return super().read_at(fd, size, position)

    def pwritev(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        self._step("pwritev", fd)
        return super().pwritev(fd, parts, position)

    def truncate(self, fd: int, size: int) -> None:
        self._step("truncate", fd)
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._step("sync", fd)
        super().sync(fd)

    def sync_folder(self, path: Path) -> None:
        self._step("sync_folder", path)
        super().sync_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename", target)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._step("link", target)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._step("unlink", path)
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self._step("mkdir", path)
        super().mkdir(path)

    def read(self, path: Path) -> bytes | None:
        self._step("read", path)
        return super().read(path)


def fail_with(error: int) -> Callable[[], None]:
    """An act: the call fails so, and is not done."""

    def act() -> None:
        raise OSError(error, os.strerror(error))

    return act


@contextlib.contextmanager
def using(files: Files) -> Iterator[None]:
    """Engines that are opened in the block use *files*."""
    before, disk_files.SYSTEM = disk_files.SYSTEM, files
    try:
        yield
    finally:
        disk_files.SYSTEM = before
