"""Copying a topic between two logs, so that repeating it goes on where it stopped, and neither loses nor doubles.

Keys, values, headers, timestamps, order, partitions and settings are kept. Numbers in the copy start at 1: they are
the same as at the source as long as nothing had been removed there when the copy began.

How far a copy is, the copy itself says: its next number. What that number is at the source is in the metadata of the
log that holds the copy, at `copies/<topic id of the copy>/<partition>`:

    {"source": "<topic id at the source>", "source_number": 1204, "number": 1}

Message *number* of the copy is message *source_number* of the source, and they count on together. It is stored before
the first message after it. Every append says which number it expects, so a second writer is noticed, never mixed in;
and it is stamped with the source's numbers, so that one whose reply was lost is recognised when it comes again.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ottla.batch import Batch, Messages, Stamp, columns_of_arrow, split
from ottla.cli.exits import Failure, say
from ottla.client.log import Log
from ottla.client.reader import unbroken
from ottla.clock import SystemClock
from ottla.errors import TopicExists, Uncertain, UnexpectedNext, UnknownTopic
from ottla.log.starts import StartWords, locate, parse_start
from ottla.log.topics import TopicHandle
from ottla.model import Message

_READ_BYTES = 4 * 2**20
_BATCH_BYTES = 2**20
_ID_BYTES = 16
_REPEAT_S = 60.0


@dataclass(frozen=True, slots=True)
class Link:
    """Which message of the source a message of the copy is; those after it count on together."""

    source: str
    source_number: int
    number: int

    def at_source(self, number: int) -> int:
        return self.source_number + number - self.number

    def in_copy(self, source_number: int) -> int:
        """The number in the copy of a source's message; the first for those before it."""
        return self.number + max(source_number - self.source_number, 0)


class Copied(NamedTuple):
    """What was done for one partition."""

    topic: str
    partition: int
    copied: int
    """How many messages this time."""
    source_next: int
    """All before this number at the source are in the copy."""
    next: int
    link: Link


