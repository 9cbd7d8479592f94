"""Open streams: a server that stops ends those that wait for their client, and no request that is under way."""

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc


class Stream:
    """One stream: idle while it waits for its client, busy from taking a request until its answer is sent."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._busy = False
        self._ended = False
        self._quiet_since = math.inf

    def begin(self) -> bool:
        """Take a request; or not, when the stream is ending."""
        with self._lock:
            self._busy = not self._ended
            return self._busy

    def finish(self) -> None:
        with self._lock:
            self._busy = False
            self._quiet_since = time.monotonic()

    def is_quiet(self, seconds: float) -> bool:
        """Whether its client has made requests, and then said nothing for so long."""
        return not self._busy and time.monotonic() - self._quiet_since > seconds

    def end(self) -> None:
        """Take no more requests; cancel it if it is idle."""
        with self._lock:
            self._ended = True
            if not self._busy:
                self._context.cancel()  # type: ignore[no-untyped-call]  # the stubs say nothing


class Streams:
    """Those that are open. Safe from many threads."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()

    @contextmanager
    def opened(self, context: grpc.ServicerContext) -> Iterator[Stream]:
        """A stream for as long as the block runs."""
        stream = Stream(context)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)

    def keep(self, context: grpc.ServicerContext) -> None:
        """A stream without a thread, for as long as its client is there."""
        stream = Stream(context)
        self._open.add(stream)
        context.add_callback(lambda: self._open.discard(stream))

    def end_quiet(self, seconds: float) -> None:
        """End those whose client has said nothing for so long; it can open another when it has something to say."""
        for stream in self._open.copy():
            if stream.is_quiet(seconds):
                stream.end()

    def end(self) -> None:
        """End those that are idle; repeat it for those that were not."""
        for stream in self._open.copy():
            stream.end()
