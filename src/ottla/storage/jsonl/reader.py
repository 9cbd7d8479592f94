"""Reading a text file without a lock: every call works from one view of it.

The file may be replaced at any time; every line says which message it is, so a reader that looks at the wrong place
notices, and looks again. Positions between calls are remembered, so that following the tail reads nothing twice.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.batch import Batch
from ottla.errors import CorruptBatch
from ottla.storage.disk.index import Index
from ottla.storage.jsonl.scan import Stored, Text, batches

if TYPE_CHECKING:
    from ottla.storage.jsonl.ledger import View
    from ottla.storage.jsonl.tail import Tail

_REMEMBERED = 64


class Reader:
    """Reads the partitions of one text file. Safe from many threads."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start afresh after a fork."""
        self._mutex = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Forget where things were: the file was replaced."""
        with self._mutex:
            self._early = EarlyIndex(0)
            self._positions: OrderedDict[tuple[int, int, int], int] = OrderedDict()

    def read(self, text: Text, view: "View", partition: int, start: int, max_bytes: int) -> list[Batch]:
        """Whole batches from the one that holds *start*, which is not below the oldest kept."""
        start = _behind_gaps(view.gaps, start)
        if start >= view.next:
            return []
        position = self._locate(text, view.tail, partition, start)
        found: list[Batch] = []
        size = 0
        for stored in batches(text, position, view.limit, partition):
            if stored.next_number <= start and not found:
                continue
            if stored.first_number > start or (found and stored.first_number != start):
                raise text.damaged(stored.position, f"message {stored.first_number} stands where {start} should")
            try:
                batch = stored.batch()
            except CorruptBatch as error:
                raise text.damaged(stored.position, error.reason) from error
            size += batch.size
            if found and size > max_bytes:
                break
            found.append(batch)
            position, start = stored.end, _behind_gaps(view.gaps, stored.next_number)
            if size + batch.size > max_bytes:  # as the next one is likely to be: do not read it in vain
                break
        if not found:
            raise text.damaged(view.limit, f"it ends before message {start} of partition {partition}")
        self._remember(view.tail.generation, partition, start, position)
        return found

    def find(self, text: Text, view: "View", partition: int, timestamp_ms: int) -> int:
        """The first number kept that was appended at or after a time, or *next*."""
        if timestamp_ms > view.tail.base_ms:
            position = view.tail.index(partition).before_time(timestamp_ms)
        else:
            position = self._early_index(view.tail).before_time(text, view.tail.base, partition, timestamp_ms)
        for stored in batches(text, position, view.limit, partition):
            if stored.append_ms >= timestamp_ms and stored.next_number > view.first:
                return max(stored.first_number, view.first)
        return view.next

    def _locate(self, text: Text, tail: "Tail", partition: int, number: int) -> int:
        """A position at or before the batch that holds *number*, and not far before it."""
        with self._mutex:
            position = self._positions.pop((tail.generation, partition, number), None)
        if position is not None:
            return position
        late = tail.index(partition)
        if late.first_number is None or number < late.first_number:
            return self._early_index(tail).before_number(text, tail.base, partition, number)
        return late.before_number(number)

    def _early_index(self, tail: "Tail") -> "EarlyIndex":
        with self._mutex:
            if self._early.generation != tail.generation:
                self._early = EarlyIndex(tail.generation)
            return self._early

    def _remember(self, generation: int, partition: int, number: int, position: int) -> None:
        with self._mutex:
            self._positions[generation, partition, number] = position
            while len(self._positions) > _REMEMBERED:
                self._positions.popitem(last=False)


class EarlyIndex:
    """Where batches are before the tail's base, in one generation of the file: as far as somebody needed to know."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._mutex = threading.Lock()
        self._covered = 0
        self._indexes: dict[int, Index] = {}
        self._reached: dict[int, int] = {}

    def before_number(self, text: Text, base: int, partition: int, number: int) -> int:
        """A position at or before the batch that holds *number*."""
        with self._mutex:
            if number >= self._reached.get(partition, 0):
                for stored in self._added(text, base):
                    if stored.partition == partition and number < stored.next_number:
                        break
            return self._index(partition).before_number(number)

    def before_time(self, text: Text, base: int, partition: int, timestamp_ms: int) -> int:
        """A position at or before the first batch that was appended at or after a time."""
        with self._mutex:
            for _ in self._added(text, base):
                pass
            return self._index(partition).before_time(timestamp_ms)

    def _added(self, text: Text, base: int) -> Iterator[Stored]:
        """Take in batch after batch, as long as the caller likes."""
        for stored in batches(text, self._covered, base) if self._covered < base else ():
            self._index(stored.partition).add(stored.position, stored)
            self._reached[stored.partition] = stored.next_number
            self._covered = stored.end
            yield stored

    def _index(self, partition: int) -> Index:
        return self._indexes.setdefault(partition, Index())


def _behind_gaps(gaps: tuple[tuple[int, int], ...], number: int) -> int:
    """The number itself, or the one behind the gap that it lies in."""
    for start, end in gaps:
        if start <= number < end:
            number = end
    return number
