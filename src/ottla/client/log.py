"""The log that a URL opens: topics, direct appends and reads, and the way to producers and consumers.

Everything here works the same on every engine. A `Log` is safe from many threads, and after a fork parent and
child may both go on with it.
"""

import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self
from urllib.parse import urlsplit

from ottla.batch import Batch, Messages
from ottla.client.appending import Turns, append_all, check_expected, plan
from ottla.client.consumer import Consumer, Starts
from ottla.client.intake import Many, columns_of
from ottla.client.producer import Producer
from ottla.clock import Clock, SystemClock
from ottla.errors import InvalidValue
from ottla.log.catalog import Catalog, TopicDescription
from ottla.log.groups import GroupPositions, Groups
from ottla.log.retention import Culler
from ottla.log.starts import StartWords, locate, parse_start
from ottla.log.topics import TopicHandle
from ottla.model import At, Bounds, Headers, LandedRange, Since, Topic
from ottla.settings import TopicSettings, check_name, check_number, parse_size
from ottla.storage import Compactable, Compacted, Engine, PartitionStore, Served, open_engine

_READ_BYTES = 16 * 2**20
"""How much one step of `Log.read` asks the engine for."""


def open_log(
    url: str,
    *,
    read_only: bool = False,
    clock: Clock | None = None,
    auto_create: bool = True,
    defaults: TopicSettings | Mapping[str, Any] | None = None,
    culler: bool = True,
) -> "Log":
    """Open the log at *url*, such as `memory:`, `file:///data` or `jsonl:///data`.

    With *read_only* nothing is touched, not even a folder. With *auto_create* the first post makes a topic, with
    the settings in *defaults* (words such as `{"retention": "7d"}`), which `create_topic` starts from too. With
    *culler* this process removes what retention no longer keeps.
    """
    clock = clock or SystemClock()
    settings = defaults if isinstance(defaults, TopicSettings) else TopicSettings.of(**(defaults or {}))
    engine = open_engine(url, clock=clock, read_only=read_only)
    culler = culler and not read_only and not isinstance(engine, Served)
    return Log(engine, url, clock=clock, defaults=settings, auto_create=auto_create, culler=culler)


