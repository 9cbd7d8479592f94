"""The text file of one topic and broker, with the lock, the control file and the state that belong to it.

    <root>/<topic>-<broker>.txt                            the lines (`ottla.storage.jsonl.lines`)
    <root>/topics/<topic>/<topic id>/<broker>/control      what of them is acknowledged
    <root>/topics/<topic>/<topic id>/<broker>/state        what they no longer prove (`ottla.storage.jsonl.state`)

A commit, in the process that holds the lock: read `control`; cut what a killed process left behind its published
end; take in what others appended; number and check the batches of all partitions that are waiting; write their
lines with one call; sync; publish the new end. In `control`, *active* is the generation of the file, which goes up
when it is replaced (`ottla.storage.jsonl.replacement`), and *next* counts the messages of all its partitions.

After a failed sync the file must not be appended to, and there is no other: its acknowledged bytes are copied to
a new one, which is synced and takes its name. So the next append either finds sound storage or is refused too.
"""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.batch import Batch
from ottla.errors import CorruptLog, TopicRecreated
from ottla.model import Appended, Topic
from ottla.settings import TopicSettings
from ottla.storage.disk import forks
from ottla.storage.disk.control import FAILED, REPLACING, Control, write_control
from ottla.storage.disk.controlled import ControlledFolder
from ottla.storage.disk.groupcommit import GroupCommit, Request
from ottla.storage.disk.handles import OpenFile
from ottla.storage.jsonl import replacement, rescue
from ottla.storage.jsonl.lines import encode_batch
from ottla.storage.jsonl.reader import Reader
from ottla.storage.jsonl.scan import Text, batches
from ottla.storage.jsonl.state import PartitionState, State, encode_state
from ottla.storage.jsonl.tail import Tail, Written
from ottla.storage.producers import Admission

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine

MOST_BROKERS = 1000
"""So many files a topic may be spread over."""
_SAVE_BYTES = 16 * 2**20
"""So much text is read at most to open a file: the state is stored as often."""


class View(NamedTuple):
    """What a reader sees of one partition at one moment."""

    tail: Tail
    limit: int
    first: int
    next: int
    size: int
    gaps: tuple[tuple[int, int], ...]


