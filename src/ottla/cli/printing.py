"""Printing what a consumer reads: whole polls at a time, and positions stored only after they were printed."""

import sys
import time
from collections.abc import Mapping

from ottla.batch import Messages
from ottla.cli.exits import say
from ottla.cli.formats import Format
from ottla.client.consumer import Consumer
from ottla.errors import MessagesLost

_MOST = 65_536
_POLL_S = 0.5
"""The longest single wait, so that signals are seen to."""
_COMMIT_S = 1.0


class Printer:
    """Writes messages to standard output; in a group, commits what was written, about once a second."""

    def __init__(self, consumer: Consumer, write: Format, *, count: int | None = None) -> None:
        self._consumer = consumer
        self._write = write
        self._left = count
        self._commit_at = time.monotonic() + _COMMIT_S
        self.printed = 0

    @property
    def complete(self) -> bool:
        """As many as were asked for are printed."""
        return self._left is not None and self._left <= 0

    def print_until(self, ends: Mapping[int, int]) -> None:
        """Everything up to these numbers, or a little more where it came meanwhile."""
        while not self.complete and any(self._consumer.positions[p] < end for p, end in ends.items()):
            self._print(self._poll(0), flush=False)
        self._finish()

    def print_all(self, idle_s: float) -> None:
        """Everything, and what is still to come, until nothing came for *idle_s* seconds."""
        idle_at = time.monotonic() + idle_s
        while not self.complete:
            messages = self._poll(min(_POLL_S, max(idle_at - time.monotonic(), 0)))
            if messages:
                self._print(messages, flush=True)
                idle_at = time.monotonic() + idle_s
            elif time.monotonic() >= idle_at:
                break
            self._commit()
        self._finish()

    def _poll(self, timeout: float) -> Messages:
        most = _MOST if self._left is None else min(_MOST, self._left)
        while True:
            try:
                return self._consumer.poll(timeout, max_messages=most)[0]
            except MessagesLost as lost:
                where = f"{lost.topic}/{lost.partition}"
                say(f"messages {lost.start:,} to {lost.first - 1:,} of {where} were removed before they were read")
                self._consumer.seek({lost.partition: lost.first})

    def _print(self, messages: Messages, *, flush: bool) -> None:
        sys.stdout.buffer.write(self._write(messages))
        self.printed += len(messages)
        if self._left is not None:
            self._left -= len(messages)
        if flush:
            sys.stdout.buffer.flush()

    def _commit(self) -> None:
        if self._consumer.group is not None and time.monotonic() >= self._commit_at:
            self._consumer.commit()
            self._commit_at = time.monotonic() + _COMMIT_S

    def _finish(self) -> None:
        sys.stdout.buffer.flush()
        if self._consumer.group is not None:
            self._consumer.commit()
