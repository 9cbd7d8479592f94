"""A consumer: reads a topic's partitions from positions that are its own. Consuming removes nothing.

What it promises: each partition's messages in order, none twice and none left out between two polls, unless
`MessagesLost` or `gaps` says so. A position moves only when messages are handed over. A position beyond the
end is allowed and waits for that number. With several partitions they take turns, and there is no order
between them; partitions that are added while it runs are found within about a second and read from 1.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self

from ottla.batch import Messages
from ottla.client.reader import Gap, PartitionReader
from ottla.clock import Clock
from ottla.errors import Closed, InvalidValue, MessagesLost, OttlaError
from ottla.log.groups import Groups
from ottla.log.starts import StartWords, locate, parse_start
from ottla.log.topics import TopicHandle
from ottla.model import Message, Position
from ottla.settings import check_name, check_number, check_timeout, parse_size

_LOGGER = logging.getLogger("ottla")
_LOOK_AGAIN_S = 1.0
"""How often a running consumer looks for new partitions."""
_WAIT_S = 0.5
"""The longest single wait, so that close() and new partitions are noticed."""
_GAPS_KEPT = 1000
_AHEAD = 4
"""Batches that were read but not used up may take this many times `max_bytes`."""

DEFAULT_MAX_MESSAGES = 10_000
DEFAULT_MAX_BYTES = 4 * 2**20

Starts = StartWords | Mapping[int, StartWords]
"""Where to start: one start for all partitions, or one for each; a partition that is not named starts at earliest."""


class Lag(NamedTuple):
    """How many kept messages a consumer has not read yet."""

    total: int
    partitions: dict[int, int]


class Consumer:
    """Reads one topic. Not thread-safe: use one consumer per thread; only `close` may come from another."""

    def __init__(
        self,
        handle: TopicHandle,
        *,
        clock: Clock,
        groups: Groups,
        start: Starts | None = None,
        partition: int | None = None,
        partitions: Sequence[int] | None = None,
        group: str | None = None,
        auto_commit: bool = False,
        on_gap: Literal["error", "skip"] = "error",
        max_messages: int = DEFAULT_MAX_MESSAGES,
        max_bytes: int | str = DEFAULT_MAX_BYTES,
    ) -> None:
        self._handle = handle
        self._clock = clock
        self._groups = groups
        self.group = None if group is None else check_name(group, "group name")
        if on_gap not in ("error", "skip"):  # not a set, which takes no list
            raise InvalidValue("on_gap", on_gap, "choose error or skip")
        if auto_commit and group is None:
            raise InvalidValue("auto_commit", auto_commit, "name the group whose positions are stored: group='…'")
        self._on_gap = on_gap
        self._auto_commit = auto_commit
        self._max_messages, self._max_bytes = _limits(max_messages, max_bytes)
        self.gaps: deque[Gap] = deque(maxlen=_GAPS_KEPT)
        """What `on_gap="skip"` skipped, oldest first; the last thousand."""
        self._assigned = _assigned(partition, partitions)
        self._readers: dict[int, PartitionReader] = {}
        self._open(start)
        self._done = self.positions
        """What was handed over and is done: what an automatic commit stores."""
        self._stored = self.positions
        self._turn = 0
        self._look_again_at = time.monotonic() + _LOOK_AGAIN_S
        self._epoch = 0
        """Goes up when the positions are moved, so that an iteration notices."""
        self._lock = threading.RLock()
        self._closed = False

    @property
    def topic(self) -> str:
        return self._handle.name

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def positions(self) -> dict[int, int]:
        """The number that is read next, for each partition."""
        return {partition: reader.position for partition, reader in self._readers.items()}

    @property
    def position(self) -> Position:
        """The number that is read next; a mapping from partition to number where there are several."""
        return self._simple(self.positions)

    def poll(
        self, timeout: float | None = 0.0, *, max_messages: int | None = None, max_bytes: int | str | None = None
    ) -> tuple[Messages, Position]:
        """The next messages and the position after them; none if nothing comes within *timeout* seconds.

        A timeout of `None` waits for ever. At least one message is returned where there is one, however
        large; otherwise the result stays below the limits, give or take one batch.
        """
        with self._lock:
            self._check_open()
            messages, positions = self._next(check_timeout(timeout), *self._limits(max_messages, max_bytes))
            self._take(positions)
            return messages, self.position

    def peek(
        self, timeout: float | None = 0.0, *, max_messages: int | None = None, max_bytes: int | str | None = None
    ) -> tuple[Messages, Position]:
        """What `poll` would return, without moving there: `seek` to the position to take the messages.

        For those who cannot be sure to get them, such as a task that may be cancelled.
        """
        with self._lock:
            self._check_open()
            messages, positions = self._next(check_timeout(timeout), *self._limits(max_messages, max_bytes))
            return messages, self._simple(self.positions | positions)

    def __iter__(self) -> Iterator[Message]:
        """Every message from the position on, following the tail until the consumer is closed."""
        return self.follow()

    def follow(self, idle_timeout: float | None = None) -> Iterator[Message]:
        """Messages one by one, until the consumer is closed or nothing came for *idle_timeout* seconds.

        The position moves with each message; automatic commits count a message as done when the next is
        asked for. An idle timeout of 0 stops at the tail.
        """
        for messages, _ in self._chunks(check_timeout(idle_timeout)):
            yield from self.each(messages)

    def each(self, messages: Messages) -> Iterator[Message]:
        """Messages that `peek` returned, one by one; the position moves with each, as in `follow`."""
        epoch = self._epoch
        for message in messages:
            self._readers[message.partition].position = message.number + 1
            yield message
            if self._closed or self._epoch != epoch:  # closed, polled or moved by the loop's body
                return
            self._done[message.partition] = message.number + 1

    def batches(self, idle_timeout: float | None = None) -> Iterator[Messages]:
        """The same as `follow`, many messages at a time and columnar: for `to_arrow()` and the like."""
        for messages, positions in self._chunks(check_timeout(idle_timeout)):
            self._move(positions)
            yield messages

    def seek(self, position: Starts) -> None:
        """Read on from somewhere else: a number, a time, `earliest`, `latest`, or a mapping by partition."""
        self._check_open()
        starts = position if isinstance(position, Mapping) else dict.fromkeys(self._readers, position)
        found = {partition: self._locate(partition, start) for partition, start in starts.items()}
        self._take(found)
        self._epoch += 1

    def lag(self) -> Lag:
        """How far the position is behind the end, in messages."""
        self._check_open()
        lags = {partition: reader.lag() for partition, reader in self._readers.items()}
        return Lag(sum(lags.values()), lags)

    def commit(self) -> None:
        """Store the position under the consumer's group, durably."""
        self._check_open()
        self._store(self.positions)

    def committed(self) -> Position | None:
        """The position that the consumer's group stored last; `None` if it stored none."""
        self._check_open()
        stored = self._groups.committed(self._named_group(), self._handle.current())
        mine = {partition: stored[partition] for partition in self._readers if partition in stored}
        return self._simple(mine) if mine else None

    def close(self) -> None:
        """Stop reading; with `auto_commit`, store what was handed over and is done. Harmless when repeated.

        A poll that waits in another thread returns without messages soon after.
        """
        self.stop()
        with self._lock:
            auto_commit, self._auto_commit = self._auto_commit, False
            for reader in self._readers.values():
                reader.forget()
            if auto_commit:
                self._store_changes()

    def stop(self, *, failed: bool = False) -> None:
        """The beginning of `close`, for closing many at once: no new polls, and those that wait return soon.

        After a failure nothing is stored automatically: what was handed over last may not be done.
        """
        if failed:
            self._auto_commit = False
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.stop(failed=error is not None)
        self.close()

    def __repr__(self) -> str:
        return f"Consumer({self.topic!r}, position {self.position})"

    def _chunks(self, idle_timeout: float) -> Iterator[tuple[Messages, dict[int, int]]]:
        while True:
            with self._lock:
                if self._closed:  # maybe while this waited for the lock
                    return
                messages, positions = self._next(idle_timeout, self._max_messages, self._max_bytes)
            if messages:
                yield messages, positions
            elif idle_timeout != math.inf:
                return

    def _next(self, timeout: float, max_messages: int, max_bytes: int) -> tuple[Messages, dict[int, int]]:
        """Wait for messages; the positions after them are returned and not yet taken."""
        self._epoch += 1
        self._done = self.positions
        if self._auto_commit:
            self._store_changes()
        deadline = time.monotonic() + timeout
        while True:
            self._find_partitions()
            messages, positions = self._read(max_messages, max_bytes)
            left_s = deadline - time.monotonic()
            if messages or left_s <= 0 or self._closed:
                return messages, positions
            after = {reader.store: reader.position for reader in self._readers.values()}
            self._handle.engine.wait(after, min(left_s, _WAIT_S))

    def _read(self, max_messages: int, max_bytes: int) -> tuple[Messages, dict[int, int]]:
        """What there is now, the partitions taking turns at being first."""
        found, positions = Messages(self.topic), {}
        readers = list(self._readers.values())
        readers = readers[self._turn :] + readers[: self._turn]
        self._turn = (self._turn + 1) % len(readers)
        for reader in readers:
            try:
                messages, size = self._read_one(reader, max_messages - len(found), max_bytes)
            except OttlaError:
                if not found:
                    raise
                self._turn = list(self._readers).index(reader.partition)  # the error comes next; nothing is lost
                break
            found += messages
            positions[reader.partition] = reader.position + len(messages)
            max_bytes -= size
            if len(found) >= max_messages or max_bytes <= 0:
                break
        self._bound_memory()
        return found, positions

    def _read_one(self, reader: PartitionReader, max_messages: int, max_bytes: int) -> tuple[Messages, int]:
        while True:
            try:
                return reader.read(max_messages, max_bytes)
            except MessagesLost as lost:
                if self._on_gap == "error":
                    raise
                _LOGGER.warning("%s", lost)
                self.gaps.append(Gap(lost.topic, lost.partition, lost.start, lost.first))
                reader.position = lost.first

    def _bound_memory(self) -> None:
        """Many partitions with a rest of a batch each must not add up."""
        if sum(reader.bytes_ahead for reader in self._readers.values()) > _AHEAD * self._max_bytes:
            for reader in self._readers.values():
                reader.forget()

    def _open(self, start: Starts | None) -> None:
        partitions = self._handle.current().settings.partitions
        for partition in range(partitions) if self._assigned is None else self._assigned:
            self._readers[partition] = PartitionReader(self._handle, partition, 1)
        if start is None and self.group is not None:
            stored = self._groups.committed(self.group, self._handle.current())
            start = {partition: stored[partition] for partition in self._readers if partition in stored}
        starts: dict[int, StartWords] = dict.fromkeys(self._readers, "earliest")
        if isinstance(start, Mapping):
            starts.update(start)
        elif start is not None:
            starts = dict.fromkeys(self._readers, start)
        self._move({partition: self._locate(partition, where) for partition, where in starts.items()})

    def _find_partitions(self) -> None:
        """New partitions are read from 1, whatever the start: nothing in them is old."""
        if time.monotonic() < self._look_again_at:
            return
        self._look_again_at = time.monotonic() + _LOOK_AGAIN_S
        partitions = self._handle.current().settings.partitions
        if self._assigned is None:
            for partition in range(len(self._readers), partitions):
                self._readers[partition] = PartitionReader(self._handle, partition, 1)

    def _locate(self, partition: int, start: StartWords) -> int:
        if partition not in self._readers:
            raise InvalidValue("partition", partition, f"this consumer reads {', '.join(map(str, self._readers))}")
        return locate(parse_start(start, self._clock), self._readers[partition].store)

    def _move(self, positions: Mapping[int, int]) -> None:
        for partition, number in positions.items():
            self._readers[partition].position = number

    def _take(self, positions: Mapping[int, int]) -> None:
        """Move there, with all before it handed over."""
        self._move(positions)
        self._done = self.positions

    def _limits(self, max_messages: int | None, max_bytes: int | str | None) -> tuple[int, int]:
        messages = self._max_messages if max_messages is None else max_messages
        return _limits(messages, self._max_bytes if max_bytes is None else max_bytes)

    def _store(self, positions: Mapping[int, int]) -> None:
        self._groups.commit(self._named_group(), self._handle.current(), positions)
        self._stored |= positions

    def _store_changes(self) -> None:
        """Only what moved: another consumer of the group may have stored the rest."""
        if changes := {p: number for p, number in self._done.items() if self._stored.get(p) != number}:
            self._store(changes)

    def _named_group(self) -> str:
        if self.group is None:
            raise InvalidValue("group", None, "open the consumer with group='…' to store its positions")
        return self.group

    def _simple(self, positions: dict[int, int]) -> Position:
        return next(iter(positions.values())) if len(self._readers) == 1 else positions

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("consumer")


def _assigned(partition: int | None, partitions: Sequence[int] | None) -> tuple[int, ...] | None:
    """The partitions that the caller chose; `None` for all, also those to come."""
    if partition is not None and partitions is not None:
        raise InvalidValue("partition", partition, "give partition or partitions, not both")
    if partition is not None:
        return (check_number(partition, "partition", least=0),)
    if partitions is None:
        return None
    if not isinstance(partitions, list | tuple | range) or not partitions:
        raise InvalidValue("partitions", partitions, "give a list such as [0, 1]")
    return tuple(dict.fromkeys(check_number(index, "partition", least=0) for index in partitions))


def _limits(max_messages: int, max_bytes: int | str) -> tuple[int, int]:
    size = parse_size(max_bytes, "max_bytes")
    return check_number(max_messages, "max_messages"), 2**62 if size is None else size
