"""Calls with one answer: to the server that owns a partition or to any, with a deadline, repeated while that is safe.

A call that the server certainly did not carry out is repeated until its time is over, with longer and longer pauses,
or after the pause that a busy server asks for. A call that it may have carried out is repeated only if doing it twice
is the same as doing it once. A server that was never there is not waited for.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa
from google.protobuf.message import Message

from ottla.errors import Closed, OttlaError, ServerBusy, ServerUnavailable, Uncertain
from ottla.settings import format_duration
from ottla.storage.disk import forks
from ottla.storage.remote.answers import check_answer
from ottla.storage.remote.brokers import Brokers
from ottla.storage.remote.channel import Channel
from ottla.storage.remote.connection import Connection
from ottla.storage.remote.hpack import encode_headers
from ottla.storage.remote.stream import Lost, Stream
from ottla.v1 import log_pb2 as pb

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.5
_LONGEST_MS: Final = 99_999_999
"""gRPC's timeouts have eight digits."""

_T = TypeVar("_T")


class Calls:
    """The calls of one engine. Safe from many threads and after a fork."""

    def __init__(self, addresses: list[tuple[str, int]], timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.brokers = Brokers(addresses, self._describe)
        self._closed = False
        self._waiting: dict[object, tuple[Connection, Stream]] = {}
        self._paused = threading.Condition()
        forks.register(self)

    def forget(self) -> None:
        """In a forked child: the calls that were under way are the parent's."""
        self._waiting = {}
        self._paused = threading.Condition()

    # One call

    def unary(
        self,
        method: str,
        request: Message,
        *,
        partition: int | None = None,
        deadline: float | None = None,
        once: str = "",
    ) -> pa.Buffer:
        """The answer's bytes. *once* says what it is that must not be done twice."""

        def call(channel: Channel, until: float) -> pa.Buffer:
            return self.finished(self.start(channel, method, request, until), until)

        return self.repeated(call, partition=partition, deadline=deadline, once=once)

    def start(self, channel: Channel, method: str, request: Message, deadline: float) -> "Underway":
        """Send a request, and leave its answer for later; or `Lost`."""
        self.check_open()
        connection = channel.connection(deadline)
        data = request.SerializeToString()
        block = head_of(channel, method, deadline)
        stream = connection.open(block, [data], end=True, deadline=deadline)
        return Underway(channel, connection, stream, len(data))

    def finished(self, underway: "Underway", deadline: float) -> pa.Buffer:
        """The answer of a call that was started; or the error that the server told, or `Lost`."""
        stream = underway.stream
        try:
            self.wait(underway.connection, stream, lambda: stream.ended, deadline)
        except BaseException:
            underway.connection.cancel(stream)
            raise
        return answer_of(underway)

    def wait(self, connection: Connection, stream: Stream, ready: Callable[[], bool], deadline: float) -> None:
        """Wait until *ready*; or `Lost` when the time is over, `Closed` when the engine is closed meanwhile.

        A connection on which nothing at all came for long is of no use to anybody, and is closed.
        """
        token = object()
        self._waiting[token] = connection, stream
        try:
            if self._closed:
                raise Closed("log")
            began = time.monotonic()
            if not connection.wait(stream, ready, deadline):
                if time.monotonic() - max(began, connection.last_heard) > self.timeout_s / 2:
                    connection.close("it says nothing")
                raise Lost(f"no answer within {format_duration(round(self.timeout_s * 1000))}", reached=True)
        finally:
            del self._waiting[token]

    # Again and again

    def deadline(self) -> float:
        """When a call that begins now must have ended."""
        return time.monotonic() + self.timeout_s

    def repeated(
        self,
        call: Callable[[Channel, float], _T],
        *,
        partition: int | None = None,
        deadline: float | None = None,
        once: str = "",
    ) -> _T:
        """What *call* returns, which is called with the channel to use and a deadline, again while that is right."""
        deadline = self.deadline() if deadline is None else deadline
        pause_s = FIRST_PAUSE_S
        while True:
            self.check_open()
            channel = self.brokers.any() if partition is None else self.brokers.owner(partition, deadline)
            try:
                return call(channel, deadline)
            except Lost as lost:
                error: OttlaError = ServerUnavailable(channel.address, lost.reason)
                if self._closed:
                    raise Closed("log") from None
                if lost.reached and once:
                    raise Uncertain(once, lost.reason) from None
                if self.brokers.lost(channel):
                    continue
                if not self.brokers.met:
                    raise error from None
            except ServerBusy as busy:
                error = busy
                pause_s = max(pause_s, busy.retry_after_ms / 1000)
            if time.monotonic() + pause_s > deadline:
                raise error
            self.pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def pause(self, seconds: float) -> bool:
        """Do nothing for a while; True if the engine was closed meanwhile."""
        with self._paused:
            return self._paused.wait_for(lambda: self._closed, seconds)

    # The end

    def check_open(self) -> None:
        if self._closed:
            raise Closed("log")

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Calls that wait return at once."""
        self._closed = True
        with self._paused:
            self._paused.notify_all()
        for connection, stream in list(self._waiting.values()):
            connection.cancel(stream)

    def _describe(self, deadline: float) -> pb.Cluster:
        answer = self.unary("DescribeCluster", pb.DescribeClusterRequest(brokers_only=True), deadline=deadline)
        return pb.Cluster.FromString(answer.to_pybytes())


class Underway:
    """A call that was sent."""

    __slots__ = ("channel", "connection", "size", "stream")

    def __init__(self, channel: Channel, connection: Connection, stream: Stream, size: int) -> None:
        self.channel = channel
        self.connection = connection
        self.stream = stream
        self.size = size
        """Of the request, in bytes."""


def answer_of(underway: Underway) -> pa.Buffer:
    """The answer of a call that has ended."""
    stream = underway.stream
    if stream.failure is not None:
        raise Lost(stream.failure.reason, reached=stream.failure.reached)
    check_answer(stream.trailers or {}, underway.channel.address, underway.size)
    if not stream.messages:
        raise OttlaError(f"the server at {underway.channel.address} answered with nothing: is it an ottla server?")
    return stream.messages.popleft()


def head_of(channel: Channel, method: str, deadline: float | None) -> bytes:
    """The headers of a call."""
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/ottla.v1.Log/{method}"),
        (":authority", channel.address),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("user-agent", "ottla"),
    ]
    if deadline is not None:
        milliseconds = int((deadline - time.monotonic()) * 1000)
        headers.append(("grpc-timeout", f"{min(max(milliseconds, 1), _LONGEST_MS)}m"))
    return encode_headers(headers)
