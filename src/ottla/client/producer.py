"""The producer: takes messages, batches them in the background, and says where they landed (row W5).

What it promises: messages of one partition are stored in the order in which they were sent. Each is stored
once, also when the reply to an append is lost (unless `idempotent=False`, where such a message is reported as
`Uncertain` and never repeated). Memory is bounded: a full buffer makes `send` wait. Nothing is dropped in
silence: an error reaches the futures and, if nobody looked at those, the next call, once. When a batch fails,
so do those that wait behind it for the same partition, because order comes first; what is sent later starts
afresh. `ProducerFenced` and `TopicRecreated` are final: every later `send` raises them.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

from ottla.batch import Columns, Compression, columns_of_values, encode_headers, split
from ottla.batch.header import compression_flag
from ottla.client.dealing import deal
from ottla.client.futures import Part, SendFuture, SendManyFuture
from ottla.client.identity import Identity, Named, Nameless
from ottla.client.intake import Many, bytes_of, check_batch_bytes, check_buffer_bytes, check_timestamp, columns_of
from ottla.client.lifetime import tell_at_fork
from ottla.client.outbox import Lane, Outbox
from ottla.client.pending import ROW_BYTES, Failure, Rows, stored_bytes
from ottla.client.sender import Sender
from ottla.clock import Clock
from ottla.errors import Closed, InvalidValue, MessageTooLarge, OttlaError, ServerError, UnknownPartition
from ottla.log.partitioners import (
    Partitioner,
    PartitionFunction,
    RoundRobin,
    as_partitioner,
    check_assigned,
    check_pick,
    partitioner_for,
)
from ottla.log.topics import TopicHandle
from ottla.model import Headers, Record
from ottla.settings import check_name, check_timeout, parse_duration

_REFRESH_S: Final = 1.0
"""How old the topic's settings may be: new partitions are used after this time."""
_FOREVER_S: Final = 10 * 365 * 86400.0


