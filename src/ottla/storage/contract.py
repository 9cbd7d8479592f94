"""What a storage engine must do: everything above works on any engine that keeps these promises.

An engine author reads this file, writes the two classes, and inherits `ottla.testing.EngineContract`
to find out whether the promises hold. Engines import nothing above this package.

The promises, for every engine:

- Numbers of a partition start at 1, are dense, never restart and never change, whatever is removed.
- `append` returns after its batches are as durable as the topic's `sync` setting says. When it raises,
  nothing of the call is in the log, except after `Uncertain`, which says that nobody knows.
- A batch is whole or absent. Readers see a prefix: no gap, no reorder, nothing that was refused.
- Everything is safe from many threads; after a fork parent and child may both go on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from ottla.batch import Batch
from ottla.clock import Clock, SystemClock
from ottla.model import Appended, Bounds, Damage, Topic


class PartitionStore(Protocol):
    """One partition's batches, in order.

    Every method raises `TopicRecreated` when the topic of this handle was deleted since.
    """

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        """Number *batches*, make them durable, and return each one's numbers, in order.

        With *expected_next* the whole call is refused with `UnexpectedNext` unless the first batch would
        get that number (a retry of what is stored already gets its first numbers all the same). A batch
        that is stamped with a producer is recognised when it comes again: its first numbers are returned
        and nothing is written. `ottla.storage.producers` has the rules.
        """

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        """Whole batches from the one that holds *start*, or the oldest kept after it, up to *max_bytes*.

        At least one batch if there is any at or after *start*, however large; an empty list at the tail.
        The first batch may begin before *start*. Below the oldest number kept it skips ahead.
        """

    def bounds(self) -> Bounds:
        """The oldest number kept and the next to be given."""

    def find(self, timestamp_ms: int) -> int:
        """The number of the first message kept that was appended at or after a time; *next* if none."""

    def size(self) -> int:
        """Bytes that the kept messages take, about."""

    def trim(self, before: int) -> Bounds:
        """Remove what lies below *before*, at once for readers; never more, and numbers go on.

        A number beyond *next* is taken as *next*. Returns the new bounds.
        """

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        """Remove whole segments: those appended wholly before *older_than_ms*, and the oldest while the
        partition is larger than *max_bytes*. The active segment is sealed first where that lets it go.
        """


class Engine(Protocol):
    """Topics, their partitions, and small versioned metadata."""

    def topics(self) -> list[Topic]:
        """Every topic, sorted by name."""

    def topic(self, name: str) -> Topic:
        """The topic as it is now, cheap enough to call before every batch; or `UnknownTopic`."""

    def create_topic(self, topic: Topic) -> Topic:
        """Make a topic that is there for good once this returns; or `TopicExists`."""

    def alter_topic(self, topic: Topic) -> Topic:
        """Replace the settings if *topic.version* is still current, else `MetadataConflict`; returns the new one.

        Partitions may be added, never removed.
        """

    def delete_topic(self, name: str) -> None:
        """Remove the topic and all its messages; handles on it raise `TopicRecreated` from then on."""

    def partition(self, topic: Topic, index: int) -> PartitionStore:
        """A handle on one partition; cheap, and opened at first use."""

    def wait(self, after: Mapping[PartitionStore, int], timeout: float) -> bool:
        """Block until any of the partitions has a message at or above its given number, or *timeout* seconds
        are over, or one of them is gone, or the engine is closed. True unless the time ran out.
        """

    def load(self, key: str) -> "Versioned | None":
        """Metadata by key; keys are checked names joined by `/`."""

    def store(self, key: str, data: bytes, version: int) -> int:
        """Replace metadata if it is still at *version* (0: it must not exist), else `MetadataConflict`.

        Durable when it returns; the new version, which is higher.
        """

    def keys(self, prefix: str) -> list[str]:
        """The keys below `prefix/`, sorted."""

    def discard(self, key: str) -> None:
        """Remove metadata; nothing happens if there is none."""

    def close(self) -> None:
        """Give up every resource; waiting calls return. What was acknowledged is as durable as before."""


class Versioned(NamedTuple):
    """Metadata with the version to give back when replacing it."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """What every engine is opened with."""

    clock: Clock = field(default_factory=SystemClock)
    read_only: bool = False
    """Touch nothing: no folder is created, nothing is recovered, cut or locked."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The URL's query, for what only this engine knows; an unknown name is refused."""


EngineFactory = Callable[[str, EngineOptions], Engine]
"""What the entry point group `ottla.engines` holds, by URL scheme: it takes the URL and the options."""


@runtime_checkable
class Served(Protocol):
    """An engine whose log belongs to a server: that checks every append against the topic's limits of that moment and
    carries out retention, so that nobody needs to do so here.
    """

    served_by: str
    """The server's address."""


@runtime_checkable
class Pipelined(Protocol):
    """A partition that takes appends while earlier ones are on their way, and stores them in that order."""

    def start(self, batches: Sequence[Batch]) -> "Underway":
        """Send an append and do not wait for it; or the error that kept it from being sent."""


class Underway(Protocol):
    """An append that was sent."""

    def finish(self) -> list[Appended]:
        """Wait, and return or raise what `append` would have; nothing is repeated by itself."""


@runtime_checkable
class Fetching(Protocol):
    """A partition that says its bounds together with what it reads, because asking twice takes twice as long."""

    def fetch(self, start: int, max_bytes: int) -> tuple[list[Batch], Bounds]:
        """What `read` gives, and the bounds as they were when that was read."""


@runtime_checkable
class Compactable(Protocol):
    """A partition whose sealed batches can be turned into Parquet runs."""

    def compact(self, *, progress: Callable[[int], None] | None = None) -> "Compacted":
        """Turn every sealed segment into runs; readers and writers go on meanwhile."""


class Compacted(NamedTuple):
    """What a compaction did."""

    segments: int
    messages: int
    bytes_before: int
    bytes_after: int


@runtime_checkable
class Repairable(Protocol):
    """An engine that can look at all it stores and set damage aside."""

    def verify(self) -> Iterable[Damage]:
        """Check every stored byte; yields what is wrong, changes nothing."""

    def repair(self) -> Iterable[Damage]:
        """Set damage aside, never delete it, so that all that is whole can be read again."""
