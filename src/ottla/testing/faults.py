"""Faults on command: system calls of the disk engines that kill, fail or do half of what they should.

    with failing(Fault("sync", error=errno.EIO, on=".log")):
        engine = open_engine("file:///tmp/log")

A fault is a value, so that it can be sent to a process that is to die by it. Also here: engines that are broken on
purpose, which the crash rounds must find.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ottla.batch import Batch
from ottla.model import Appended
from ottla.storage import PartitionStore
from ottla.storage.disk import files as disk_files
from ottla.storage.disk import lock as disk_lock
from ottla.storage.disk.files import Buffer, Files

Operation = Literal["open", "pwritev", "truncate", "sync", "sync_folder_fd", "rename", "unlink"]
OPERATIONS: tuple[Operation, ...] = ("open", "pwritev", "truncate", "sync", "sync_folder_fd", "rename", "unlink")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong: at the *nth* call of an operation, and at those that follow, *times* in all."""

    operation: Operation
    nth: int = 1
    action: Literal["kill", "error", "half"] = "error"
    """Kill this process, raise *error*, or (for `pwritev`) write half and return."""
    when: Literal["before", "after"] = "before"
    """Whether the call itself is done first. A `half` write that is killed `after` leaves a torn batch."""
    error: int = 5
    """The `errno` to raise; 5 is EIO."""
    on: str = ""
    """Only files whose path ends so: `.log`, `control`, `.producers`."""
    times: int = 1
    keep: int | None = None
    """How many bytes a `half` write keeps, if not half of them."""

    @property
    def dies(self) -> bool:
        """Whether the process ends by it."""
        return self.action == "kill" or (self.action == "half" and self.when == "after")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class FaultyFiles(Files):
    """The operating system's files, with faults. `calls` lists what was done, for tests that look at the order."""

    def __init__(self, *faults: Fault) -> None:
        self._faults = list(faults)
        self._counts = [0] * len(faults)
        self._paths: dict[int, str] = {}
        self._lock = threading.Lock()
        self.calls: list[tuple[Operation, str]] = []

    def fail(self, *faults: Fault) -> None:
        """Replace the faults; none makes everything work again. Counting starts anew."""
        self._faults, self._counts = list(faults), [0] * len(faults)

    def open(self, path: Path, flags: int) -> int:
        fd = int(self._do("open", str(path), partial(super().open, path, flags)))
        self._paths[fd] = str(path)
        return fd

    def pwritev(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        write = super().pwritev

        def half(keep: int | None) -> int:
            data = b"".join(parts)
            return write(fd, [data[: max(1, len(data) // 2) if keep is None else keep]], position)

        return int(self._do("pwritev", self._path(fd), partial(write, fd, parts, position), half))

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate", self._path(fd), partial(super().truncate, fd, size))

    def sync(self, fd: int) -> None:
        self._do("sync", self._path(fd), partial(super().sync, fd))

    def sync_folder_fd(self, fd: int) -> None:
        self._do("sync_folder_fd", self._path(fd), partial(super().sync_folder_fd, fd))

    def rename(self, source: Path, target: Path) -> None:
        self._do("rename", str(target), partial(super().rename, source, target))

    def unlink(self, path: Path) -> None:
        self._do("unlink", str(path), partial(super().unlink, path))

    def _path(self, fd: int) -> str:
        return self._paths.get(fd, "")

    def _do(
        self, operation: Operation, path: str, call: Callable[[], Any], half: Callable[[int | None], Any] | None = None
    ) -> Any:
        fault = self._due(operation, path)
        if fault is None:
            return call()
        if fault.action == "error" and fault.when == "before":
            raise OSError(fault.error, os.strerror(fault.error), path)
        if fault.action == "kill" and fault.when == "before":
            die()
        result = half(fault.keep) if fault.action == "half" and half else call()
        if fault.action == "error":
            raise OSError(fault.error, os.strerror(fault.error), path)
        if fault.dies:
            die()
        return result

    def _due(self, operation: Operation, path: str) -> Fault | None:
        due = None
        with self._lock:
            self.calls.append((operation, path))
            for at, fault in enumerate(self._faults):
                if fault.operation == operation and path.endswith(fault.on):
                    self._counts[at] += 1
                    if fault.nth <= self._counts[at] < fault.nth + fault.times:
                        due = fault
        return due


def die() -> None:
    """End this process as a power switch would, without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def failing(*faults: Fault) -> Iterator[FaultyFiles]:
    """Engines that are opened in the block have these faults; gives the files, to change the faults later."""
    before, faulty = disk_files.SYSTEM, FaultyFiles(*faults)
    disk_files.SYSTEM = faulty
    try:
        yield faulty
    finally:
        disk_files.SYSTEM = before


class HastyPartition:
    """Broken on purpose: acknowledges a batch first and writes it when the next one comes."""

    def __init__(self, partition: PartitionStore) -> None:
        self._partition = partition
        self._owed: list[Batch] = []

    def append(self, batches: Sequence[Batch]) -> list[Appended]:
        if self._owed:
            self._partition.append(self._owed)
        self._owed = list(batches)
        number, promised = self._partition.bounds().next, []
        for batch in batches:
            promised.append(Appended(number, batch.count))
            number += batch.count
        return promised


def skip_locks() -> None:
    """Break the disk engines of this process on purpose: their locks between processes do nothing."""

    class NoLocks:
        LOCK_EX = LOCK_UN = 0

        @staticmethod
        def flock(fd: int, how: int) -> None:
            """Nothing."""

    setattr(disk_lock, "fcntl", NoLocks)  # noqa: B010  (a module's own import, which type checkers keep private)
