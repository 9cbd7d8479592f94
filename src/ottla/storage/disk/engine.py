"""What the engines on a folder have in common: topics, metadata, open partitions, waiting, syncs at intervals."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ottla.errors import Closed, InvalidValue, ReadOnly, TopicRecreated, UnknownPartition
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage.contract import EngineOptions, PartitionStore, Versioned
from ottla.storage.disk import files as disk_files
from ottla.storage.disk import forks
from ottla.storage.disk.catalog import Catalog
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.disk.root import Root, storage_full_at

_log = logging.getLogger("ottla")

_SHORTEST_LOOK_S = 0.0005
_LONGEST_LOOK_S = 0.005


class Committed(Protocol):
    """What commits are made to: a partition, or several that share their files."""

    folder: Path

    def flush(self) -> None:
        """Make what was appended without a sync durable; for `sync="interval"`."""

    def exists(self) -> bool:
        """Whether anything was ever appended."""

    def held(self) -> AbstractContextManager[Any]:
        """Hold the lock that every commit holds."""


P = TypeVar("P", bound=PartitionStore)


def only_network_option(url: str, options: EngineOptions, *known: str) -> bool:
    """Whether the URL allows network file systems; any other option than that and the *known* is refused."""
    settings = {name: value for name, value in options.settings.items() if name not in known}
    network = settings.pop("network", "refuse")
    if settings or network not in {"allow", "refuse"}:
        name = next(iter(settings), f"network={network}")
        also = "".join(f" and {other}=…" for other in known)
        raise InvalidValue("URL option", name, f"{url.partition(':')[0]}: knows only network=allow{also}")
    return network == "allow"


class DiskEngine(Generic[P]):
    """Topics in a folder. Safe from many threads and processes, and across forks."""

    name: str
    """How the root's identity file calls this kind of log."""

    def __init__(self, folder: Path, options: EngineOptions, *, allow_network: bool = False) -> None:
        self.files = disk_files.SYSTEM
        self.clock = options.clock
        self.root = Root(self.files, folder, self.name, read_only=options.read_only, allow_network=allow_network)
        self.catalog = Catalog(self.root)
        self.segments = OpenFiles(self.files, os.O_RDONLY if options.read_only else os.O_RDWR)
        self._closed = False
        self._partitions: dict[tuple[str, int], P] = {}
        self.forget()
        forks.register(self)

    def forget(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        self._unsynced: dict[Committed, float] = {}
        self._syncer: threading.Thread | None = None
        self._closing = False

    # Topics and metadata

    def topics(self) -> list[Topic]:
        self.check_open()
        with storage_full_at(self.root.path):
            return self.catalog.topics()

    def topic(self, name: str) -> Topic:
        self.check_open()
        with storage_full_at(self.root.path):
            return self.catalog.topic(name)

    def create_topic(self, topic: Topic) -> Topic:
        self.check_writable("create a topic")
        return self.catalog.create(topic)

    def alter_topic(self, topic: Topic) -> Topic:
        self.check_writable("change a topic")
        return self.catalog.alter(topic)

    def delete_topic(self, name: str) -> None:
        """Wait for the commits under way in every partition, then take the topic away in one step."""
        self.check_writable("delete a topic")
        topic = self.topic(name)
        with self.root.changing("delete a topic"), contextlib.ExitStack() as locks:
            topic = self.catalog.topic(name)
            for committed in self.committed(topic):
                if committed.exists():
                    locks.enter_context(committed.held())
            self.catalog.remove(topic)
            self.removed(topic)
        self.catalog.empty_trash()
        for key in [key for key in list(self._partitions) if key[0] == topic.id]:
            self._partitions.pop(key, None)
        self.let_go(self.catalog.folder(topic))
        self._notify()

    def partition(self, topic: Topic, index: int) -> P:
        self.check_open()
        key = (topic.id, index)
        partition = self._partitions.get(key)
        if partition is None:
            with storage_full_at(self.root.path):
                if not self.catalog.is_current(topic):
                    raise TopicRecreated(topic.name, topic.id)
                partitions = self.catalog.topic(topic.name).settings.partitions
            if not 0 <= index < partitions:
                raise UnknownPartition(topic.name, index, partitions)
            partition = self._partitions.setdefault(key, self.open_partition(topic, index))
        return partition

    def load(self, key: str) -> Versioned | None:
        self.check_open()
        with storage_full_at(self.root.path):
            return self.catalog.load(key)

    def store(self, key: str, data: bytes, version: int) -> int:
        self.check_writable("store metadata")
        return self.catalog.store(key, data, version)

    def keys(self, prefix: str) -> list[str]:
        self.check_open()
        with storage_full_at(self.root.path):
            return self.catalog.keys(prefix)

    def discard(self, key: str) -> None:
        self.check_writable("remove metadata")
        self.catalog.discard(key)

    # What each kind of log does in its own way

    def open_partition(self, topic: Topic, index: int) -> P:
        """A new partition object; `partition` keeps it."""
        raise NotImplementedError

    def committed(self, topic: Topic) -> Iterable[Committed]:
        """Everything of a topic that commits are made to."""
        raise NotImplementedError

    def let_go(self, folder: Path) -> None:
        """Close what is open below a folder that was deleted: the disk has the space only then."""
        self.segments.drop_below(folder)
        self.root.handles.drop_below(folder)

    def removed(self, topic: Topic) -> None:
        """The topic was just deleted; the root's lock and its own locks are still held."""

    # Waiting

    def wait(self, after: Mapping[PartitionStore, int], timeout: float) -> bool:
        """Appends of this process wake at once; those of others are seen by looking every few milliseconds."""
        deadline = time.monotonic() + timeout
        pause = _SHORTEST_LOOK_S
        longest = _LONGEST_LOOK_S * max(1.0, len(after) / 16)
        while not self._closed and not any(_has(partition, number) for partition, number in after.items()):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._changed:
                self._waiting += 1
                self._changed.wait(min(pause, left))
                self._waiting -= 1
            pause = min(pause * 2, longest)
        return True

    def appended(self, committed: Committed, settings: TopicSettings) -> None:
        """Called after each commit: wake the waiting, and see to a later sync if that was all that is asked."""
        if self._waiting:
            self._notify()
        if settings.sync == "interval":
            with self._changed:
                self._unsynced.setdefault(committed, time.monotonic() + settings.sync_interval_ms / 1000)
                if self._syncer is None:
                    self._syncer = threading.Thread(target=self._sync_later, name="ottla-sync", daemon=True)
                    self._syncer.start()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Syncing at intervals

    def _sync_later(self) -> None:
        while True:
            with self._changed:
                if self._closing or not self._unsynced:
                    self._syncer = None
                    return
                due = min(self._unsynced.values())
                self._changed.wait(max(0.0, due - time.monotonic()))
                now = time.monotonic()
                ready = [] if self._closing else [each for each, at in self._unsynced.items() if at <= now]
                for committed in ready:
                    del self._unsynced[committed]
            for committed in ready:
                self._flush(committed)

    def _flush(self, committed: Committed) -> None:
        try:
            committed.flush()
        except TopicRecreated:
            pass
        except Exception:  # noqa: BLE001  (a thread that dies would sync nothing any more)
            _log.exception("%s could not be synced: what it took since the last sync may be lost", committed.folder)

    # Life

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            syncer = self._syncer
        if syncer is not None:
            syncer.join()
        with self._changed:
            unsynced = [] if self._closed else list(self._unsynced)
            self._unsynced.clear()
        for committed in unsynced:
            self._flush(committed)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.segments.clear()
        self.root.handles.clear()

    def check_open(self) -> None:
        if self._closed:
            raise Closed("log")

    def check_writable(self, what: str) -> None:
        self.check_open()
        if self.root.read_only:
            raise ReadOnly(what)


def _has(partition: PartitionStore, number: int) -> bool:
    """Whether there is something to read, or a reader must be told that the topic is gone."""
    try:
        return partition.bounds().next > number
    except (TopicRecreated, Closed):
        return True