class Producer:
    """Sends to one topic. Safe from many threads; a forked child may go on with it and sends only its own messages.

    *partitioner* is a name, a function `(key, value, partitions) -> int` or a `Partitioner`; without one the
    topic's counts. A batch is sent when it holds *max_batch_bytes*, when it is *linger_ms* old, or when somebody
    waits. *send_timeout* is how long `send` waits for room in the buffer of *max_buffer_bytes*, and how long an append
    of unknown outcome is repeated. With a *name*, a newer producer of that name fences this one. *open_topic* is
    called at the first use, so that the first post can create the topic.
    """

    def __init__(
        self,
        open_topic: Callable[[], TopicHandle],
        *,
        clock: Clock,
        partitioner: str | Partitioner | PartitionFunction | None = None,
        linger_ms: float = 5,
        max_batch_bytes: int | str = 2**20,
        max_buffer_bytes: int | str | None = 64 * 2**20,
        send_timeout: float | str | timedelta | None = 60.0,
        compression: Compression = "none",
        name: str | None = None,
        idempotent: bool = True,
    ) -> None:
        if not isinstance(linger_ms, int | float) or isinstance(linger_ms, bool) or not 0 <= linger_ms < 2**31:
            raise InvalidValue("linger_ms", linger_ms, "give milliseconds, 0 or more")
        if name is not None and not idempotent:
            raise InvalidValue("name", name, "a producer with a name is idempotent: leave out idempotent=False")
        compression_flag(compression)
        timeout_ms = parse_duration(send_timeout, "send_timeout")
        self.name = name if name is None else check_name(name, "producer name")
        self._open_topic = open_topic
        self._clock = clock
        self._own_partitioner = None if partitioner is None else as_partitioner(partitioner)
        self._linger_s = linger_ms / 1000
        self._max_buffer_bytes = check_buffer_bytes(max_buffer_bytes)
        self._max_batch_bytes = min(check_batch_bytes(max_batch_bytes), self._max_buffer_bytes)
        self._timeout_s = _FOREVER_S if timeout_ms is None else timeout_ms / 1000
        self._compression: Compression = compression
        self._idempotent = idempotent
        self._handle: TopicHandle | None = None
        self._closed = False
        self._reset()
        tell_at_fork(self)
        if name is not None:
            self._opened()

    def _reset(self) -> None:
        self._opening = threading.RLock()
        self._sender: Sender | None = None
        self._outbox: Outbox
        self._in_turn = False
        """Messages without a key need not be looked at: they are dealt out in turn."""
        self._largest = 0
        self._partitioner: Partitioner
        self._partitioner_name: str | None = None
        self._refresh_at = 0.0

    # Sending

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | Mapping[str, bytes | None] = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> SendFuture:
        """Take one message; where it landed is in the future. Waits only while the buffer is full.

        Raises `MessageTooLarge`, `InvalidValue`, `UnknownPartition` or `SendTimeout` with nothing taken; or an error
        of messages sent earlier that nobody has seen yet, also with nothing taken.
        """
        if (
            not self._in_turn
            or type(value) is not bytes
            or key is not None
            or headers
            or timestamp_ms is not None
            or partition is not None
        ):
            return self._send(value, key, headers, timestamp_ms, partition)
        size = len(value) + ROW_BYTES
        outbox = self._outbox
        with outbox.lock:
            if outbox.buffered + size > outbox.limit or size > self._largest:
                self._make_room(size, len(value))
            turn = outbox.cursor
            lanes = outbox.lanes
            rows = lanes[turn].open
            if rows is None or rows.room < size:
                rows = self._open_rows(lanes[turn], size)
            turn += 1
            outbox.cursor = turn if turn < len(lanes) else 0
            outbox.buffered += size
            rows.room -= size
            values = rows.values  # type: ignore[attr-defined]  # what has room for a single message is Rows
            values.append(value)
            return SendFuture(rows, len(values))

    def _send(
        self,
        given_value: object,
        given_key: object,
        headers: Headers | Mapping[str, bytes | None],
        timestamp_ms: int | None,
        partition: int | None,
    ) -> SendFuture:
        """`send` for every kind of message."""
        value, key = bytes_of(given_value, "value"), bytes_of(given_key, "key")
        cell = encode_headers(headers) if headers else None
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms)
        self._opened()
        outbox = self._outbox
        payload = len(value or b"") + len(key or b"") + len(cell or b"")
        size = payload + ROW_BYTES
        chosen = self._choose(key, value, partition)
        with outbox.lock:
            if outbox.buffered + size > outbox.limit or size > self._largest:
                self._make_room(size, payload)
            lane = outbox.lanes[outbox.turns(1) if chosen is None else chosen]
            rows = lane.open
            if not isinstance(rows, Rows) or rows.room < size:
                rows = self._open_rows(lane, size)
            outbox.buffered += size
            rows.room -= size
            return SendFuture(rows, rows.add(value, key, cell, timestamp_ms))

    def send_record(self, record: Record) -> SendFuture:
        """`send` for a record."""
        if not isinstance(record, Record):
            raise InvalidValue("record", record, "give an ottla.Record, or use send for a value")
        return self.send(record.value, key=record.key, headers=record.headers, timestamp_ms=record.timestamp_ms)

    def send_many(
        self,
        values: Many,
        *,
        keys: Any = None,
        headers: Any = None,
        timestamps: Any = None,
        partition: int | None = None,
    ) -> SendManyFuture:
        """Take many messages without any work per message: a list of bytes or records, or Arrow data.

        Within a partition they keep their order. A list larger than the buffer goes through it piece by piece; if an
        error comes between the pieces, the future has it, and what was taken before is sent.
        """
        columns = columns_of(values, keys, headers, timestamps, self._clock.now_ms())
        self._opened()
        outbox = self._outbox
        with outbox.lock:
            self._refresh(self._sender_now())
        self._check_sizes(columns)
        if partition is None:
            partitions = len(outbox.lanes)
            preferred = check_assigned(self._partitioner.assign(columns, partitions), columns, partitions)
            first_piece = min(stored_bytes(columns), self._max_batch_bytes)
            with outbox.lock:  # before turns are taken, so that they are not taken in vain
                if outbox.buffered + first_piece > outbox.limit:
                    self._sender_now().make_room(first_piece)
            dealt = deal(columns, preferred, partitions, self._turns)
        else:
            dealt = iter([(self._check_partition(partition), columns)])
        parts: list[Part] = []
        try:
            for index, share in dealt:
                for piece in split(share, self._max_batch_bytes):
                    parts.append(self._add(outbox.lanes[index], piece))  # noqa: PERF401  (kept if an error comes)
        except OttlaError as error:
            if not parts:
                raise
            failure = Failure(error)
            with outbox.lock:
                outbox.note(failure)
            return SendManyFuture(parts, failure)
        return SendManyFuture(parts)

    def _add(self, lane: Lane, columns: Columns) -> Part:
        outbox, size = self._outbox, stored_bytes(columns)
        with outbox.lock:
            if outbox.buffered + size > outbox.limit:
                self._sender_now().make_room(size)
            self._sender_now().start()
            pending, start = outbox.add_columns(lane, columns, size)
        return Part(pending, start, len(columns))

    def _turns(self, count: int) -> int:
        with self._outbox.lock:
            return self._outbox.turns(count)

    # The end

    def flush(self, timeout: float | None = None) -> None:
        """Send at once what was taken, and wait until it is stored; raises the first error that nobody has seen.

        Raises `TimeoutError` after *timeout* seconds; the messages are still being sent then. See `SendFuture.result`.
        """
        if self._closed:
            raise Closed("producer")
        if self._sender is not None:
            self._sender.flush(timeout)
            with self._outbox.lock:
                self._outbox.raise_unreported()

    def close(self, timeout: float | None = None) -> None:
        """Take nothing more, send what was taken, and raise the first error that nobody has seen.

        Harmless when repeated; after a `TimeoutError` or an interrupt it goes on waiting.
        """
        check_timeout(timeout)
        with self._opening:
            self._closed = True
        if self._sender is not None:
            self._sender.close(timeout)
            with self._outbox.lock:
                self._outbox.raise_unreported()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close, so that what was sent is stored, also after an error in the block, which goes on as it is."""
        try:
            self.close()
        except Exception as unseen:
            if error is None:
                raise
            error.add_note(f"and the producer could not store all messages: {unseen}")

    def forked(self) -> None:
        """In a forked child: the parent sends what it took, and this one starts afresh."""
        if self._sender is not None:
            self._sender.abandon()
        self._reset()

    def __repr__(self) -> str:
        topic = repr(self._handle.name) if self._handle else "a topic not opened yet"
        return f"<Producer to {topic}{', closed' if self._closed else ''}>"

    # The topic

    def _opened(self) -> None:
        """Open the topic at the first use in this process."""
        if self._sender is None:
            with self._opening:
                if self._closed:
                    raise Closed("producer")
                self._sender = self._sender or self._open()

    def _open(self) -> Sender:
        # Arrow imports pandas at its first conversion; in the background thread a fork or the end of the
        # process could come in the middle of that, and neither would end well.
        columns_of_values([b""])
        handle = self._handle = self._handle or self._open_topic()
        identity: Identity | None = None
        if self._idempotent:
            identity = Nameless() if self.name is None else Named(handle, self.name)
        outbox = self._outbox = Outbox(
            linger_s=self._linger_s, max_batch_bytes=self._max_batch_bytes, max_buffer_bytes=self._max_buffer_bytes
        )
        sender = Sender(
            handle,
            outbox,
            identity,
            clock=self._clock,
            compression=self._compression,
            timeout_s=self._timeout_s,
            owner=self,
        )
        with outbox.lock:
            self._refresh(sender)
            outbox.cursor = random.randrange(len(outbox.lanes))  # noqa: S311  (many short-lived producers spread too)
        return sender

    def _refresh(self, sender: Sender) -> None:
        """Follow the topic's settings. Called with the outbox's lock held."""
        now = time.monotonic()
        if now < self._refresh_at:
            return
        assert self._handle is not None
        try:
            settings = self._handle.current().settings
        except ServerError:
            if not self._outbox.lanes:
                raise
            self._refresh_at = time.monotonic() + _REFRESH_S  # the server is away: what is known will do meanwhile
            return
        sender.add_lanes(settings.partitions)
        self._largest = settings.max_message_bytes + ROW_BYTES
        if self._own_partitioner is not None:
            self._partitioner = self._own_partitioner
        elif settings.partitioner != self._partitioner_name:
            self._partitioner = partitioner_for(settings.partitioner)
            self._partitioner_name = settings.partitioner
        self._in_turn = isinstance(self._partitioner, RoundRobin)
        self._refresh_at = now + _REFRESH_S

    def _choose(self, key: bytes | None, value: bytes | None, partition: object) -> int | None:
        """The partition of a message, `None` for the next in turn."""
        if partition is not None:
            return self._check_partition(partition)
        partitions = len(self._outbox.lanes)
        return check_pick(self._partitioner.pick(key, value, partitions), partitions)

    def _check_partition(self, partition: object) -> int:
        if type(partition) is not int or partition < 0:
            raise InvalidValue("partition", partition, "give a whole number from 0")
        if partition >= len(self._outbox.lanes):
            with self._outbox.lock:
                self._refresh_at = 0.0
                self._refresh(self._sender_now())
        if partition >= len(self._outbox.lanes):
            assert self._handle is not None
            raise UnknownPartition(self._handle.name, partition, len(self._outbox.lanes))
        return partition

    def _check_sizes(self, columns: Columns) -> None:
        limit = min(self._largest - ROW_BYTES, self._max_buffer_bytes - 2 * ROW_BYTES)
        if columns.nbytes > limit and (largest := columns.largest()) > limit:
            self._refuse_size(largest)

    def _refuse_size(self, payload: int) -> None:
        if payload > self._largest - ROW_BYTES:
            raise MessageTooLarge("a message", payload, self._largest - ROW_BYTES, "max_message_bytes")
        raise MessageTooLarge("a message", payload, self._max_buffer_bytes, "max_buffer_bytes")

    def _make_room(self, size: int, payload: int) -> None:
        if size > self._largest or size > self._max_buffer_bytes:
            self._refuse_size(payload)
        self._sender_now().make_room(size)

    def _open_rows(self, lane: Lane, size: int) -> Rows:
        """A new batch, after a look at the topic. Called with the lock held."""
        sender = self._sender_now()
        self._refresh(sender)
        sender.start()
        return self._outbox.open_rows(lane, size)

    def _sender_now(self) -> Sender:
        assert self._sender is not None
        return self._sender
