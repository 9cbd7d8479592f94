"""Reading one partition from a position on: in order, without a gap that is not reported."""

import bisect
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from ottla.batch import Batch, Messages
from ottla.errors import MessagesLost
from ottla.log.topics import TopicHandle
from ottla.model import Bounds
from ottla.storage import Fetching


class Gap(NamedTuple):
    """Messages that retention removed before a consumer read them: *start* to *first* - 1."""

    topic: str
    partition: int
    start: int
    first: int

    @property
    def messages(self) -> int:
        return self.first - self.start


class PartitionReader:
    """One partition and the number that is read next. Not thread-safe.

    Batches that were read but not used up are kept, so that small polls do not read large batches again.
    """

    def __init__(self, handle: TopicHandle, partition: int, position: int) -> None:
        self.topic = handle.name
        self.partition = partition
        self.store = handle.partition(partition)
        self.position = position
        """The number that is read next. The owner moves it: reading alone does not."""
        self._ahead: list[Batch] = []

    def read(self, max_messages: int, max_bytes: int) -> tuple[Messages, int]:
        """Messages from the position on and their bytes; none at the tail; or `MessagesLost` if the next is gone."""
        if isinstance(self.store, Fetching):
            there = self._holds(self.position) or self._fetch(self.store, max_bytes)
        else:
            there = self._is_there(self.store.bounds())
            if there and not self._holds(self.position):
                self._ahead = unbroken(self.store.read(self.position, max_bytes))
                self._check_still_there()
        if not there:
            self._ahead = []
            return Messages(self.topic), 0
        batches, size = _within(self._ahead, max_bytes)
        messages = Messages.of(self.topic, self.partition, batches, self.position, max_messages)
        after = self.position + len(messages)
        self._ahead = [batch for batch in self._ahead if batch.next_number > after]
        return messages, size

    def _fetch(self, store: Fetching, max_bytes: int) -> bool:
        """Read from the position on; False at the tail."""
        found, bounds = store.fetch(self.position, max_bytes)
        self._ahead = unbroken(found)
        there = self._is_there(bounds)
        if there:
            self._check_still_there()
        return there

    def _is_there(self, bounds: Bounds) -> bool:
        """Whether there is a message at the position; False at the tail; or `MessagesLost` if it is gone."""
        if self.position < bounds.first:
            self._ahead = []
            raise MessagesLost(self.topic, self.partition, self.position, bounds.first)
        return self.position < bounds.next

    @property
    def bytes_ahead(self) -> int:
        """What the kept batches take."""
        return sum(batch.size for batch in self._ahead)

    def forget(self) -> None:
        """Give up the kept batches."""
        self._ahead = []

    def lag(self) -> int:
        """How many kept messages are still to be read."""
        bounds = self.store.bounds()
        return max(bounds.next - max(self.position, bounds.first), 0)

    def _holds(self, number: int) -> bool:
        return bool(self._ahead) and self._ahead[0].first_number <= number < self._ahead[-1].next_number

    def _check_still_there(self) -> None:
        """Retention may have come between looking at the bounds and reading, and a repair leaves holes."""
        if self._ahead and self._ahead[0].first_number <= self.position:
            return
        bounds = self.store.bounds()
        kept = self._ahead[0].first_number if self._ahead else bounds.next
        self._ahead = []
        first = bounds.first if bounds.first > self.position else kept
        raise MessagesLost(self.topic, self.partition, self.position, first)


def unbroken(batches: Sequence[Batch]) -> list[Batch]:
    """The batches up to the first hole in their numbers; what lies behind it is read when the hole was reported."""
    for index, (before, after) in enumerate(pairwise(batches), 1):
        if before.next_number != after.first_number:
            return list(batches[:index])
    return list(batches)


def _within(batches: Sequence[Batch], max_bytes: int) -> tuple[Sequence[Batch], int]:
    """As many batches as fit, at least one, and their size."""
    sizes = list(accumulate(batch.size for batch in batches))
    count = max(bisect.bisect_right(sizes, max_bytes), 1)
    return batches[:count], sizes[count - 1]
