"""The `memory:` engine: lists of batches in this process. Nothing survives it, and that is the promise."""

import bisect
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from operator import attrgetter

from ottla.batch import Batch
from ottla.errors import (
    Closed,
    InvalidValue,
    MetadataConflict,
    ReadOnly,
    TopicExists,
    TopicRecreated,
    UnknownPartition,
    UnknownTopic,
)
from ottla.model import Appended, Bounds, Topic
from ottla.settings import check_name
from ottla.storage.altering import altered
from ottla.storage.contract import EngineOptions, PartitionStore, Versioned
from ottla.storage.producers import Admission, Producers


def open_memory(url: str, options: EngineOptions) -> "MemoryEngine":
    """A fresh, empty log in this process."""
    if url.rstrip("/") != "memory:":
        raise InvalidValue("URL", url, "a memory log has no name: write memory:")
    if options.settings:
        raise InvalidValue("URL option", next(iter(options.settings)), "memory: has none")
    return MemoryEngine(options)


class MemoryPartition:
    """One partition's batches in a list. The engine's condition guards everything."""

    def __init__(self, engine: "MemoryEngine", topic: Topic, index: int) -> None:
        self._engine = engine
        self._topic = topic
        self._index = index
        self._changed = engine.changed
        self._batches: list[Batch] = []
        self._first = 1
        self._next = 1
        self._last_append_ms = 0
        self._producers = Producers()

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        with self._changed:
            self._engine.check_writable("append")
            self._check_alive()
            now_ms = max(self._engine.clock.now_ms(), self._last_append_ms)
            admission = Admission(self._producers, self._next, now_ms)
            results = admission.admit(batches, expected_next, (self._topic.name, self._index))
            self._batches += admission.batches
            self._next = admission.next_number
            self._last_append_ms = now_ms
            admission.settle()
            self._changed.notify_all()
            return results

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        with self._changed:
            self._check_alive()
            start = max(start, self._first)
            at = bisect.bisect_right(self._batches, start, key=attrgetter("next_number"))
            found = self._batches[at : at + 1]
            size = sum(batch.size for batch in found)
            while at + len(found) < len(self._batches):
                batch = self._batches[at + len(found)]
                size += batch.size
                if size > max_bytes:
                    break
                found.append(batch)
            return found

    def bounds(self) -> Bounds:
        with self._changed:
            self._check_alive()
            return Bounds(self._first, self._next)

    def find(self, timestamp_ms: int) -> int:
        with self._changed:
            self._check_alive()
            at = bisect.bisect_left(self._batches, timestamp_ms, key=lambda batch: batch.header.append_ms)
            return max(self._batches[at].first_number, self._first) if at < len(self._batches) else self._next

    def size(self) -> int:
        with self._changed:
            self._check_alive()
            return sum(batch.size for batch in self._batches)

    def trim(self, before: int) -> Bounds:
        with self._changed:
            self._engine.check_writable("trim")
            self._check_alive()
            self._first = max(self._first, min(before, self._next))
            gone = bisect.bisect_right(self._batches, self._first, key=attrgetter("next_number"))
            del self._batches[:gone]
            return Bounds(self._first, self._next)

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        with self._changed:
            gone = 0
            if older_than_ms is not None:
                gone = bisect.bisect_left(self._batches, older_than_ms, key=lambda batch: batch.header.append_ms)
            if max_bytes is not None:
                size = sum(batch.size for batch in self._batches[gone:])
                while size > max_bytes:
                    size -= self._batches[gone].size
                    gone += 1
            return self.trim(self._batches[gone - 1].next_number if gone else 1)

    def _check_alive(self) -> None:
        self._engine.check_open()
        if not self._engine.is_current(self._topic):
            raise TopicRecreated(self._topic.name, self._topic.id)


