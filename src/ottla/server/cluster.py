"""Which brokers there are and what they own (row W3)."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc

from ottla import __version__
from ottla.client.log import Log
from ottla.errors import TopicRecreated, UnknownTopic
from ottla.protocol.brokers import owner_of
from ottla.server.records import encode_message
from ottla.v1 import log_pb2 as pb

_MESSAGES_BYTES = 2 * 2**20
"""gRPC clients take 4 MB by default; the rest is for the partitions themselves."""


@dataclass(frozen=True, slots=True)
class Member:
    """One broker, as the others see it."""

    id: int
    address: str
    alive: bool = True


@dataclass(frozen=True, slots=True)
class Cluster:
    """This broker among all of them. Ownership is for speed: every broker can serve every partition."""

    me: int
    members: Callable[[], list[Member]]

    @classmethod
    def single(cls, address: str) -> "Cluster":
        """A server of one broker."""
        return cls(1, lambda: [Member(1, address)])


class ClusterCalls:
    """DescribeCluster."""

    def __init__(self, log: Log, cluster: Cluster) -> None:
        self._log = log
        self._cluster = cluster

    def describe_cluster(self, request: pb.DescribeClusterRequest, _: grpc.ServicerContext) -> pb.Cluster:
        if request.brokers_only:
            return self._described(self._cluster.members(), {})
        return self.describe(with_messages=request.with_messages)

    def describe(self, *, with_messages: bool) -> pb.Cluster:
        """All brokers with what they own. Messages are left out where the answer would be too large for clients."""
        members = self._cluster.members()
        owned: dict[int, list[pb.BrokerPartition]] = {member.id: [] for member in members}
        room = _MESSAGES_BYTES
        for topic in self._log.topics():
            with contextlib.suppress(UnknownTopic, TopicRecreated):  # deleted meanwhile
                for index in range(topic.settings.partitions):
                    described = self._describe(topic.name, index, with_message=with_messages)
                    if (size := described.message.ByteSize()) > room:
                        described.ClearField("message")
                    else:
                        room -= size
                    owned[owner_of(index, len(members))].append(described)
        return self._described(members, owned)

    def _described(self, members: list[Member], owned: Mapping[int, list[pb.BrokerPartition]]) -> pb.Cluster:
        return pb.Cluster(
            brokers=[
                pb.Broker(id=member.id, address=member.address, alive=member.alive, partitions=owned.get(member.id))
                for member in members
            ],
            answered_by=self._cluster.me,
            version=__version__,
        )

    def _describe(self, topic: str, index: int, *, with_message: bool) -> pb.BrokerPartition:
        bounds = self._log.bounds(topic, index)
        described = pb.BrokerPartition(topic=topic, partition=index, next_number=bounds.next)
        if with_message and bounds.next > bounds.first:
            for message in self._log.read(topic, index, bounds.next - 1, max_messages=1):
                described.message.CopyFrom(encode_message(message))
        return described
