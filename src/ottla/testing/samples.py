"""Small logs for tests: batches from values, topics by name, everything that a partition holds."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from ottla.batch import Batch, Messages, Stamp, columns_of_values
from ottla.model import Message, Topic
from ottla.settings import TopicSettings
from ottla.storage import Engine, PartitionStore

ALL_BYTES = 1 << 40
"""More than any test stores: a read of everything."""


def batch_of(*values: bytes | None, stamp: Stamp | None = None) -> Batch:
    """A batch of these values."""
    return Batch.pack(columns_of_values(values), stamp=stamp)


class Sender(NamedTuple):
    """A producer's identity, from which its batches are stamped."""

    producer_id: bytes
    epoch: int = 0

    @classmethod
    def number(cls, number: int, epoch: int = 0) -> "Sender":
        """The same identity for the same number, in every process."""
        return cls(UUID(int=number + 1).bytes, epoch)

    def batch(self, sequence: int, *values: bytes | None, sparse: bool = False) -> Batch:
        """The batch of that sequence; its value says so unless others are given."""
        stamp = Stamp(self.producer_id, self.epoch, sequence, sparse)
        return batch_of(*(values or (b"%d" % sequence,)), stamp=stamp)


def new_topic(engine: Engine, name: str = "deliveries", **settings: Any) -> Topic:
    """A new topic, its settings in people's words."""
    return engine.create_topic(Topic(name=name, id=uuid4().hex, created_ms=0, settings=TopicSettings.of(**settings)))


def messages_of(partition: PartitionStore, start: int = 1, max_bytes: int = ALL_BYTES) -> list[Message]:
    """Everything that the partition holds from *start*, read as a reader would: call after call."""
    found: list[Message] = []
    while batches := partition.read(start, max_bytes):
        low = max(start, partition.bounds().first)
        found += Messages.of("", 0, batches, low)
        start = batches[-1].next_number
    return found


def values_of(partition: PartitionStore, start: int = 1, max_bytes: int = ALL_BYTES) -> list[bytes | None]:
    """Just the values."""
    return [message.value for message in messages_of(partition, start, max_bytes)]


def numbers_of(partition: PartitionStore, start: int = 1) -> list[int]:
    """Just the numbers."""
    return [message.number for message in messages_of(partition, start)]


def is_dense(numbers: Iterable[int]) -> bool:
    """Whether each number is one more than the one before."""
    return all(b == a + 1 for a, b in itertools.pairwise(numbers))
