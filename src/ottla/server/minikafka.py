"""MiniKafka's own service (row M7), on the same port: one partition, one message a call, numbers in 32 bits."""

from collections.abc import Iterator

import grpc

from ottla.batch import Messages
from ottla.client.log import Log
from ottla.errors import InvalidValue
from ottla.log.topics import TopicHandle
from ottla.minikafka import minikafka_pb2 as pb
from ottla.model import Message, Record
from ottla.server.budget import Budget
from ottla.server.records import Producers
from ottla.storage import PartitionStore

_Context = grpc.ServicerContext

_LARGEST_NUMBER = 2**32 - 1
_ANSWER_BYTES = 4 * 10**6 - 2**16
"""gRPC clients take 4 MB by default; the rest is for what surrounds the payloads."""
_PAYLOAD_BYTES = 8
_READ_BYTES = 2**20


class MiniKafkaCalls:
    """Produce and Poll as MiniKafka has them."""

    def __init__(self, log: Log, producers: Producers, budget: Budget) -> None:
        self._log = log
        self._producers = producers
        self._budget = budget

    def produce(self, request: pb.ProduceRequest, _: _Context) -> pb.MsgNumber:
        topic, records = request.topic.topic, [Record(value=request.payload.payload)]
        with self._budget.holding(len(request.payload.payload)):
            self._producers.check(topic, records)
            handle = self._log.handle(topic, create=True, partitions=1)
            _check_single(handle)
            _check_number(handle.bounds(0).next)
            (landed,) = self._producers.send(topic, records)
        return pb.MsgNumber(msg_number=_check_number(landed.number))

    def poll(self, request: pb.PollRequest, _: _Context) -> pb.PollResponse:
        handle = self._log.handle(request.topic)
        _check_single(handle)
        position = request.read_from.msg_number
        payloads: list[pb.Payload] = []
        for message in _messages(handle.partition(0), position):
            payloads.append(pb.Payload(payload=message.value or b""))
            position = message.number + 1
        return pb.PollResponse(payloads=payloads, new_read_from=pb.MsgNumber(msg_number=_check_number(position)))


def _messages(store: PartitionStore, position: int) -> Iterator[Message]:
    """As many as fit into an answer, and at least one if there is any: a larger one travels alone.

    They end before a number that could not be gone on with, so that such a number is met, and reported, by itself.
    """
    size = 0
    while batches := store.read(position, _READ_BYTES):
        for message in Messages.of("", 0, batches, max(position, store.bounds().first)):
            more = len(message.value or b"") + _PAYLOAD_BYTES
            if size and (size + more > _ANSWER_BYTES or message.number >= _LARGEST_NUMBER):
                return
            yield message
            size += more
        position = batches[-1].next_number


def _check_single(handle: TopicHandle) -> None:
    partitions = handle.current().settings.partitions
    if partitions > 1:
        rule = f"it has {partitions} partitions, and MiniKafka clients know only one: use the service ottla.v1.Log"
        raise InvalidValue("topic", handle.name, rule)


def _check_number(number: int) -> int:
    if number > _LARGEST_NUMBER:
        rule = f"MiniKafka's numbers end at {_LARGEST_NUMBER:,}: use the service ottla.v1.Log"
        raise InvalidValue("message number", number, rule)
    return number
