"""What a process knows of the end of a text file: how far each partition goes, its producers, where batches are.

It starts from the stored state and takes in batch after batch, its own and those that others appended, up to what
is published; it is never ahead of that. Appenders and readers of a process share it, under the ledger's mutex.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.storage.disk.index import Index
from ottla.storage.jsonl.scan import Stored, Text
from ottla.storage.jsonl.state import PartitionState, State


class Written(NamedTuple):
    """What the index must know of a batch that this process wrote."""

    first_number: int
    append_ms: int
    size: int


class Tail:
    """The state at byte *position* of one generation of the file."""

    def __init__(self, state: State, layout: int) -> None:
        self.generation = state.generation
        self.layout = layout
        self.base = state.position
        """Behind this byte every batch was seen, and is indexed."""
        self.base_ms = state.append_ms
        self.saved = state.position
        """The state was stored at this byte."""
        self.position = state.position
        self.append_ms = state.append_ms
        self._partitions = state.partitions
        self._indexes: dict[int, Index] = {}

    def partition(self, index: int) -> PartitionState:
        """What is known of a partition; one that nothing was ever appended to is new."""
        return self._partitions.setdefault(index, PartitionState())

    def index(self, partition: int) -> Index:
        """Where the partition's batches behind *base* are."""
        return self._indexes.setdefault(partition, Index(self.base))

    @property
    def live(self) -> int:
        """Bytes of batches that are kept."""
        return sum(part.size - part.dead for part in self._partitions.values())

    def take(self, stored: Stored, text: Text) -> None:
        """Take in the batch that follows, or raise `CorruptLog` if it is not the one that should."""
        part = self.partition(stored.partition)
        if stored.first_number != part.next:
            reason = f"message {stored.first_number} of partition {stored.partition} stands where {part.next} should"
            raise CorruptLog(str(text.path), stored.position, reason)
        header = stored.header()
        if header is not None:
            part.producers.note(header)
        self.note(stored.partition, stored, stored.next_number)

    def note(self, partition: int, batch: Stored | Written, next_number: int) -> None:
        """A batch is in the file, and its producer is known."""
        part = self.partition(partition)
        part.next = next_number
        part.size += batch.size
        self.index(partition).add(self.position, batch)
        self.position += batch.size
        self.append_ms = batch.append_ms

    def remark(self, state: State, layout: int) -> None:
        """Somebody removed messages: take over what the stored state says about that."""
        for index, stored in state.partitions.items():
            part = self.partition(index)
            part.first, part.first_at, part.dead = stored.first, stored.first_at, stored.dead
        self.layout = layout

    def state(self, changed: Mapping[int, PartitionState] | None = None) -> State:
        """What is to be stored about this position, with *changed* in place of what is known."""
        return State(self.generation, self.position, self.append_ms, self._partitions | dict(changed or {}))