class TopicCopy:
    """A topic and its copy in another log, which is made if it is not there."""

    def __init__(self, source: Log, target: Log, topic: str) -> None:
        self.topic = topic
        self._source = source.handle(topic)
        self._target = _target(source, target, topic)
        if self._source.id == self._target.id:
            raise Failure(f"topic {topic!r} would be copied onto itself: give another log to copy to")

    def left(self, start: StartWords) -> int:
        """About how many messages are still to be copied."""
        return sum(
            max(
                self._source.bounds(partition).next - self._resume(partition, start).at_source(self._next(partition)), 0
            )
            for partition in range(self.partitions)
        )

    @property
    def partitions(self) -> int:
        return self._source.current().settings.partitions

    def copy(self, start: StartWords, done: Callable[[int], None]) -> Iterator[Copied]:
        """Copy what was at the source when this began, partition by partition; *done* hears of each step."""
        ends = {partition: self._source.bounds(partition).next for partition in range(self.partitions)}
        for partition, end in ends.items():
            yield self._copy(partition, end, start, done)

    def _copy(self, partition: int, end: int, start: StartWords, done: Callable[[int], None]) -> Copied:
        link = self._resume(partition, start)
        began = number = self._next(partition)
        self._check(partition, link, number)
        while (at := link.at_source(number)) < end:
            messages = self._read(partition, at, end)
            if not messages:
                break
            if messages[0].number > at:
                link = self._skip(partition, at, messages[0].number, number)
            elif number == link.number:
                self._store(partition, link)
            self._append(partition, messages, number)
            number += len(messages)
            done(len(messages))
        if self._next(partition) != number:
            raise Failure(self._disturbed(partition))
        return Copied(self.topic, partition, number - began, link.at_source(number), number, link)

    # Where it stopped

    def _next(self, partition: int) -> int:
        return self._target.bounds(partition).next

    def _resume(self, partition: int, start: StartWords) -> Link:
        stored = self._target.engine.load(self._key(partition))
        if stored is not None:
            link = Link(**json.loads(stored.data))
            if link.source != self._source.id:
                raise Failure(
                    f"topic {self.topic!r} in the target is a copy of another topic of that name: delete it first"
                )
            return link
        number = self._next(partition)
        if number > 1:
            raise Failure(
                f"topic {self.topic!r} in the target has messages that are not from this copy: "
                "delete it first, or copy to another log"
            )
        store = self._source.partition(partition)
        first = locate(parse_start(start, SystemClock()), store)
        return Link(self._source.id, max(first, store.bounds().first), number)

    def _store(self, partition: int, link: Link) -> None:
        stored = self._target.engine.load(self._key(partition))
        document = json.dumps({"source": link.source, "source_number": link.source_number, "number": link.number})
        self._target.engine.store(self._key(partition), document.encode(), 0 if stored is None else stored.version)

    def _key(self, partition: int) -> str:
        return f"copies/{self._target.id}/{partition}"

    def _check(self, partition: int, link: Link, number: int) -> None:
        """The last message of the copy must be the source's: somebody else may have written since the last time."""
        at = link.at_source(number)
        if number == link.number:
            return
        if at > self._source.bounds(partition).next:
            raise Failure(self._disturbed(partition))
        mine, theirs = self._one(self._target, partition, number - 1), self._one(self._source, partition, at - 1)
        if mine is not None and theirs is not None and mine[3:] != theirs[3:]:
            raise Failure(self._disturbed(partition))

    def _one(self, handle: TopicHandle, partition: int, number: int) -> Message | None:
        batches = handle.read(partition, number, 1)
        return next((m for m in Messages.of(self.topic, partition, batches, number, 1) if m.number == number), None)

    def _disturbed(self, partition: int) -> str:
        return f"somebody else wrote to {self.topic}/{partition} in the target: it is no longer a copy; delete it first"

    # One step

    def _read(self, partition: int, start: int, end: int) -> Messages:
        first = max(start, self._source.bounds(partition).first)
        batches = unbroken(self._source.read(partition, first, _READ_BYTES))
        first = max(first, batches[0].first_number) if batches else first
        return Messages.of(self.topic, partition, batches, first, max(end - first, 0))

    def _skip(self, partition: int, at: int, first: int, number: int) -> Link:
        """Messages were removed at the source before they were copied: say so, and count on from there."""
        where = f"{self.topic}/{partition}"
        say(f"messages {at:,} to {first - 1:,} of {where} are gone: they were removed before they were copied")
        link = Link(self._source.id, first, number)
        self._store(partition, link)
        return link

    def _append(self, partition: int, messages: Messages, number: int) -> None:
        batches = list(self._packed(partition, messages))
        deadline = time.monotonic() + _REPEAT_S
        while True:
            try:
                self._target.append(partition, batches, expected_next=number)
            except UnexpectedNext:
                raise Failure(self._disturbed(partition)) from None
            except Uncertain:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            return

    def _packed(self, partition: int, messages: Messages) -> Iterator[Batch]:
        name = f"copy/{self._source.id}/{self._target.id}/{partition}"
        producer = hashlib.sha256(name.encode()).digest()[:_ID_BYTES]
        number = messages[0].number
        for piece in split(columns_of_arrow(messages.to_arrow()), _BATCH_BYTES):
            number += len(piece)
            yield Batch.pack(piece, stamp=Stamp(producer, 0, number, sparse=True))


def _target(source: Log, target: Log, topic: str) -> TopicHandle:
    """The topic of the copy, with as many partitions and the same settings."""
    settings = source.topic(topic).settings
    try:
        found = target.topic(topic)
    except UnknownTopic:
        words = settings.to_json()
        try:
            target.create_topic(topic, **words)
        except TopicExists:
            return _target(source, target, topic)
        return target.handle(topic)
    if found.settings.partitions > settings.partitions:
        raise Failure(
            f"topic {topic!r} has {found.settings.partitions} partitions in the target and {settings.partitions} "
            "at the source: delete it first, or copy to another log"
        )
    if found.settings.partitions < settings.partitions:
        target.add_partitions(topic, settings.partitions)
    return target.handle(topic)


def copy_positions(source: Log, target: Log, copied: list[Copied]) -> int:
    """Give the copies the positions that groups have at the source, by the copies' numbers; how many there are."""
    links = {(one.topic, one.partition): one for one in copied}
    count = 0
    for found in source.groups():
        positions = {
            partition: min(links[found.topic, partition].link.in_copy(number), links[found.topic, partition].next)
            for partition, number in found.positions.items()
            if (found.topic, partition) in links
        }
        if positions:
            target.commit(found.group, found.topic, positions)
            count += 1
    return count
