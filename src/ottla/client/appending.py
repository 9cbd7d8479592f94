"""Direct appends: durable when they return, with no buffer and no thread between.

One engine call for each partition. A call is stored whole or not at all; where the messages go to several
partitions and one of them fails, those of the partitions before it are in the log.
"""

import threading
from collections.abc import Mapping, Sequence

from ottla.batch import Batch, Columns, split
from ottla.client.dealing import deal
from ottla.client.lifetime import tell_at_fork
from ottla.errors import InvalidValue, UnknownPartition
from ottla.log.partitioners import check_assigned, partitioner_for
from ottla.log.topics import TopicHandle, check_limits
from ottla.model import LandedRange
from ottla.settings import TopicSettings, check_number

_BATCH_BYTES = 2**20
"""Larger appends are cut into batches of about this size."""


class Turns:
    """Whose turn it is in each topic, for messages without a preference. Safe from many threads."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self.forked()
        tell_at_fork(self)

    def forked(self) -> None:
        self._lock = threading.Lock()

    def take(self, topic: str, count: int, partitions: int) -> int:
        """The partition of the first of *count* messages."""
        with self._lock:
            first = self._taken.get(topic, 0)
            self._taken[topic] = first + count
        return first % partitions


def plan(
    topic: str, columns: Columns, settings: TopicSettings, partition: int | None, turns: Turns
) -> dict[int, list[Batch]]:
    """Each partition's batches, after checking everything that can be checked before anything is written."""
    partitions = settings.partitions
    if partition is not None:
        if check_number(partition, "partition", least=0) >= partitions:
            raise UnknownPartition(topic, partition, partitions)
        shares = iter([(partition, columns)])
    else:
        assigned = partitioner_for(settings.partitioner).assign(columns, partitions) if partitions > 1 else None
        preferred = check_assigned(assigned, columns, partitions)
        shares = deal(columns, preferred, partitions, lambda count: turns.take(topic, count, partitions))
    batches = {index: [Batch.pack(piece) for piece in split(share, _BATCH_BYTES)] for index, share in shares}
    for batch in (batch for share in batches.values() for batch in share):
        check_limits(batch, settings)
    return batches


def check_expected(expected_next: int | None, settings: TopicSettings, partition: int | None) -> None:
    """An expected number belongs to one partition, so it must be clear to which."""
    if expected_next is None:
        return
    check_number(expected_next, "expected_next")
    if partition is None and settings.partitions > 1:
        raise InvalidValue("expected_next", expected_next, "the topic has several partitions: say which partition")


def append_all(
    handle: TopicHandle, batches: Mapping[int, Sequence[Batch]], expected_next: int | None
) -> list[LandedRange]:
    """Append what was planned; where everything is now."""
    landed = []
    for partition, share in batches.items():
        appended = handle.append(partition, share, expected_next=expected_next)
        landed.append(LandedRange(handle.name, partition, range(appended[0].first, appended[-1].next)))
    return landed
