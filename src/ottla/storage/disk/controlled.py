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
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.errors import CorruptLog, OttlaError, TopicRecreated, Uncertain
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
        self.settings = topic.settings
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

    def holds_messages(self) -> bool:
        """Whether there are files with messages; asked while there is no `control`."""
        return False

    def is_settled(self, control: Control, incarnation: bytes) -> bool:
        """Whether `control` can be believed as it is."""
        return control.incarnation == incarnation

    # Locking and looking

    @contextlib.contextmanager
    def locked(self) -> Iterator[tuple[int, Control]]:
        """Hold the lock; gives the control file's descriptor and content, recovered if need be."""
        fd = self._acquired(create=True)
        try:
            yield fd, self.settled(fd)
        finally:
            self.lock.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Hold the lock, whatever state the files are in; gives the control file's descriptor."""
        fd = self._acquired(create=False)
        try:
            yield fd
        finally:
            self.lock.release()

    def _acquired(self, *, create: bool) -> int:
        try:
            try:
                fd = self.lock.acquire()
            except FileNotFoundError:
                if not create:
                    raise
                self._create()
                fd = self.lock.acquire()
        except OSError as error:
            raise self.failure(error) from error
        try:
            self._check_found(fd)
        except BaseException:
            self.lock.release()
            raise
        return fd

    def _check_found(self, fd: int) -> None:
        """An append to a file that nobody can find would be lost."""
        with self.failing():
            self.check_alive()
            if self.files.size(fd) < 0:
                self._engine.root.handles.drop(self.lock.path)
                raise CorruptLog(str(self.lock.path), 0, "the file was removed while the log was open")

    def settled(self, fd: int) -> Control:
        """What counts, recovered if need be. The lock is held."""
        with self.failing():
            control = read_control(self.files, fd, self.lock.path, locked=True)
            incarnation = self._incarnation_of(fd)
            if control.serial == 1:  # whoever created it may have been killed before its name was durable
                self.files.sync_folder(self.folder)
            if not self.is_settled(control, incarnation):
                control = self.recover(fd, control, incarnation)
            return control

    def _create(self) -> None:
        """The files, at the first append."""
        with self._engine.root.locked("append"):
            self.check_alive()
            if self.exists():
                return
            self._check_unused()
            self.files.make_folder(self.folder)
            self.files.sync_folder(self.folder.parent)  # a creator that was killed may have made it, and not synced it
            self.create_files()
            temporary = self.folder / "control.new"
            fd = self.files.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                self.files.write_at(fd, [first_content(new_control(incarnation_of(fd)))], 0)
                self.files.sync(fd)
            finally:
                self.files.close(fd)
            self.files.rename(temporary, self.lock.path)  # the first commit makes it durable

    def _check_unused(self) -> None:
        """A folder that holds messages and no control file lost it: what counts in it must not be guessed at."""
        if self.holds_messages() and not self.exists():
            raise CorruptLog(str(self.lock.path), 0, "the file is missing, but there are messages")

    def exists(self) -> bool:
        """Whether anything was ever appended."""
        return self.lock.path.exists()

    def control(self) -> Control | None:
        """What is acknowledged at this moment; `None` while nothing was ever appended."""
        try:
            self.check_alive()
            handle = self._handle()
            return None if handle is None else self._control(handle)
        except OSError as error:
            raise self.failure(error) from error

    def _handle(self) -> OpenFile | None:
        try:
            return self._engine.root.handles.get(self.lock.path)
        except FileNotFoundError:
            self._check_unused()
            return None

    def _control(self, handle: OpenFile) -> Control:
        control = read_control(self.files, handle.fd, self.lock.path)
        incarnation = self._incarnation_of(handle.fd)
        if self.is_settled(control, incarnation):
            return control
        if control.incarnation == incarnation and not self._engine.root.read_only:
            with self.locked() as (_, control):
                return control
        return self._believe(handle, control, incarnation)

    def _believe(self, handle: OpenFile, control: Control, incarnation: bytes) -> Control:
        """What the next to hold the lock will find; it publishes that before it appends anything."""
        while True:
            believed = self._believed
            if believed is not None and believed[0] == control.serial:
                return believed[1]
            found = self.rescued(control, incarnation)
            again = read_control(self.files, handle.fd, self.lock.path)
            if self.is_settled(again, incarnation):
                return again
            if again.serial == control.serial:
                self._believed = (control.serial, found)
            control = again

    def retrying(self, attempt: Callable[[Control], _T], empty: _T) -> _T:
        """Read from a snapshot; when a file of it was removed or replaced meanwhile, from a newer one."""
        failures = 0
        while True:
            control = self.control()
            if control is None:
                return empty
            try:
                return attempt(control)
            except (FileNotFoundError, CorruptLog) as error:
                failures += 1
                self._believed = None
                self.look_again()
                now = self.control()
                moved = now is None or now.layout != control.layout or now.first != control.first
                if failures == _ATTEMPTS or (failures > 1 and not moved):
                    raise _missing(error) from error
            except OSError as error:
                raise self.failure(error) from error

    def check_alive(self) -> None:
        """Raise `TopicRecreated` if the topic was deleted; otherwise *settings* are those of this moment."""
        self._engine.check_open()
        topic = self._engine.catalog.current(self._topic)
        if topic is None:
            self._engine.let_go(self.folder)
            raise TopicRecreated(self._topic.name, self._topic.id)
        self.settings = topic.settings

    def _incarnation_of(self, fd: int) -> bytes:
        if self._incarnation is None:
            self._incarnation = incarnation_of(fd)
        return self._incarnation

    # Writing

    def opened(self, path: Path) -> tuple[OpenFile, int]:
        """A file and its size, opened again if it was replaced since it was opened."""
        return self._engine.segments.sized(path)

    def write_behind(self, handle: OpenFile, parts: Sequence[Buffer], control: Control) -> int:
        """Write behind the published end, and publish nothing; returns the new end."""
        try:
            return self.files.write_at(handle.fd, parts, control.end)
        except OSError as error:
            raise self._taken_back(handle, control, error) from error

    def sync_active(self, fd: int, handle: OpenFile, control: Control) -> None:
        """A failed sync is final: a second one would succeed, and the bytes would be gone."""
        try:
            self.files.sync(handle.fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                write_control(self.files, fd, control._replace(failed=control.failed | FAILED))
            raise self._taken_back(handle, control, error) from error

    def publish(self, fd: int, handle: OpenFile, control: Control, new: Control) -> Control:
        """Publish what was written behind the end of *control*."""
        try:
            return write_control(self.files, fd, new)
        except OSError as error:
            now = read_control(self.files, fd, self.lock.path)
            if now.serial > control.serial:  # it failed, and is there all the same: readers see it already
                return now
            raise self._taken_back(handle, control, error) from error

    def _taken_back(self, handle: OpenFile, control: Control, error: OSError) -> OttlaError:
        """Cut what was not published, for good: whole batches behind the end would count after a restart."""
        try:
            self.files.truncate(handle.fd, control.end)
            self.files.sync(handle.fd)
        except OSError:
            return Uncertain("an append", f"the disk answered {error.strerror or error}, and to taking it back too")
        return self.failure(error)

    def flush(self) -> None:
        """Make what was appended without a sync durable; for `sync="interval"`."""
        with self.locked() as (_, control):
            handle = self.active_file(control)
        try:
            self.files.sync(handle.fd)
        except OSError as error:
            with self.locked() as (fd, current), self.failing():
                if current.active == control.active:
                    write_control(self.files, fd, current._replace(failed=current.failed | FAILED))
            raise self.failure(error) from error
        with self.locked() as (fd, current), self.failing():
            if current.active == control.active and current.synced < control.end:
                write_control(self.files, fd, current._replace(synced=control.end, synced_next=control.next))

    def failing(self) -> "_Failing":
        """Turn the operating system's errors into ours."""
        return _Failing(self)

    def failure(self, error: OSError) -> OttlaError:
        """An operating system's error in our words."""
        if isinstance(error, FileNotFoundError):
            self.check_alive()  # a topic that is deleted in the middle of a commit
            return _missing(error)
        return storage_error(error, self.folder)


def _missing(error: FileNotFoundError | CorruptLog) -> CorruptLog:
    return error if isinstance(error, CorruptLog) else CorruptLog(str(error.filename), 0, "the file is missing")


class _Failing:
    """A context manager, and not a function with a `yield`: every commit is within some."""

    __slots__ = ("_folder",)

    def __init__(self, folder: ControlledFolder) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise self._folder.failure(error) from error
        if isinstance(error, CorruptLog):
            self._folder.check_alive()  # what is missing may have been deleted, together with its topic