class Log:
    """Topics with numbered messages. Open one with `ottla.open`; close it, or use it in a `with` statement."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        *,
        clock: Clock | None = None,
        defaults: TopicSettings | None = None,
        auto_create: bool = True,
        culler: bool = True,
    ) -> None:
        self.engine = engine
        self.url = _shown(url)
        """The scheme and path that the log was opened with; credentials and options are left out."""
        self._clock = clock or SystemClock()
        self._culler = Culler(engine, self._clock)
        self._catalog = Catalog(
            engine,
            self._clock,
            defaults=defaults or TopicSettings(),
            auto_create=auto_create,
            seen=self._culler.notice if culler else None,
        )
        self._groups = Groups(engine, self._clock)
        self._turns = Turns()
        self._producers: weakref.WeakSet[Producer] = weakref.WeakSet()
        self._consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()
        self._closing = threading.Lock()

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        partitioner: str | None = None,
        retention: str | None = None,
        exist_ok: bool = False,
        **settings: Any,
    ) -> Topic:
        """Make a topic; or `TopicExists`, unless *exist_ok*. What is not given is as in the log's defaults.

        *retention* is `500ms`, `10s`, `5m`, `2h`, `7d` or `forever`; `TopicSettings` lists the other settings.
        """
        given = {"partitions": partitions, "partitioner": partitioner, "retention": retention}
        words = settings | {word: value for word, value in given.items() if value is not None}
        return self._catalog.create(name, words, exist_ok=exist_ok)

    def topics(self) -> list[Topic]:
        """Every topic, sorted by name."""
        return self._catalog.topics()

    def topic(self, name: str) -> Topic:
        """The topic with its settings; or `UnknownTopic`."""
        return self._catalog.topic(name)

    def describe(self, name: str) -> TopicDescription:
        """The topic with what its partitions hold."""
        return self._catalog.describe(name)

    def alter_topic(self, name: str, **changes: Any) -> Topic:
        """Change settings while the topic is in use; those that are not named stay."""
        return self._catalog.alter(name, changes)

    def add_partitions(self, name: str, total: int) -> Topic:
        """Raise the number of partitions to *total*. From then on a key may go to another partition than before,
        so messages of one key are in order before the change and after it, not across it.
        """
        return self._catalog.alter(name, {"partitions": total})

    def delete_topic(self, name: str) -> None:
        """Remove a topic, all its messages and all positions in it. Handles on it raise `TopicRecreated`."""
        topic = self._catalog.delete(name)
        self._groups.forget_topic(topic.id)
        for kind in ("producers", "copies"):
            for key in self.engine.keys(f"{kind}/{topic.id}"):
                self.engine.discard(key)

    def handle(self, topic: str, *, create: bool = False, **settings: Any) -> TopicHandle:
        """The topic, opened for appending and reading packed batches; with *create* as the first post does it.

        *settings* are those of a topic that is made by this call, where they are not as in the log's defaults.
        """
        return self._catalog.open_or_create(topic, settings) if create else self._catalog.open(topic)

    @property
    def defaults(self) -> TopicSettings:
        """The settings of topics that are created without any."""
        return self._catalog.defaults

    @defaults.setter
    def defaults(self, settings: TopicSettings) -> None:
        self._catalog.defaults = settings

    # Messages

    def producer(self, topic: str, **options: Any) -> Producer:
        """A producer that posts to *topic*, which the first post creates if need be. See `Producer` for options."""
        check_name(topic)
        producer = Producer(lambda: self._catalog.open_or_create(topic), clock=self._clock, **options)
        self._producers.add(producer)
        return producer

    def consumer(self, topic: str, *, start: Starts | None = None, **options: Any) -> Consumer:
        """A consumer that reads *topic* from *start*; or `UnknownTopic`. See `Consumer` for options.

        *start* is `earliest`, `latest`, a number, a datetime, `2h ago`, or a mapping from partition to any of
        these. Without one the consumer resumes where its *group* committed, or else starts at `earliest`.
        """
        handle = self._catalog.open(topic)
        consumer = Consumer(handle, clock=self._clock, groups=self._groups, start=start, **options)
        self._consumers.add(consumer)
        return consumer

    def append(
        self,
        topic: str,
        values: Many,
        *,
        keys: Sequence[bytes | None] | Any = None,
        headers: Sequence[Headers] | Any = None,
        timestamps: Sequence[int] | Any = None,
        partition: int | None = None,
        expected_next: int | None = None,
    ) -> list[LandedRange]:
        """Append messages and return where they are once they are durable; the first post creates the topic.

        *values* are bytes, records or Arrow data, as for `Producer.send_many`. With *expected_next* nothing is
        written unless the first message gets that number, else `UnexpectedNext`: optimistic concurrency.
        An append whose outcome is `Uncertain` is not repeated; a producer does that safely.
        """
        columns = columns_of(values, keys, headers, timestamps, self._clock.now_ms())
        settings = self._catalog.settings_for_post(topic)
        check_expected(expected_next, settings, partition)
        batches = plan(topic, columns, settings, partition, self._turns)
        return append_all(self._catalog.open_or_create(topic), batches, expected_next)

    def read(
        self,
        topic: str,
        partition: int | None = None,
        start: StartWords = "earliest",
        *,
        max_messages: int | None = None,
        max_bytes: int | str | None = None,
    ) -> Messages:
        """What is in the log now, from *start*: all of it, or up to a limit.

        All partitions one after another, unless one is given. Below the oldest message kept it skips ahead.
        """
        handle = self._catalog.open(topic)
        left = None if max_messages is None else check_number(max_messages, "max_messages")
        left_bytes = parse_size(max_bytes, "max_bytes")
        where = parse_start(start, self._clock)
        found = Messages(topic)
        for index in _partitions(handle, partition):
            messages, size = _read_all(handle, index, locate(where, handle.partition(index)), left, left_bytes)
            found += messages
            left = None if left is None else left - len(messages)
            left_bytes = None if left_bytes is None else left_bytes - size
            if left == 0 or (left_bytes is not None and left_bytes <= 0):
                break
        return found

    def bounds(self, topic: str, partition: int = 0) -> Bounds:
        """The oldest number that a partition keeps and the next that it gives."""
        return self._catalog.open(topic).bounds(partition)

    def find(self, topic: str, partition: int, time: str | datetime) -> int:
        """The number of the first kept message that the log took at or after a time; the next if there is none."""
        where = parse_start(time, self._clock, "time")
        if not isinstance(where, Since):
            raise InvalidValue("time", time, "give a datetime, 2h ago or a time such as 2030-01-31T12:00:00Z")
        return self._catalog.open(topic).partition(partition).find(where.timestamp_ms)

    def trim(self, topic: str, partition: int | None = None, *, before: StartWords) -> dict[int, Bounds]:
        """Remove what lies before a number, a time, or everything (`latest`); numbers go on. Returns the new bounds.

        A number belongs to one partition, so it needs *partition* where the topic has several.
        """
        handle = self._catalog.open(topic)
        where = parse_start(before, self._clock, "before")
        indices = _partitions(handle, partition)
        if isinstance(where, At) and len(indices) > 1:
            raise InvalidValue("before", before, f"topic {topic!r} has {len(indices)} partitions: say which one")
        stores = {index: handle.partition(index) for index in indices}
        return {index: store.trim(locate(where, store)) for index, store in stores.items()}

    def compact(self, topic: str, *, progress: Callable[[int], None] | None = None) -> Compacted:
        """Turn the sealed segments of all partitions into Parquet runs; readers and writers go on meanwhile."""
        handle = self._catalog.open(topic)
        stores = [handle.partition(index) for index in _partitions(handle, None)]
        done = [_compactable(store, self.url).compact(progress=progress) for store in stores]
        return Compacted(*map(sum, zip(*done, strict=True)))

    # Groups

    def groups(self) -> list[GroupPositions]:
        """What every group committed, by group and topic."""
        return self._groups.all()

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The positions that a group committed for a topic, by partition."""
        return self._groups.committed(group, self._catalog.topic(topic))

    def commit(self, group: str, topic: str, positions: Mapping[int, int]) -> None:
        """Set a group's positions by hand; partitions that are not named stay as they are."""
        self._groups.commit(group, self._catalog.topic(topic), positions)

    def delete_group(self, group: str, topic: str | None = None) -> None:
        """Forget what a group committed, for one topic or for all."""
        self._groups.delete(group, None if topic is None else self._catalog.topic(topic))

    # Retention

    def cull(self) -> None:
        """Remove what retention no longer keeps, now. Raises the first error, after all topics had their turn."""
        for error in self._culler.cull().values():
            raise error

    def start_culler(self) -> None:
        """Have retention carried out in the background from now on, whichever process the topics are used in."""
        self._culler.start()

    @property
    def culler_errors(self) -> Mapping[str, Exception]:
        """What keeps retention from being carried out, by topic; empty when all is well."""
        return self._culler.errors

    @property
    def culler_failure(self) -> BaseException | None:
        """What ended retention for good in this process, if anything did."""
        return self._culler.failure

    # The end

    def close(self) -> None:
        """Close the log's producers, which send what they hold, then its consumers and the engine.

        Harmless when repeated. Raises the first error, after everything is closed.
        """
        with self._closing:
            errors: list[Exception] = []
            consumers = list(self._consumers)
            for consumer in consumers:
                consumer.stop()  # all at once, so that those who wait return at the same time
            closing: list[Producer | Consumer] = [*self._producers, *consumers]
            for opened in closing:
                try:
                    opened.close()
                except Exception as error:  # noqa: BLE001  (the others are closed all the same)
                    errors.append(error)
            self._culler.stop()
            self.engine.close()
        if errors:
            raise errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            for consumer in list(self._consumers):
                consumer.stop(failed=True)
        self.close()

    def __repr__(self) -> str:
        return f"Log({self.url!r})"


