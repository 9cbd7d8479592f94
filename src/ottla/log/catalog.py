"""The topics of a log: created by name or by the first post, changed while running, described, deleted.

Every change is checked before anything is written, and repeated when another process changed the topic first.
"""

import contextlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ottla.clock import Clock
from ottla.errors import InvalidValue, MetadataConflict, TopicExists, TopicRecreated, UnknownTopic
from ottla.log.partitioners import partitioner_for
from ottla.log.topics import TopicHandle
from ottla.model import Bounds, Topic
from ottla.settings import TopicSettings, check_name
from ottla.storage import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """What one partition holds at this moment."""

    index: int
    bounds: Bounds
    bytes: int
    """About what the kept messages take in storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with what its partitions hold at this moment."""

    topic: Topic
    partitions: tuple[PartitionDescription, ...]

    @property
    def messages(self) -> int:
        """How many messages are kept in all partitions."""
        return sum(partition.bounds.next - partition.bounds.first for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


class Catalog:
    """Topics of one engine, by name. Safe from many threads and processes."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        defaults: TopicSettings,
        auto_create: bool,
        seen: Callable[[Topic], None] | None = None,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self.defaults = defaults
        self._auto_create = auto_create
        self._seen = seen or (lambda _: None)
        self._handles: dict[str, TopicHandle] = {}

    def topics(self) -> list[Topic]:
        """Every topic, sorted by name."""
        topics = self._engine.topics()
        for topic in topics:
            self._seen(topic)
        return topics

    def topic(self, name: str) -> Topic:
        """The topic as it is now; or `UnknownTopic`."""
        topic = self._engine.topic(check_name(name))
        self._seen(topic)
        return topic

    def create(self, name: str, words: dict[str, Any], *, exist_ok: bool = False) -> Topic:
        """A new topic with the log's default settings, changed by *words*."""
        topic = Topic(
            name=check_name(name),
            id=uuid.uuid4().hex,
            created_ms=self._clock.now_ms(),
            settings=_checked(self.defaults.changed(**words)),
        )
        try:
            topic = self._engine.create_topic(topic)
        except TopicExists:
            if not exist_ok:
                raise
            return self.topic(name)
        self._seen(topic)
        return topic

    def alter(self, name: str, words: dict[str, Any]) -> Topic:
        """Change settings; those that are not named stay as they are."""
        while True:
            topic = self.topic(name)
            settings = _checked(topic.settings.changed(**words))
            if settings.partitions < topic.settings.partitions:
                rule = f"topic {name!r} has {topic.settings.partitions}, and partitions can be added, never removed"
                raise InvalidValue("partitions", settings.partitions, rule)
            if settings == topic.settings:
                return topic
            try:
                topic = self._engine.alter_topic(replace(topic, settings=settings))
            except (MetadataConflict, TopicRecreated):
                continue  # somebody else changed it first: apply the change to what they made
            self._seen(topic)
            return topic

    def delete(self, name: str) -> Topic:
        """Remove a topic with all its messages; returns what it was."""
        topic = self.topic(name)
        self._engine.delete_topic(name)
        self._handles.pop(name, None)
        return topic

    def open(self, name: str) -> TopicHandle:
        """A handle on a topic that exists; or `UnknownTopic`."""
        topic = self.topic(name)
        handle = self._handles.get(name)
        if handle is None or handle.id != topic.id:
            handle = self._handles[name] = TopicHandle(self._engine, topic, self._seen)
        return handle

    def open_or_create(self, name: str, words: dict[str, Any] | None = None) -> TopicHandle:
        """A handle for posting: the topic is made first, with *words*, if it is missing and the log may do so."""
        while True:
            try:
                return self.open(name)
            except UnknownTopic:
                if not self._auto_create:
                    raise
            with contextlib.suppress(TopicExists):  # another process may be doing the same, or undo it
                self.create(name, words or {})

    def settings_for_post(self, name: str) -> TopicSettings:
        """The settings that a post to the topic meets: its own, or those that it would be created with."""
        try:
            return self.topic(name).settings
        except UnknownTopic:
            if not self._auto_create:
                raise
        return self.defaults

    def describe(self, name: str) -> TopicDescription:
        """The topic and what its partitions hold."""
        handle = self.open(name)
        topic = handle.current()
        return TopicDescription(
            topic=topic,
            partitions=tuple(_describe(handle, index) for index in range(topic.settings.partitions)),
        )


def _checked(settings: TopicSettings) -> TopicSettings:
    """The settings, if the partitioner that they name can be had here."""
    partitioner_for(settings.partitioner)
    return settings


def _describe(handle: TopicHandle, index: int) -> PartitionDescription:
    partition = handle.partition(index)
    return PartitionDescription(index=index, bounds=partition.bounds(), bytes=partition.size())