class MemoryEngine:
    """Topics and metadata in dictionaries, under one lock."""

    def __init__(self, options: EngineOptions) -> None:
        self.clock = options.clock
        self.changed = threading.Condition(threading.RLock())
        self._read_only = options.read_only
        self._closed = False
        self._topics: dict[str, Topic] = {}
        self._partitions: dict[tuple[str, int], MemoryPartition] = {}
        self._metadata: dict[str, Versioned] = {}
        _engines.add(self)

    def topics(self) -> list[Topic]:
        with self.changed:
            self.check_open()
            return sorted(self._topics.values(), key=attrgetter("name"))

    def topic(self, name: str) -> Topic:
        self.check_open()
        try:
            return self._topics[name]
        except KeyError:
            raise UnknownTopic(name) from None

    def create_topic(self, topic: Topic) -> Topic:
        with self.changed:
            self.check_writable("create a topic")
            if topic.name in self._topics:
                raise TopicExists(topic.name)
            self._topics[topic.name] = topic
            return topic

    def alter_topic(self, topic: Topic) -> Topic:
        with self.changed:
            self.check_writable("change a topic")
            self._topics[topic.name] = altered(self.topic(topic.name), topic)
            return self._topics[topic.name]

    def delete_topic(self, name: str) -> None:
        with self.changed:
            self.check_writable("delete a topic")
            gone = self.topic(name)
            del self._topics[name]
            for key in [key for key in self._partitions if key[0] == gone.id]:
                del self._partitions[key]
            self.changed.notify_all()

    def partition(self, topic: Topic, index: int) -> MemoryPartition:
        with self.changed:
            self.check_open()
            if not self.is_current(topic):
                raise TopicRecreated(topic.name, topic.id)
            partitions = self._topics[topic.name].settings.partitions
            if not 0 <= index < partitions:
                raise UnknownPartition(topic.name, index, partitions)
            key = (topic.id, index)
            if key not in self._partitions:
                self._partitions[key] = MemoryPartition(self, topic, index)
            return self._partitions[key]

    def wait(self, after: Mapping[PartitionStore, int], timeout: float) -> bool:
        def ready() -> bool:
            return self._closed or any(_has(partition, number) for partition, number in after.items())

        with self.changed:
            return self.changed.wait_for(ready, timeout)

    def load(self, key: str) -> Versioned | None:
        self.check_open()
        return self._metadata.get(_checked(key))

    def store(self, key: str, data: bytes, version: int) -> int:
        with self.changed:
            self.check_writable("store metadata")
            current = self._metadata.get(_checked(key))
            actual = current.version if current else 0
            if actual != version:
                raise MetadataConflict(key, version, actual)
            self._metadata[key] = Versioned(data, version + 1)
            return version + 1

    def keys(self, prefix: str) -> list[str]:
        with self.changed:
            self.check_open()
            start = f"{_checked(prefix)}/"
            return sorted(key for key in self._metadata if key.startswith(start))

    def discard(self, key: str) -> None:
        with self.changed:
            self.check_writable("remove metadata")
            self._metadata.pop(_checked(key), None)

    def close(self) -> None:
        with self.changed:
            self._closed = True
            self.changed.notify_all()

    def is_current(self, topic: Topic) -> bool:
        current = self._topics.get(topic.name)
        return current is not None and current.id == topic.id

    def check_open(self) -> None:
        if self._closed:
            raise Closed("log")

    def check_writable(self, what: str) -> None:
        self.check_open()
        if self._read_only:
            raise ReadOnly(what)


def _has(partition: PartitionStore, number: int) -> bool:
    """Whether there is something to read, or a reader must be told that the topic is gone."""
    try:
        return partition.bounds().next > number
    except TopicRecreated:
        return True


def _checked(key: str) -> str:
    for part in key.split("/"):
        check_name(part, "metadata key")
    return key


_engines: "weakref.WeakSet[MemoryEngine]" = weakref.WeakSet()
_held = threading.local()


def _hold_all() -> None:
    """A fork waits for running calls, or the child would inherit locks of threads that it does not have."""
    _held.engines = list(_engines)
    for engine in _held.engines:
        engine.changed.acquire()


def _release_all() -> None:
    for engine in _held.engines:
        engine.changed.release()


os.register_at_fork(before=_hold_all, after_in_parent=_release_all, after_in_child=_release_all)