class Ledger(ControlledFolder):
    """One text file. Safe from many threads and processes, and across forks."""

    def __init__(self, engine: "JsonlEngine", topic: Topic, broker: int) -> None:
        super().__init__(engine, topic, engine.catalog.folder(topic) / str(broker))
        self.path: Path = engine.text_path(topic.name, broker)
        self.new_path = self.path.with_name(f"~{topic.id}-{broker}")
        self.topic = topic
        self.broker = broker
        self._brokers = partial(engine.brokers, topic)
        self.reader = Reader()
        self._group = GroupCommit(self._commit)
        self._mutex = threading.Lock()
        self._tail: Tail | None = None
        forks.register(self)

    def partitions(self) -> range:
        """The partitions that are in this file."""
        return range(self.broker - 1, self._engine.catalog.topic(self.topic.name).settings.partitions, self._brokers())

    def forget(self) -> None:
        self._group.forget()
        self.reader.forget()
        self._mutex = threading.Lock()
        self._tail = None

    # Appending

    def append(self, batches: Sequence[Batch], expected_next: int | None, partition: int) -> list[Appended]:
        return self._group.append(batches, expected_next, partition)

    def _commit(self, requests: Sequence[Request]) -> None:
        with self.locked() as (fd, found), self.failing():
            settings = self._engine.catalog.topic(self.topic.name).settings
            control, tail = self.prepared(fd, found)
            now_ms = max(self._engine.clock.now_ms(), control.append_ms)
            admissions: dict[int, Admission] = {}
            admitted = []
            for request in requests:
                part = tail.partition(request.partition)
                new = Admission(part.producers, part.next, now_ms)
                admission = admissions.setdefault(request.partition, new)
                try:
                    name = (self.topic.name, request.partition)
                    admitted.append((request, admission.admit(request.batches, request.expected_next, name)))
                except Exception as error:  # noqa: BLE001  (one caller's refusal must not fail the others)
                    request.error = error
            stored = any(admission.batches for admission in admissions.values())
            if stored:
                self._store(fd, control, admissions, settings, now_ms)
        for request, results in admitted:
            request.results = results
        if stored:
            self._engine.appended(self, settings)

    def prepared(self, fd: int, control: Control) -> tuple[Control, Tail]:
        """A file that may be appended to, and all that is known of its end. The lock is held."""
        tail = self.caught_up(control)
        if control.failed & FAILED:
            return replacement.renew(self, fd, control, tail)
        if control.end - tail.saved >= _SAVE_BYTES:
            control = self.save(fd, control, tail)
        return control, tail

    def _store(
        self, fd: int, control: Control, admissions: dict[int, Admission], settings: TopicSettings, now_ms: int
    ) -> None:
        text = self.active_file(control)
        lines = [
            (partition, batch, encode_batch(self.topic.name, partition, batch))
            for partition, admission in admissions.items()
            for batch in admission.batches
        ]
        durable = settings.sync == "always"
        end = self.write_behind(text, [line for _, _, line in lines], control)
        if durable:
            self.sync_active(fd, text, control)
        number = control.next + sum(batch.count for _, batch, _ in lines)
        self.publish(fd, text, control, control._replace(
            end=end, next=number, append_ms=now_ms,
            synced=end if durable else control.synced, synced_next=number if durable else control.synced_next,
        ))  # fmt: skip
        with self._mutex:
            tail = self._tail
            if tail is None or (tail.generation, tail.position) != (control.active, control.end):
                return  # a reader of this process took it in already
            for partition, batch, line in lines:
                tail.partition(partition).producers.note(batch.header)
                tail.note(partition, Written(batch.first_number, now_ms, len(line)), batch.next_number)

    def active_file(self, control: Control) -> OpenFile:
        text, size = self.text()
        if size < control.end:
            raise text.damaged(size, f"it ends there, but {control.end} bytes were acknowledged")
        if size > control.end:
            if control.end and self.files.read_at(text.handle.fd, 1, control.end - 1) != b"\n":
                raise text.damaged(control.end, "the acknowledged bytes end within a line")
            self.files.truncate(text.handle.fd, control.end)
        return text.handle

    def text(self) -> tuple[Text, int]:
        """The file as it is now, and its size."""
        try:
            handle, size = self.opened(self.path)
        except FileNotFoundError as error:
            raise CorruptLog(str(self.path), 0, "the file is missing") from error
        return Text(self.files, handle, self.path, self.topic.name), size

    def drop_open(self) -> None:
        """Forget the open file: it was replaced or removed."""
        self._engine.segments.drop(self.path)

    # Knowing

    def caught_up(self, control: Control) -> Tail:
        """What is known at the published end, or a later one."""
        with self._mutex:
            return self._caught_up(control)

    def _caught_up(self, control: Control) -> Tail:
        tail = self._tail
        if tail is None or tail.generation < control.active:
            tail = Tail(rescue.load(self, control.active), control.layout)
        elif tail.layout < control.layout:
            tail.remark(rescue.load(self, tail.generation), control.layout)
        self._tail = tail
        if tail.generation == control.active and tail.position < control.end:
            text, _ = self.text()
            for stored in batches(text, tail.position, control.end):
                tail.take(stored, text)
        return tail

    def view(self, control: Control, partition: int) -> View:
        """What a reader sees of a partition."""
        with self._mutex:
            tail = self._caught_up(control)
            part = tail.partition(partition)
            return View(tail, tail.position, min(part.first, part.next), part.next, part.size - part.dead, part.gaps)

    def save(self, fd: int, control: Control, tail: Tail, changed: dict[int, PartitionState] | None = None) -> Control:
        """Store what is known at the published end, which is made durable first. The lock is held."""
        if control.synced < control.end:
            self.sync_active(fd, self.active_file(control), control)
            control = control._replace(synced=control.end, synced_next=control.next)
        with self.failing():
            self.files.replace(self.folder / "state", encode_state(tail.state(changed)))
        with self._mutex:
            tail.saved = tail.position
            if changed:
                tail.remark(State(partitions=changed), tail.layout)
        return control

    def know(self, tail: Tail | None) -> None:
        """The file was replaced, or recovered: what was known is no longer true."""
        with self._mutex:
            self._tail = tail
        self.reader.clear()

    # Creating and recovering

    def create_files(self) -> None:
        replacement.start(self)

    def holds_messages(self) -> bool:
        """The state is made when the text is this topic's, and before `control` is."""
        return (self.folder / "state").exists() and self.path.exists() and self.path.stat().st_size > 0

    def check_alive(self) -> None:
        try:
            super().check_alive()
        except TopicRecreated:
            self.drop_open()  # the disk has the space only then
            raise

    def is_settled(self, control: Control, incarnation: bytes) -> bool:
        return super().is_settled(control, incarnation) and not control.failed & REPLACING

    def rescued(self, control: Control, incarnation: bytes) -> Control:
        return rescue.rescued(self, control, incarnation)

    def recover(self, fd: int, control: Control, incarnation: bytes) -> Control:
        control = self.rescued(control, incarnation)
        self.know(None)
        replacement.settle(self)
        text = self.active_file(control)
        try:
            self.files.sync(text.fd)
        except OSError:  # what was found is there, but this file cannot hold it: the next append moves it
            control = control._replace(failed=FAILED)
        control = write_control(self.files, fd, control)
        self.files.sync(fd)
        return control

    def look_again(self) -> None:
        self.know(None)
