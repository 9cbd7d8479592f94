"""Opened topics of one log, for calls that name a topic and perhaps the id that it must still have."""

from typing import Protocol

from ottla.client.log import Log
from ottla.errors import TopicRecreated, UnknownTopic
from ottla.log.topics import TopicHandle
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage import PartitionStore


class Names(Protocol):
    """The part of a request that names a partition."""

    topic: str
    topic_id: str
    partition: int


class Handles:
    """Handles by topic id. Safe from many threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._handles: dict[str, TopicHandle] = {}

    def of(self, name: str, topic_id: str = "") -> TopicHandle:
        """The topic; or `UnknownTopic`, or `TopicRecreated` if it has another id."""
        topic = self._log.topic(name) if not topic_id else self._current(name, topic_id)
        handle = self._handles.get(topic.id)
        if handle is None:
            if len(self._handles) > 10_000:  # noqa: PLR2004  (topics that came and went)
                self._handles.clear()
            handle = self._handles.setdefault(topic.id, TopicHandle(self._log.engine, topic))
        return handle

    def partition(self, request: Names) -> PartitionStore:
        """The store that a request names."""
        return self.of(request.topic, request.topic_id).partition(request.partition)

    def settings_for_post(self, name: str) -> TopicSettings:
        """The settings that a post meets: the topic's own, or those that it would be created with."""
        try:
            return self._log.topic(name).settings
        except UnknownTopic:
            return self._log.defaults

    def _current(self, name: str, topic_id: str) -> Topic:
        try:
            topic = self._log.engine.topic(name)
        except UnknownTopic:
            raise TopicRecreated(name, topic_id) from None
        if topic.id != topic_id:
            raise TopicRecreated(name, topic_id)
        return topic