def _partitions(handle: TopicHandle, partition: int | None) -> range:
    """The one partition that was asked for, or all."""
    if partition is None:
        return range(handle.current().settings.partitions)
    handle.partition(partition)
    return range(partition, partition + 1)


def _read_all(
    handle: TopicHandle, partition: int, start: int, max_messages: int | None, max_bytes: int | None
) -> tuple[Messages, int]:
    """What one partition holds now, from *start* up to the limits, and its bytes."""
    store = handle.partition(partition)
    bounds = store.bounds()
    start = at = max(start, bounds.first)
    most = sys.maxsize if max_bytes is None else max_bytes
    end = bounds.next if max_messages is None else min(bounds.next, start + max_messages)
    batches: list[Batch] = []
    size = 0
    while at < end and size < most and (found := store.read(at, min(_READ_BYTES, most - size))):
        batches += found
        size += sum(batch.size for batch in found)
        at = found[-1].next_number
    return Messages.of(handle.name, partition, batches, start, max_messages), size


def _compactable(store: PartitionStore, url: str) -> Compactable:
    if not isinstance(store, Compactable):
        raise InvalidValue("log", url, "its engine has nothing to compact: only a file: log has Parquet runs")
    return store


def _shown(url: str) -> str:
    """A URL without what may be secret: credentials and options."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}:{f'//{host}' if parts.netloc or '//' in url else ''}{parts.path}"
