"""The service's calls on single records, for simple clients: translate, call the log, translate."""

import threading

import grpc

from ottla.batch import Batch, Messages, Stamp, columns_of_records, encode_headers
from ottla.client.futures import SendFuture
from ottla.client.intake import check_timestamp
from ottla.client.log import Log
from ottla.client.producer import Producer
from ottla.clock import Clock
from ottla.errors import InvalidValue, MessageTooLarge, OttlaError, TopicRecreated, UnknownPartition
from ottla.log.topics import check_limits
from ottla.model import Landed, Message, Record
from ottla.server.batches import BatchCalls
from ottla.server.budget import Budget
from ottla.server.handles import Handles
from ottla.v1 import log_pb2 as pb

_Context = grpc.ServicerContext

POLL_MESSAGES = 1000
POLL_BYTES = 2**20
MOST_POLL_BYTES = 3 * 2**20
"""What a client with gRPC's default limit of 4 MB can receive, with room for what surrounds the values."""
_ID_BYTES = 16


class Producers:
    """One background producer for each topic, so that single records of many clients share commits."""

    def __init__(self, log: Log, handles: Handles) -> None:
        self._log = log
        self._handles = handles
        self._lock = threading.Lock()
        self._producers: dict[str, Producer] = {}

    def send(self, topic: str, records: list[Record]) -> list[Landed]:
        """Where the records landed, once they are durable; a topic that was created anew is found again.

        Nothing is taken, and no topic made, if one of the records is wrong.
        """
        self.check(topic, records)
        while True:
            producer = self._of(topic)
            try:
                return _send(producer, records)
            except TopicRecreated:
                self._forget(topic, producer)

    def check(self, topic: str, records: list[Record]) -> None:
        """Refuse records of which one is not what the topic takes, or would take if it were made now."""
        limit = self._handles.settings_for_post(topic).max_message_bytes
        for record in records:
            check_timestamp(record.timestamp_ms)
            size = len(record.value or b"") + len(record.key or b"") + len(encode_headers(record.headers) or b"")
            if size > limit:
                raise MessageTooLarge("a message", size, limit, "max_message_bytes")

    def _of(self, topic: str) -> Producer:
        with self._lock:
            if topic not in self._producers:
                self._producers[topic] = self._log.producer(topic)
            return self._producers[topic]

    def _forget(self, topic: str, producer: Producer) -> None:
        """Let go of a producer whose topic is gone. It is not closed: others may be waiting for the same error."""
        with self._lock:
            if self._producers.get(topic) is producer:
                del self._producers[topic]

    def close(self) -> None:
        """Send what was accepted."""
        for producer in list(self._producers.values()):
            producer.close()


def _send(producer: Producer, records: list[Record]) -> list[Landed]:
    """Every outcome is waited for and seen, or an error of this call would come out of somebody else's."""
    futures: list[SendFuture] = []
    errors: list[BaseException] = []
    try:
        for record in records:
            futures.append(producer.send_record(record))  # noqa: PERF401  (those that were taken are kept on an error)
    except OttlaError as refusal:
        errors.append(refusal)
    errors += [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


class RecordCalls:
    """Produce and Poll."""

    def __init__(self, log: Log, handles: Handles, batches: BatchCalls, budget: Budget, clock: Clock) -> None:
        self._log = log
        self._handles = handles
        self._batches = batches
        self._budget = budget
        self._clock = clock
        self.producers = Producers(log, handles)

    def produce(self, request: pb.ProduceRequest, _: _Context) -> pb.ProduceResponse:
        records = [_decode_record(record) for record in request.records]
        if not records:
            raise InvalidValue("records", [], "give at least one")
        with self._budget.holding(request.ByteSize()):
            if request.producer_id or request.sequence:
                return self._produce_once(request, records)
            if request.expected_next or request.HasField("partition"):
                return self._produce_together(request, records)
            return self._produce_apart(request.topic, records)

    def _produce_once(self, request: pb.ProduceRequest, records: list[Record]) -> pb.ProduceResponse:
        """All to one partition, whole or not at all, and recognised when it comes again."""
        if len(request.producer_id) != _ID_BYTES or not any(request.producer_id) or not request.HasField("partition"):
            raise InvalidValue("producer_id", request.producer_id, "give 16 random bytes, and say which partition")
        stamp = Stamp(request.producer_id, 0, request.sequence)
        batch = Batch.pack(columns_of_records(records, self._clock.now_ms()), stamp=stamp)
        settings = self._handles.settings_for_post(request.topic)
        if request.partition >= settings.partitions:
            raise UnknownPartition(request.topic, request.partition, settings.partitions)
        check_limits(batch, settings)
        handle = self._log.handle(request.topic, create=True)
        (appended,) = handle.append(request.partition, [batch], expected_next=request.expected_next or None)
        return _landed(request.partition, range(appended.first, appended.next))

    def _produce_together(self, request: pb.ProduceRequest, records: list[Record]) -> pb.ProduceResponse:
        """All to one partition, whole or not at all."""
        (landed,) = self._log.append(
            request.topic,
            records,
            partition=request.partition if request.HasField("partition") else None,
            expected_next=request.expected_next or None,
        )
        return _landed(landed.partition, landed.numbers)

    def _produce_apart(self, topic: str, records: list[Record]) -> pb.ProduceResponse:
        """Each to the partition that the topic's partitioner chooses; an error may come with some of them stored."""
        landed = self.producers.send(topic, records)
        return pb.ProduceResponse(landed=[pb.Landed(partition=one.partition, number=one.number) for one in landed])

    def close(self) -> None:
        self.producers.close()

    def poll(self, request: pb.PollRequest, context: _Context) -> pb.PollResponse:
        handle = self._handles.of(request.topic)
        store = handle.partition(request.partition)
        first, after = store.bounds()
        start = max(getattr(request, "from"), first)
        if request.wait_ms and start >= after:
            self._batches.held({store: start}, request.wait_ms / 1000, context)
        size = min(request.max_bytes or POLL_BYTES, MOST_POLL_BYTES)
        batches = store.read(start, size)
        first = store.bounds().first
        messages = Messages.of(
            request.topic, request.partition, batches, max(start, first), request.max_messages or POLL_MESSAGES
        )
        kept = _within(messages, size)
        position = kept[-1].number + 1 if kept else getattr(request, "from") or start
        return pb.PollResponse(messages=map(encode_message, kept), next=position, first=first)


def _within(messages: Messages, max_bytes: int) -> list[Message]:
    """The first messages that fit, and at least one."""
    kept: list[Message] = []
    size = 0
    for message in messages:
        headers = sum(len(name) + len(value or b"") + 16 for name, value in message.headers)
        size += len(message.value or b"") + len(message.key or b"") + headers + 64
        if kept and size > max_bytes:
            break
        kept.append(message)
    return kept


def _landed(partition: int, numbers: range) -> pb.ProduceResponse:
    return pb.ProduceResponse(landed=[pb.Landed(partition=partition, number=number) for number in numbers])


def _decode_record(sent: pb.Record) -> Record:
    return Record(
        value=sent.value if sent.HasField("value") else None,
        key=sent.key if sent.HasField("key") else None,
        headers=tuple((one.name, one.value if one.HasField("value") else None) for one in sent.headers),
        timestamp_ms=sent.timestamp_ms if sent.HasField("timestamp_ms") else None,
    )


def encode_message(message: Message) -> pb.Message:
    return pb.Message(
        partition=message.partition,
        number=message.number,
        timestamp_ms=message.timestamp_ms,
        key=message.key,
        value=message.value,
        headers=[pb.Header(name=name, value=value) for name, value in message.headers],
    )
