"""Appending over one stream for each partition that is being written: requests in order, several under way.

A request is stored whole or not at all. When the connection breaks, requests whose batches all carry a producer's
stamp are sent again, on a new stream, because the log recognises what it has; others are `Uncertain`, unless they
were not sent completely, which the server then does not look at.
"""

import threading
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.batch import Batch
from ottla.errors import Closed, OttlaError, ServerBusy, ServerUnavailable, StorageError, Uncertain
from ottla.model import Appended
from ottla.protocol.errors import decode_error
from ottla.protocol.packed import Part, encode_append
from ottla.storage.disk import forks
from ottla.storage.producers import REMEMBERED_BATCHES
from ottla.storage.remote.answers import check_answer, not_gone
from ottla.storage.remote.calls import Calls, head_of
from ottla.storage.remote.channel import Channel
from ottla.storage.remote.connection import Connection
from ottla.storage.remote.stream import Lost, Stream
from ottla.v1 import log_pb2 as pb

_IDLE_S: Final = 5.0
"""A stream that was quiet for so long is not used again: the server may be about to end it."""
_SAYS_NOTHING: Final = ServerBusy, ServerUnavailable, Closed, StorageError
"""Errors that say nothing about an earlier attempt, which may have been stored or may yet be."""


class Sent:
    """A request on its way."""

    __slots__ = ("answer", "number", "size", "upload")

    def __init__(self, upload: "Upload", number: int, size: int) -> None:
        self.upload = upload
        self.number = number
        self.size = size
        self.answer: pb.AppendResponse | None = None


class Upload:
    """One stream. The connection's lock guards what is waiting."""

    def __init__(self, channel: Channel, connection: Connection) -> None:
        self.channel = channel
        self.connection = connection
        self.stream: Stream | None = None
        self.used = time.monotonic()
        self._requests = 0
        self._waiting: dict[int, Sent] = {}

    @property
    def usable(self) -> bool:
        return (
            self.connection.usable  # which also looks whether the server has ended the stream
            and self.stream is not None
            and not self.stream.ended
            and (bool(self._waiting) or time.monotonic() - self.used < _IDLE_S)
        )

    def send(self, request: pb.AppendRequest, batches: Sequence[Part], size: int, deadline: float) -> Sent:
        """Send a request; one thread at a time. `Lost` if it was not sent completely."""
        self._requests += 1
        request.request = self._requests
        sent = self._waiting[self._requests] = Sent(self, self._requests, size)
        message = encode_append(request, batches, size)
        try:
            if self.stream is None:
                head = head_of(self.channel, "Append", None)
                self.stream = self.connection.open(head, message, end=False, deadline=deadline)
            else:
                self.connection.send(self.stream, message, deadline=deadline)
        except Lost:
            del self._waiting[sent.number]
            raise
        self.used = time.monotonic()
        return sent

    def answered(self, calls: Calls, sent: Sent, deadline: float) -> pb.AppendResponse:
        """The answer to a request; or `Lost`, or the error that ended the stream."""
        stream = self.stream
        assert stream is not None

        def ready() -> bool:
            self._collect(stream)
            return sent.answer is not None or stream.ended

        try:
            calls.wait(self.connection, stream, ready, deadline)
        except BaseException:
            self.connection.cancel(stream)
            raise
        if sent.answer is not None:
            return sent.answer
        if stream.failure is not None:
            raise Lost(stream.failure.reason, reached=stream.failure.reached)
        check_answer(stream.trailers or {}, self.channel.address, sent.size)
        raise Lost("the server ended the stream", reached=True)

    def _collect(self, stream: Stream) -> None:
        while stream.messages:
            answer = pb.AppendResponse.FromString(stream.messages.popleft().to_pybytes())
            sent = self._waiting.pop(answer.request, None)
            if sent is not None:
                sent.answer = answer

    def end(self) -> None:
        """Give the stream up, unless answers are still to come on it: a server that stops finishes what it has."""
        if self.stream is not None and not self._waiting:
            self.connection.end(self.stream)


class Started(NamedTuple):
    """An append that was sent."""

    uploads: "Uploads"
    channel: Channel
    sent: Sent
    deadline: float

    def finish(self) -> list[Appended]:
        return self.uploads.finish(self)


class Uploads:
    """The stream of one partition: opened at the first append, and again when it was lost. Safe from many threads."""

    def __init__(self, calls: Calls, topic: str, topic_id: str, partition: int) -> None:
        self._calls = calls
        self._topic = topic
        self._topic_id = topic_id
        self._partition = partition
        self._upload: Upload | None = None
        self._lock = threading.Lock()
        forks.register(self)

    def forget(self) -> None:
        self._upload = None
        self._lock = threading.Lock()

    def append(self, batches: Sequence[Batch], expected_next: int | None) -> list[Appended]:
        """Append in one request, and return each batch's numbers."""
        what = f"an append to {self._topic}/{self._partition}"
        maybe: list[Lost] = []
        repeatable = is_repeatable(batches)

        def attempt(channel: Channel, deadline: float) -> list[Appended]:
            try:
                sent = self._send(channel, batches, expected_next, deadline)
                return appended_of(sent.upload.answered(self._calls, sent, deadline))
            except Lost as lost:
                if lost.reached:
                    maybe.append(lost)
                raise

        try:
            return self._calls.repeated(attempt, partition=self._partition, once="" if repeatable else what)
        except OttlaError as error:
            if maybe and isinstance(error, _SAYS_NOTHING):
                raise Uncertain(what, maybe[-1].reason) from None
            raise

    def start(self, batches: Sequence[Batch]) -> "Started":
        """Send one request and leave its answer for later. Nothing is repeated."""
        deadline = self._calls.deadline()
        channel = self._calls.brokers.owner(self._partition, deadline)
        try:
            sent = self._send(channel, batches, None, deadline)
        except Lost as lost:
            raise self._error(channel, lost) from None
        return Started(self, channel, sent, deadline)

    def finish(self, started: "Started") -> list[Appended]:
        try:
            return appended_of(started.sent.upload.answered(self._calls, started.sent, started.deadline))
        except Lost as lost:
            raise self._error(started.channel, lost) from None

    def _error(self, channel: Channel, lost: Lost) -> OttlaError:
        self._calls.brokers.lost(channel)
        if lost.reached:
            return Uncertain(f"an append to {self._topic}/{self._partition}", lost.reason)
        return ServerUnavailable(channel.address, lost.reason)

    def _send(self, channel: Channel, batches: Sequence[Batch], expected_next: int | None, deadline: float) -> Sent:
        request = pb.AppendRequest(
            topic=self._topic, topic_id=self._topic_id, partition=self._partition, expected_next=expected_next or 0
        )
        parts = [part for batch in batches for part in batch.parts()]
        size = sum(batch.size for batch in batches)
        with self._lock:
            upload = self._upload
            if upload is None or upload.channel is not channel or not upload.usable:
                if upload is not None:
                    upload.end()
                self._upload = None
                upload = self._upload = Upload(channel, channel.connection(deadline))
            return upload.send(request, parts, size, deadline)

    def close(self) -> None:
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.end()


def appended_of(answer: pb.AppendResponse) -> list[Appended]:
    """What an answer says; or the error that it tells."""
    if answer.HasField("error"):
        raise not_gone(decode_error(answer.error))
    return [Appended(one.first, one.count, one.duplicate) for one in answer.appended]


def is_repeatable(batches: Sequence[Batch]) -> bool:
    """Whether the log recognises each of the batches when they come again."""
    return len(batches) <= REMEMBERED_BATCHES and all(batch.header.has_producer for batch in batches)
