"""Sending lots of messages through producers: in order, at a rate if one is asked for, with a tally of what landed."""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.exits import Failure, say
from ottla.cli.parsing import Lot
from ottla.client.futures import SendManyFuture
from ottla.client.log import Log
from ottla.client.producer import Producer
from ottla.errors import MessageTooLarge
from ottla.model import Headers

_TICK_S = 0.05
"""A rate is kept by sending what is due this often."""


@dataclass
class Tally:
    """What is in the log by now."""

    messages: int = 0
    ends: dict[str, dict[int, int]] = field(default_factory=dict)
    """For each topic and partition the number after the last message sent."""

    def add(self, future: SendManyFuture) -> None:
        for topic, partition, numbers in future.landed():
            self.messages += len(numbers)
            ends = self.ends.setdefault(topic, {})
            ends[partition] = max(ends.get(partition, 0), numbers.stop)


class Pace:
    """At most so many messages a second; evenly, not in bursts."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = max(int(per_second * _TICK_S), 1)
        self._due = time.monotonic()

    def slices(self, lot: Lot) -> Iterator[Lot]:
        for start in range(0, len(lot.values), self._most):
            piece = lot.slice(start, start + self._most)
            now = time.monotonic()
            time.sleep(max(self._due - now, 0))
            self._due = max(self._due, now) + len(piece.values) / self._per_second
            yield piece


class Sending:
    """The producers of one command, by topic. Close it: that sends what they hold."""

    def __init__(
        self,
        log: Log,
        *,
        key: bytes | None,
        headers: Headers,
        partition: int | None,
        pace: Pace | None,
        skip: bool,
        **options: Any,
    ) -> None:
        self._log = log
        self._key = key
        self._headers = headers
        self._partition = partition
        self._pace = pace
        self._skip = skip
        self._options = options
        self._producers: dict[str, Producer] = {}
        self._pending: deque[SendManyFuture] = deque()
        self._taken = 0
        self.skipped = 0
        self.tally = Tally()

    def send(self, lot: Lot) -> None:
        """Send a lot; a message that is too large ends the work, or is left out, after those before it were sent."""
        for piece in self._pace.slices(lot) if self._pace is not None else (lot,):
            try:
                self._send(piece)
            except MessageTooLarge:
                self._send_singly(piece)

    def _send(self, lot: Lot) -> None:
        producer = self._producers.get(lot.topic)
        if producer is None:
            producer = self._producers[lot.topic] = self._log.producer(lot.topic, **self._options)
        count = len(lot.values)
        future = producer.send_many(
            lot.values,
            keys=[self._key] * count if self._key is not None else lot.keys,
            headers=[self._headers] * count if self._headers else None,
            timestamps=lot.timestamps,
            partition=self._partition,
        )
        self._taken += count
        self._pending.append(future)
        while self._pending and self._pending[0].done():
            self.tally.add(self._pending.popleft())

    def _send_singly(self, lot: Lot) -> None:
        for index in range(len(lot.values)):
            try:
                self._send(lot.slice(index, index + 1))
            except MessageTooLarge as error:
                nth = self._taken + self.skipped + 1
                if not self._skip:
                    raise Failure(f"message {nth:,} of the input: {error}") from error
                self.skipped += 1
                say(f"message {nth:,} of the input is left out: {error}")

    def close(self) -> None:
        """Send what the producers hold, and count it, also when one of them fails."""
        try:
            for producer in self._producers.values():
                producer.close()
        finally:
            while self._pending:
                self.tally.add(self._pending.popleft())
