"""One partition of a file log: appending under a lock that is held for one commit, reading without any.

A commit, in the process that holds the lock: read `control`; cut what a killed process left behind its
published end; take in what others appended; number and check the batches; write them with one call; sync;
publish the new end. A batch is acknowledged when its end is published and never before it is durable
(with `sync="always"`). Whatever fails before that is cut by the next commit, in whatever process.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
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
from ottla.storage.file import compaction
from ottla.storage.file.layout import Piece, find_files, index_path, log_path, producers_path
from ottla.storage.file.reader import Reader
from ottla.storage.file.rescue import rescued
from ottla.storage.file.tail import Tail, caught_up
from ottla.storage.producers import Admission

if TYPE_CHECKING:
    from ottla.storage.disk.engine import DiskEngine

_log = logging.getLogger("ottla")


class FilePartition(ControlledFolder):
    """One partition's folder. Safe from many threads and processes, and across forks."""

    def __init__(self, engine: "DiskEngine[FilePartition]", topic: Topic, index: int) -> None:
        super().__init__(engine, topic, engine.catalog.folder(topic) / str(index))
        self.index = index
        self._group = GroupCommit(self._commit)
        self.reader = Reader(engine.files, engine.segments, self.folder)
        self._tail: Tail | None = None
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
        with self.locked() as (fd, found):
            settings = self._engine.catalog.topic(self._topic.name).settings
            control = self._prepared(fd, found, settings)
            assert self._tail is not None
            now_ms = max(self._engine.clock.now_ms(), control.append_ms)
            admission = Admission(self._tail.producers, control.next, now_ms)
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

    def _prepared(self, fd: int, control: Control, settings: TopicSettings) -> Control:
        """Nothing behind the published end, the tail known, and room in the active segment."""
        self._tail = caught_up(self._tail, control, self.files, self._engine.segments, self.folder)
        oldest_ms = self._tail.index.first_ms
        by_size = control.end >= settings.roll_bytes
        by_age = (
            oldest_ms is not None
            and settings.roll_ms is not None
            and (self._engine.clock.now_ms() - oldest_ms >= settings.roll_ms)
        )
        return self.roll(fd, control) if control.failed or (control.end and (by_size or by_age)) else control

    def _store(self, fd: int, control: Control, admission: Admission, settings: TopicSettings, now_ms: int) -> None:
        segment = self.active_file(control)
        parts = [part for batch in admission.batches for part in batch.parts()]
        durable = settings.sync == "always"
        end = self.write_behind(segment, parts, control)
        if durable:
            self.sync_active(fd, segment, control)
        try:
            write_control(self.files, fd, control._replace(
                end=end, next=admission.next_number, append_ms=now_ms,
                synced=end if durable else control.synced,
                synced_next=admission.next_number if durable else control.synced_next,
            ))  # fmt: skip
        except OSError as error:
            raise self.failure(error) from error
        tail = self._tail
        assert tail is not None
        for batch in admission.batches:
            tail.index.add(tail.position, batch.header)
            tail.position += batch.size
        admission.settle()

    def active_file(self, control: Control) -> OpenFile:
        """The active segment, ending where its published end is."""
        path = log_path(self.folder, control.active)
        segment, size = self.opened(path)
        if size < control.end:
            raise CorruptLog(str(path), size, f"it ends there, but {control.end} bytes were acknowledged")
        if size > control.end:
            self.files.truncate(segment.fd, control.end)
        return segment

    def roll(self, fd: int, control: Control) -> Control:
        """Seal the active segment and go on in a new one, named by the next number. The lock is held."""
        if control.next == control.active and not control.failed:
            return control
        try:
            return self._roll(fd, control)
        except OSError as error:
            raise self.failure(error) from error

    def _roll(self, fd: int, control: Control) -> Control:
        files, folder = self.files, self.folder
        tail = self._tail = caught_up(self._tail, control, files, self._engine.segments, folder)
        segment = self.active_file(control)
        if control.synced < control.end and not control.failed:
            self.sync_active(fd, segment, control)
        with contextlib.suppress(OSError):
            files.replace(index_path(folder, control.active), tail.index.encode(), durable=False)
        for first, _, kind, path in find_files(folder):
            if kind == "log" and (first > control.active or first == control.next):
                self.remove(path)  # of a roll that was never published, or of a segment that failed while empty
        files.replace(producers_path(folder, control.next), tail.producers.encode())
        path = log_path(folder, control.next)
        files.close(files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        files.sync_folder(folder)
        control = write_control(files, fd, control._replace(
            active=control.next, end=0, synced=0, synced_next=control.next, layout=control.layout + 1, failed=0,
        ))  # fmt: skip
        files.sync(fd)
        self._tail = Tail(control.active, tail.producers)
        return control

    def remove(self, path: Path) -> None:
        """Unlink a file that holds messages, and forget it."""
        self.files.unlink(path)
        self._engine.segments.drop(path)

    # Creating and recovering

    def create_files(self) -> None:
        self.files.close(self.files.open(log_path(self.folder, 1), os.O_WRONLY | os.O_CREAT))

    def rescued(self, control: Control, incarnation: bytes) -> Control:
        return rescued(self.files, self._engine.segments, self.folder, control, incarnation)

    def recover(self, fd: int, control: Control, incarnation: bytes) -> Control:
        was, control = control, self.rescued(control, incarnation)
        segment = self.active_file(control)
        self.files.sync(segment.fd)
        for first, _, kind, path in find_files(self.folder):
            if kind == "log" and first > control.active:
                self.remove(path)
        control = write_control(self.files, fd, control)
        self.files.sync(fd)
        self._tail = None
        self.reader.forget()
        _log.info("recovered %s: %d messages behind the last sync", self.folder, control.next - was.synced_next)
        return control

    def look_again(self) -> None:
        self.reader.forget()

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

    # Removing

    def trim(self, before: int) -> Bounds:
        self._engine.check_writable("trim")
        if self.control() is None:
            return Bounds(1, 1)
        with self.locked() as (fd, control):
            return self._drop_below(fd, control, min(before, control.next))

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        self._engine.check_writable("expire")
        if self.control() is None:
            return Bounds(1, 1)
        with self.locked() as (fd, control):
            pieces = self.reader.layout(control).pieces
            before = control.first
            sizes = [self.reader.size(control, piece) for piece in pieces]
            left = sum(sizes)
            for piece, size in zip(pieces, sizes, strict=True):
                too_old = older_than_ms is not None and self._expired(control, piece, older_than_ms)
                too_much = max_bytes is not None and left > max_bytes and piece.first != control.active
                if not (too_old or too_much):
                    break
                before, left = piece.end, left - size
            return self._drop_below(fd, control, max(before, control.first))

    def _expired(self, control: Control, piece: Piece, older_than_ms: int) -> bool:
        empty = piece.first == piece.end
        return not empty and self.reader.last_ms(control, piece) < older_than_ms

    def _drop_below(self, fd: int, control: Control, before: int) -> Bounds:
        """Publish the new first number, then remove the files that lie below it."""
        if before <= control.first:
            return Bounds(control.first, control.next)
        if before == control.next:
            control = self.roll(fd, control)
        gone = [piece for piece in self.reader.layout(control).pieces if piece.end <= before]
        gone = [piece for piece in gone if piece.first != control.active]
        control = write_control(self.files, fd, control._replace(first=before, layout=control.layout + 1))
        self.files.sync(fd)
        for piece in gone:
            self.remove(piece.path)
            for path in (index_path(self.folder, piece.first), producers_path(self.folder, piece.first)):
                self.files.unlink(path)
        return Bounds(control.first, control.next)

    # Compacting

    def compact(self, *, progress: Callable[[int], None] | None = None) -> Compacted:
        self._engine.check_writable("compact")
        return compaction.compact(self, progress)
