"""One partition of a `jsonl:` log: its messages among those of the others in the text file of its broker."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.batch import Batch
from ottla.model import Appended, Bounds
from ottla.storage.disk.control import Control
from ottla.storage.jsonl.removal import remove

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine
    from ottla.storage.jsonl.ledger import Ledger


class JsonlPartition:
    """A handle that holds nothing but its ledger and its number."""

    def __init__(self, engine: "JsonlEngine", ledger: "Ledger", index: int) -> None:
        self._engine = engine
        self.ledger = ledger
        self.index = index

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        self._engine.check_writable("append")
        for batch in batches:
            batch.check()  # a batch that cannot be written as text is refused here, alone
        return self.ledger.append(batches, expected_next, self.index)

    def bounds(self) -> Bounds:
        def attempt(control: Control) -> Bounds:
            view = self.ledger.view(control, self.index)
            return Bounds(view.first, view.next)

        return self.ledger.retrying(attempt, Bounds(1, 1))

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        def attempt(control: Control) -> list[Batch]:
            view = self.ledger.view(control, self.index)
            if start >= view.next:
                return []
            text, _ = self.ledger.text()
            return self.ledger.reader.read(text, view, self.index, max(start, view.first), max_bytes)

        return self.ledger.retrying(attempt, [])

    def find(self, timestamp_ms: int) -> int:
        def attempt(control: Control) -> int:
            view = self.ledger.view(control, self.index)
            text, _ = self.ledger.text()
            return self.ledger.reader.find(text, view, self.index, timestamp_ms)

        return self.ledger.retrying(attempt, 1)

    def size(self) -> int:
        return self.ledger.retrying(lambda control: self.ledger.view(control, self.index).size, 0)

    def trim(self, before: int) -> Bounds:
        self._engine.check_writable("trim")
        if self.ledger.control() is None:
            return Bounds(1, 1)
        return remove(self.ledger, self.index, lambda stored, _: stored.next_number <= before, before)

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        self._engine.check_writable("expire")
        if self.ledger.control() is None:
            return Bounds(1, 1)
        return remove(
            self.ledger,
            self.index,
            lambda stored, size: (
                (older_than_ms is not None and stored.append_ms < older_than_ms)
                or (max_bytes is not None and size > max_bytes)
            ),
        )
