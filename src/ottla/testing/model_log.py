"""A log as plain lists: what the state machine compares the real one with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.model import Headers, Message, Record


class ModelMessage(NamedTuple):
    """What a message must be when it is read. The append time is the log's own and not compared."""

    number: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, message: Message) -> "ModelMessage":
        return cls(message.number, message.timestamp_ms, message.key, message.value, message.headers)


class Entry(NamedTuple):
    """A message and when the log took it."""

    message: ModelMessage
    append_ms: int


@dataclass(slots=True)
class ModelPartition:
    """Every message that was ever appended, and the oldest number that is kept."""

    first: int = 1
    messages: list[Entry] = field(default_factory=list)
    stamped: dict[int, list[tuple[int, Sequence[bytes | None]]]] = field(default_factory=dict)
    """By producer, the first number and the values of each of its batches."""

    @property
    def next(self) -> int:
        return len(self.messages) + 1

    @property
    def last_ms(self) -> int:
        """When the newest message was appended."""
        return self.messages[-1].append_ms if self.messages else 0

    def append(self, values: Sequence[bytes | None], append_ms: int) -> list[int]:
        """Messages that are just values; returns their numbers."""
        return self.extend([Record(value=value) for value in values], append_ms)

    def extend(self, records: Sequence[Record], append_ms: int) -> list[int]:
        first = self.next
        for number, record in enumerate(records, first):
            timestamp_ms = append_ms if record.timestamp_ms is None else record.timestamp_ms
            message = ModelMessage(number, timestamp_ms, record.key, record.value, record.headers)
            self.messages.append(Entry(message, append_ms))
        return list(range(first, self.next))

    def kept(self, start: int) -> list[ModelMessage]:
        """What a read from *start* gives."""
        return [entry.message for entry in self.messages[max(start, self.first) - 1 :]]

    def find(self, timestamp_ms: int) -> int:
        """The first kept message that was appended at or after a time."""
        found = (entry.message.number for entry in self.messages if entry.append_ms >= timestamp_ms)
        return max(next(found, self.next), self.first)


class ModelTopic:
    """A topic's partitions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = [ModelPartition() for _ in range(partitions)]

    @property
    def last_ms(self) -> int:
        """When the newest message of all was appended."""
        return max(partition.last_ms for partition in self.partitions)
