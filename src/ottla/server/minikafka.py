"""MiniKafka's own service (row M7), on the same port: one partition, one message a call, numbers in 32 bits."""

import grpc

from ottla.batch import Messages
from ottla.client.log import Log
from ottla.errors import InvalidValue
from ottla.log.topics import TopicHandle
from ottla.minikafka import minikafka_pb2 as pb
from ottla.model import Record
from ottla.server.budget import Budget
from ottla.server.records import Producers

_Context = grpc.ServicerContext

_LARGEST_NUMBER = 2**32 - 1
_ANSWER_BYTES = 4 * 10**6 - 2**16
"""gRPC clients take 4 MB by default; the rest is for what surrounds the payloads."""
_READ_BYTES = 2**20


class MiniKafkaCalls:
    """Produce and Poll as MiniKafka has them."""

    def __init__(self, log: Log, producers: Producers, budget: Budget) -> None:
        self._log = log
        self._producers = producers
        self._budget = budget

    def produce(self, request: pb.ProduceRequest, _: _Context) -> pb.MsgNumber:
        topic = request.topic.topic
        with self._budget.holding(len(request.payload.payload)):
            handle = self._handle(topic, create=True)
            _number(handle.bounds(0).next)
            (landed,) = self._producers.send(topic, [Record(value=request.payload.payload)])
        return pb.MsgNumber(msg_number=_number(landed.number))

    def poll(self, request: pb.PollRequest, _: _Context) -> pb.PollResponse:
        store = self._handle(request.topic, create=False).partition(0)
        position, size, full = request.read_from.msg_number, 0, False
        payloads: list[pb.Payload] = []
        while not full and (batches := store.read(position, _READ_BYTES)):
            for message in Messages.of(request.topic, 0, batches, position):
                more = len(message.value or b"") + 8
                full = bool(payloads) and size + more > _ANSWER_BYTES
                if full:
                    break
                payloads.append(pb.Payload(payload=message.value or b""))
                position, size = message.number + 1, size + more
        return pb.PollResponse(payloads=payloads, new_read_from=pb.MsgNumber(msg_number=_number(position)))

    def _handle(self, topic: str, *, create: bool) -> TopicHandle:
        handle = self._log.handle(topic, create=create)
        partitions = handle.current().settings.partitions
        if partitions > 1:
            raise InvalidValue("topic", topic, f"it has {partitions} partitions, and MiniKafka clients know only one")
        return handle


def _number(number: int) -> int:
    if number > _LARGEST_NUMBER:
        rule = f"MiniKafka's numbers end at {_LARGEST_NUMBER:,}: use the service ottla.v1.Log"
        raise InvalidValue("message number", number, rule)
    return number
