"""Messages that wait to be stored: one `Pending` becomes one batch, and is settled once, for all of its messages.

Everything here is guarded by the lock of the outbox that holds it, except what says otherwise.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.batch import Columns
from ottla.batch.columns import binary_array

if TYPE_CHECKING:
    from ottla.client.outbox import Lane

ROW_BYTES: Final = 64
"""What a single message takes in memory beside its own bytes, about."""


class Failure:
    """An error, and whether somebody has been told. Batches that failed together share one."""

    __slots__ = ("error", "reported")

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.reported = False

    def tell(self) -> BaseException:
        self.reported = True
        return self.error


class Pending:
    """What becomes one batch of one partition. *outcome* is the first message's number once it is stored."""

    __slots__ = ("_callbacks", "_event", "capacity", "due", "lane", "outcome", "room")

    def __init__(self, lane: "Lane", capacity: int, due: float) -> None:
        self.lane = lane
        self.capacity = capacity
        self.room = capacity
        """Bytes that may still be added."""
        self.due = due
        """When it is sent even if there is room, in seconds of the monotonic clock."""
        self.outcome: int | Failure | None = None
        self._event: threading.Event | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes in the buffer."""
        return self.capacity - self.room

    def columns(self, now_ms: int) -> Columns:
        """All of its messages, in the order in which they were added."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let the messages go: futures stay, maybe for long."""
        raise NotImplementedError

    def event(self) -> threading.Event:
        """What is set when the outcome is known."""
        if self._event is None:
            self._event = threading.Event()
            if self.outcome is not None:
                self._event.set()
        return self._event

    def when_settled(self, callback: Callable[[], None]) -> bool:
        """Whether *callback* will be called; False if the outcome is known already."""
        if self.outcome is not None:
            return False
        self._callbacks = [*(self._callbacks or ()), callback]
        return True

    def settle(self, outcome: int | Failure) -> list[Callable[[], None]]:
        """Say what became of it, wake who waits, and return what is to be called without the lock."""
        self.outcome = outcome
        self.forget()
        if self._event is not None:
            self._event.set()
        callbacks, self._callbacks = self._callbacks or [], None
        return callbacks


class Rows(Pending):
    """Messages that were sent one by one. The side lists are filled up only when they are used."""

    __slots__ = ("cells", "keys", "times", "values")

    def __init__(self, lane: "Lane", capacity: int, due: float) -> None:
        super().__init__(lane, capacity, due)
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.cells: list[bytes | None] = []
        self.times: list[int | None] = []

    def add(self, value: bytes | None, key: bytes | None, cell: bytes | None, timestamp_ms: int | None) -> int:
        """Take one message and return how many there are."""
        if key is not None:
            _put(self.keys, len(self.values), key)
        if cell is not None:
            _put(self.cells, len(self.values), cell)
        if timestamp_ms is not None:
            _put(self.times, len(self.values), timestamp_ms)
        self.values.append(value)
        return len(self.values)

    def columns(self, now_ms: int) -> Columns:
        count = len(self.values)
        keys, cells, times = (_filled(column, count) for column in (self.keys, self.cells, self.times))
        return Columns(
            values=binary_array(self.values, "values"),
            keys=binary_array(keys, "keys") if keys else None,
            headers=binary_array(cells, "headers") if cells else None,
            timestamps=_times(times, now_ms) if times else None,
        )

    def forget(self) -> None:
        self.values, self.keys, self.cells, self.times = [], [], [], []


class Chunks(Pending):
    """Columns that were sent as such; those added later have the same columns. Single messages find no room."""

    __slots__ = ("count", "left", "parts")

    def __init__(self, lane: "Lane", capacity: int, due: float) -> None:
        super().__init__(lane, 0, due)
        self.left = capacity
        self.parts: list[Columns] = []
        self.count = 0

    def takes(self, columns: Columns, size: int) -> bool:
        return size <= self.left and (not self.parts or _shape(columns) == _shape(self.parts[0]))

    def add(self, columns: Columns, size: int) -> int:
        """Take some messages and return how many there were before."""
        before = self.count
        self.parts.append(columns)
        self.count += len(columns)
        self.left -= size
        self.room -= size
        return before

    def columns(self, now_ms: int) -> Columns:  # noqa: ARG002  (times are all there, or all absent)
        if len(self.parts) == 1:
            return self.parts[0]
        return Columns(
            **{name: pa.concat_arrays([getattr(part, name) for part in self.parts]) for name in _shape(self.parts[0])}
        )

    def forget(self) -> None:
        self.parts = []


def stored_bytes(columns: Columns) -> int:
    """What columns take when they are packed, about: the payload and what addresses it."""
    per_message = 4 * len(columns.binaries()) + (0 if columns.timestamps is None else 8)
    return columns.nbytes + per_message * len(columns)


def _shape(columns: Columns) -> list[str]:
    return [name for name in ("values", "keys", "headers", "timestamps") if getattr(columns, name) is not None]


def _filled(column: list[Any], count: int) -> list[Any]:
    """A side list for all of the messages; an unused one stays empty."""
    return column and column + [None] * (count - len(column))


def _put(column: list[Any], index: int, cell: object) -> None:
    column += [None] * (index - len(column))
    column.append(cell)


def _times(times: list[int | None], now_ms: int) -> pa.Int64Array:
    return pa.array([now_ms if time is None else time for time in times], pa.int64())
