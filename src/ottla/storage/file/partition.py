"""One partition of a file log: appending under a lock that is held for one commit, reading without any.

A commit, in the process that holds the lock: read `control`; cut what a killed process left behind its
published end; take in what others appended; number and check the batches; write them with one call; sync;
publish the new end. A batch is acknowledged when its end is published and never before it is durable
(with `sync="always"`). Whatever fails before that is cut by the next commit, in whatever process.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.batch import Batch
from ottla.errors import CorruptLog
from ottla.model import Appended, Bounds, Topic
from ottla.settings import TopicSettings
from ottla.storage.contract import Compacted
from ottla.storage.disk import forks
from ottla.storage.disk.control import Control, write_control
from ottla.storage.disk.controlled import ControlledFolder
from ottla.storage.disk.groupcommit import GroupCommit, Request
from ottla.storage.disk.handles import OpenFile
from ottla.storage.disk.lock import LockedFile
from ottla.storage.file import compaction, removal
from ottla.storage.file.layout import find_files, index_path, leftovers, log_path, producers_path, unpublished
from ottla.storage.file.reader import Reader
from ottla.storage.file.rescue import rescued
from ottla.storage.file.tail import Tail, caught_up
from ottla.storage.producers import Admission, Producers

if TYPE_CHECKING:
    from ottla.storage.file.engine import FileEngine

_log = logging.getLogger("ottla")


class FilePartition(ControlledFolder):
    """One partition's folder. Safe from many threads and processes, and across forks."""

    def __init__(self, engine: "FileEngine", topic: Topic, index: int) -> None:
        super().__init__(engine, topic, engine.catalog.folder(topic) / str(index))
        self.index = index
        self.runs = engine.runs
        self.segments = engine.segments
        self.handles = engine.root.handles
        self._group = GroupCommit(self._commit)
        self.reader = Reader(engine.files, engine.segments, engine.runs, self.folder)
        self._tail: Tail | None = None
        self._active = (1, log_path(self.folder, 1))
        """The active segment and its path: making one takes longer than a write."""
        self._compaction = LockedFile(engine.root.handles, self.folder / "compacting")
        forks.register(self)

    def forget(self) -> None:
        self._group.forget()
        self.reader.forget()
        self._tail = None

    # Appending

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        self._engine.check_writable("append")
        return self._group.append(batches, expected_next, self.index)

    def _commit(self, requests: Sequence[Request]) -> None:
        with self.locked() as (fd, found), self.failing():
            settings = self.settings
            control, tail = self._prepared(fd, found, settings)
            now_ms = max(self._engine.clock.now_ms(), control.append_ms)
            admission = Admission(tail.producers, control.next, now_ms)
            admitted = []
            for request in requests:
                try:
                    name = (self._topic.name, self.index)
                    admitted.append((request, admission.admit(request.batches, request.expected_next, name)))
                except Exception as error:  # noqa: BLE001  (one caller's refusal must not fail the others)
                    request.error = error
            if admission.batches:
                self._store(fd, control, admission, settings, now_ms)
        for request, results in admitted:
            request.results = results
        if admission.batches:
            self._engine.appended(self, settings)

    def _prepared(self, fd: int, control: Control, settings: TopicSettings) -> tuple[Control, Tail]:
        """Nothing behind the published end, the tail known, and room in the active segment."""
        tail = self.caught_up(control)
        oldest_ms = tail.index.first_ms
        by_size = control.end >= settings.roll_bytes
        by_age = (
            oldest_ms is not None
            and settings.roll_ms is not None
            and (self._engine.clock.now_ms() - oldest_ms >= settings.roll_ms)
        )
        if control.failed or (control.end and (by_size or by_age)):
            control = self.roll(fd, control)
            tail = self.caught_up(control)
        return control, tail

    def caught_up(self, control: Control) -> Tail:
        """What is known at the published end. The lock is held."""
        self._tail = caught_up(self._tail, control, self.files, self.segments, self.folder)
        return self._tail

    def _store(self, fd: int, control: Control, admission: Admission, settings: TopicSettings, now_ms: int) -> None:
        segment = self.active_file(control)
        parts = [part for batch in admission.batches for part in batch.parts()]
        durable = settings.sync == "always"
        end = self.write_behind(segment, parts, control)
        if durable:
            self.sync_active(fd, segment, control)
        tail, self._tail = self._tail, None  # whatever interrupts this from here on, it is read again
        self.publish(fd, segment, control, control._replace(
            end=end, next=admission.next_number, append_ms=now_ms,
            synced=end if durable else control.synced,
            synced_next=admission.next_number if durable else control.synced_next,
        ))  # fmt: skip
        assert tail is not None
        for batch in admission.batches:
            tail.index.add(tail.position, batch.header)
            tail.position += batch.size
        admission.settle()
        self._tail = tail

    def active_file(self, control: Control) -> OpenFile:
        """The active segment, ending where its published end is."""
        path = self._active[1]
        if self._active[0] != control.active:
            path = log_path(self.folder, control.active)
            self._active = (control.active, path)
        segment, size = self.opened(path)
        if size < control.end:
            raise CorruptLog(str(path), size, f"it ends there, but {control.end} bytes were acknowledged")
        if size > control.end:
            self.files.truncate(segment.fd, control.end)
        return segment

    # Rolling

    def roll(self, fd: int, control: Control) -> Control:
        """Seal the active segment and go on in a new one, named by the next number. The lock is held."""
        if control.next == control.active and not control.failed:
            return control
        with self.failing():
            tail = self.caught_up(control)
            if not control.failed:
                self.sync_active(fd, self.active_file(control), control)
            with contextlib.suppress(OSError):
                self.files.replace(index_path(self.folder, control.active), tail.index.encode(), durable=False)
            for path in unpublished(self.folder, control.active):
                self.remove(path)
            control = self.start_segment(fd, control, tail.producers)
            self.sweep(control)
            return control

    def start_segment(self, fd: int, control: Control, producers: Producers) -> Control:
        """Go on in a new segment, or in a new file of a segment that is empty. The lock is held."""
        files, path = self.files, log_path(self.folder, control.next)
        files.replace(producers_path(self.folder, control.next), producers.encode())
        files.replace(path, b"")
        self.segments.drop(path)
        control = write_control(files, fd, control._replace(
            active=control.next, end=0, synced=0, synced_next=control.next, layout=control.layout + 1, failed=0,
        ))  # fmt: skip
        files.sync(fd)
        return control

    def sweep(self, control: Control) -> None:
        """Remove what is no part of the partition any more, if it can be. The lock is held, *control* is durable."""
        with contextlib.suppress(OSError):
            for path in leftovers(self.folder, control.active, control.first):
                self.remove(path)

    def remove(self, path: Path) -> None:
        """Unlink a file that holds messages, and forget it."""
        self.files.unlink(path)
        self.segments.drop(path)
        self.runs.drop(path)

    # Creating and recovering

    def holds_messages(self) -> bool:
        """A creator that was killed leaves nothing but an empty first segment."""
        with contextlib.suppress(FileNotFoundError):
            return any(file.first != 1 or file.path.stat().st_size for file in find_files(self.folder))
        return False

    def create_files(self) -> None:
        self.files.close(self.files.open(log_path(self.folder, 1), os.O_WRONLY | os.O_CREAT))

    def rescued(self, control: Control, incarnation: bytes) -> Control:
        found = rescued(self.files, self.segments, self.folder, control, synced=self.settings.sync == "always")
        return found._replace(incarnation=incarnation)

    def recover(self, fd: int, control: Control, incarnation: bytes) -> Control:
        was, control = control, self.rescued(control, incarnation)
        segment = self.active_file(control)
        self.files.sync(segment.fd)
        control = write_control(self.files, fd, control)
        self.files.sync(fd)
        self.sweep(control)
        self._tail = None
        self.reader.look_again()
        _log.info("recovered %s: %d messages behind the last sync", self.folder, control.next - was.synced_next)
        return control

    def start_afresh(self) -> None:
        """Files were replaced: what was known of them is no longer true."""
        self.segments.drop_below(self.folder)
        self.runs.clear()
        self.reader.look_again()
        self._tail = None

    def look_again(self) -> None:
        self.reader.look_again()

    # Reading

    def bounds(self) -> Bounds:
        control = self.control()
        return Bounds(1, 1) if control is None else Bounds(control.first, control.next)

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        def attempt(control: Control) -> list[Batch]:
            if start >= control.next:
                return []
            return self.reader.read(control, max(start, control.first), max_bytes)

        return self.retrying(attempt, [])

    def find(self, timestamp_ms: int) -> int:
        return self.retrying(lambda control: self.reader.find(control, timestamp_ms), 1)

    def size(self) -> int:
        def attempt(control: Control) -> int:
            return sum(self.reader.size(control, piece) for piece in self.reader.layout(control).pieces)

        return self.retrying(attempt, 0)

    # Removing and compacting

    def trim(self, before: int) -> Bounds:
        self._engine.check_writable("trim")
        return removal.trim(self, before)

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        self._engine.check_writable("expire")
        return removal.expire(self, older_than_ms, max_bytes)

    @contextlib.contextmanager
    def compacting(self) -> Iterator[bool]:
        """Keep other compactions away, if none is at work; gives whether that is so."""
        path = self._compaction.path
        if not path.exists():
            self.files.close(self.files.open(path, os.O_WRONLY | os.O_CREAT))
        with self._compaction.tried() as alone:
            yield alone

    def compact(self, *, progress: Callable[[int], None] | None = None) -> Compacted:
        self._engine.check_writable("compact")
        with self.failing():
            return compaction.compact(self, progress)
