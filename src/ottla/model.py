"""The nouns of a log: records, messages, topics, positions, where to start.

Plain frozen values without behaviour; nothing here does I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.settings import TopicSettings

Headers = tuple[tuple[str, bytes | None], ...]
"""Header names with their values, in the producer's order; a name may come twice."""

Position = int | Mapping[int, int]
"""The number a consumer reads next; for several partitions, a mapping from partition to number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a producer hands over: not yet given a message number."""

    value: bytes | None
    """`None` is not the same as empty: it is a tombstone in a key-compacted topic."""
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    """Unix milliseconds; `None` lets the log's clock decide."""


class Message(NamedTuple):
    """A record in the log. Its number never changes and is never given to another message."""

    topic: str
    partition: int
    number: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    @property
    def offset(self) -> int:
        """The message number, by the name that Kafka uses."""
        return self.number


class Landed(NamedTuple):
    """Where one sent message is."""

    topic: str
    partition: int
    number: int


class LandedRange(NamedTuple):
    """Where messages that were sent together are, for one partition."""

    topic: str
    partition: int
    numbers: range


class Bounds(NamedTuple):
    """What a partition holds: the messages *first* to *next* - 1."""

    first: int
    """The oldest number kept; equal to *next* when nothing is kept."""
    next: int
    """The number that the next message gets."""


class Appended(NamedTuple):
    """The numbers that one batch has."""

    first: int
    count: int  # type: ignore[assignment]  # the number of messages, not tuple.count
    duplicate: bool = False
    """The batch was in the log already, and these are its numbers from then."""

    @property
    def next(self) -> int:
        return self.first + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic as the log keeps it. *id* differs for a topic that was deleted and created again."""

    name: str
    id: str
    created_ms: int
    settings: TopicSettings = field(default_factory=TopicSettings)
    version: int = 1
    """Goes up by one with each change of the settings."""


@dataclass(frozen=True, slots=True)
class Earliest:
    """Start at the oldest message kept."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Start at the next message that arrives."""


@dataclass(frozen=True, slots=True)
class At:
    """Start at a message number."""

    number: int


@dataclass(frozen=True, slots=True)
class Since:
    """Start at the first message that the log took at or after a time."""

    timestamp_ms: int


Start = Earliest | Latest | At | Since


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that `verify` found wrong, or `repair` set aside."""

    topic: str
    partition: int | None
    path: str
    position: int
    reason: str
    lost: range | None = None
    """The message numbers that can no longer be read, where they are known."""
    set_aside: str | None = None
    """Where `repair` put the damaged bytes."""
