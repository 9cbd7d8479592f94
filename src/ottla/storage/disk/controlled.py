"""A folder with a `control` file: locked for one commit, looked at without a lock, recovered by whoever locks next.

The rules that every kind of log on disk keeps are here: nothing is acknowledged before its end is published in
`control`; after a restart of the machine (another incarnation) the next to hold the lock finds out what counts,
and opening or reading changes nothing; a failed sync is final; a handle on a deleted topic says so.
"""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import CorruptLog, StorageFailed, StorageFull, TopicRecreated
from ottla.model import Topic
from ottla.storage.disk.control import (
    FAILED,
    Control,
    first_content,
    incarnation_of,
    new_control,
    read_control,
    write_control,
)
from ottla.storage.disk.files import Buffer
from ottla.storage.disk.handles import OpenFile
from ottla.storage.disk.lock import LockedFile
from ottla.storage.disk.root import storage_error

if TYPE_CHECKING:
    from ottla.storage.disk.engine import DiskEngine

_T = TypeVar("_T")
_ATTEMPTS = 100


class ControlledFolder(ABC):
    """What is common to everything that commits under a lock and publishes in a control file."""

    def __init__(self, engine: "DiskEngine[Any]", topic: Topic, folder: Path) -> None:
        self._engine = engine
        self._topic = topic
        self.files = engine.files
        self.folder = folder
        self.lock = LockedFile(engine.root.handles, folder / "control")
        self._incarnation: bytes | None = None
        self._believed: tuple[int, Control] | None = None

    # What each kind of log does in its own way

    @abstractmethod
    def create_files(self) -> None:
        """What must be there before `control` is. The folder exists, and the root's lock is held."""

    @abstractmethod
    def rescued(self, control: Control, incarnation: bytes) -> Control:
        """What `control` would say had it been synced with the last acknowledged append; nothing is written."""

    @abstractmethod
    def recover(self, fd: int, control: Control, incarnation: bytes) -> Control:
        """Make what `rescued` says true. The lock is held."""

    @abstractmethod
    def active_file(self, control: Control) -> OpenFile:
        """The file that is appended to, ending where its published end is. The lock is held."""

    @abstractmethod
    def look_again(self) -> None:
        """Forget where things were: something was not there."""

    def is_settled(self, control: Control, incarnation: bytes) -> bool:
        """Whether `control` can be believed as it is."""
        return control.incarnation == incarnation

    # Locking and looking

    @contextlib.contextmanager
    def locked(self) -> Iterator[tuple[int, Control]]:
        """Hold the lock; gives the control file's descriptor and content, recovered if need be."""
        if not self.exists():
            self._create()
        with self.held() as fd:
            control = read_control(self.files, fd, self.lock.path)
            incarnation = self._incarnation_of(fd)
            if not self.is_settled(control, incarnation):
                try:
                    control = self.recover(fd, control, incarnation)
                except OSError as error:
                    raise self.failure(error) from error
            yield fd, control

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock, whatever state the files are in; gives the control file's descriptor."""
        with self.lock.locked() as fd:
            self.check_alive()
            yield fd

    def _create(self) -> None:
        """The files, at the first append."""
        with self._engine.root.locked("append"):
            self.check_alive()
            if self.exists():
                return
            self.files.make_folder(self.folder)
            self.create_files()
            temporary = self.folder / "control.new"
            fd = self.files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                self.files.write_at(fd, [first_content(new_control(incarnation_of(fd)))], 0)
                self.files.sync(fd)
            finally:
                self.files.close(fd)
            self.files.rename(temporary, self.lock.path)
            self.files.sync_folder(self.folder)

    def exists(self) -> bool:
        """Whether anything was ever appended."""
        return self.lock.path.exists()

    def control(self) -> Control | None:
        """What is acknowledged at this moment; `None` while nothing was ever appended."""
        self.check_alive()
        try:
            handle = self._engine.root.handles.get(self.lock.path)
        except FileNotFoundError:
            return None
        control = read_control(self.files, handle.fd, self.lock.path)
        incarnation = self._incarnation_of(handle.fd)
        if self.is_settled(control, incarnation):
            return control
        if not self._engine.root.read_only:
            with self.locked() as (_, control):
                return control
        if self._believed is None or self._believed[0] != control.serial:
            self._believed = (control.serial, self.rescued(control, incarnation))
        return self._believed[1]

    def retrying(self, attempt: Callable[[Control], _T], empty: _T) -> _T:
        """Read from a snapshot; when a file of it was removed or replaced meanwhile, from a newer one."""
        tries = _ATTEMPTS
        while True:
            control = self.control()
            if control is None:
                return empty
            try:
                return attempt(control)
            except (FileNotFoundError, CorruptLog) as error:
                tries -= 1
                self._believed = None
                self.look_again()
                now = self.control()
                moved = now is None or now.layout != control.layout or now.first != control.first
                if not tries or not moved:
                    raise _missing(error) from error

    def check_alive(self) -> None:
        self._engine.check_open()
        if not self._engine.catalog.is_current(self._topic):
            raise TopicRecreated(self._topic.name, self._topic.id)

    def _incarnation_of(self, fd: int) -> bytes:
        if self._incarnation is None:
            self._incarnation = incarnation_of(fd)
        return self._incarnation

    # Writing

    def opened(self, path: Path) -> tuple[OpenFile, int]:
        """A file and its size, opened again if it was replaced since it was opened."""
        handle = self._engine.segments.get(path)
        size = self.files.size(handle.fd)
        if size < 0:
            self._engine.segments.drop(path)
            handle = self._engine.segments.get(path)
            size = self.files.size(handle.fd)
        return handle, size

    def write_behind(self, handle: OpenFile, parts: Sequence[Buffer], control: Control) -> int:
        """Write behind the published end, and publish nothing; returns the new end."""
        try:
            return self.files.write_at(handle.fd, parts, control.end)
        except OSError as error:
            with contextlib.suppress(OSError):  # the next commit cuts it otherwise
                self.files.truncate(handle.fd, control.end)
            raise self.failure(error) from error

    def sync_active(self, fd: int, handle: OpenFile, control: Control) -> None:
        """A failed sync is final: a second one would succeed, and the bytes would be gone."""
        try:
            self.files.sync(handle.fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                write_control(self.files, fd, control._replace(failed=control.failed | FAILED))
                self.files.truncate(handle.fd, control.end)
            raise self.failure(error) from error

    def flush(self) -> None:
        """Make what was appended without a sync durable; for `sync="interval"`."""
        with self.locked() as (_, control):
            handle = self.active_file(control)
        try:
            self.files.sync(handle.fd)
        except OSError as error:
            with self.locked() as (fd, current):
                if current.active == control.active:
                    write_control(self.files, fd, current._replace(failed=current.failed | FAILED))
            raise self.failure(error) from error
        with self.locked() as (fd, current):
            if current.active == control.active and current.synced < control.end:
                write_control(self.files, fd, current._replace(synced=control.end, synced_next=control.next))

    def failure(self, error: OSError) -> StorageFull | StorageFailed:
        """An operating system's error in our words."""
        return storage_error(error, self.folder)


def _missing(error: FileNotFoundError | CorruptLog) -> CorruptLog:
    return error if isinstance(error, CorruptLog) else CorruptLog(str(error.filename), 0, "the file is missing")
