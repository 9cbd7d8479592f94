"""The service's calls on topics, groups and metadata: translate, call the log, translate."""

import grpc

from ottla.client.log import Log
from ottla.clock import SystemClock
from ottla.errors import TopicExists, TopicRecreated
from ottla.log.groups import GroupPositions
from ottla.log.partitioners import partitioner_for
from ottla.model import Topic
from ottla.protocol.brokers import owner_of
from ottla.protocol.topics import decode_settings, encode_topic
from ottla.server.cluster import Cluster
from ottla.settings import check_name
from ottla.v1 import log_pb2 as pb

_Context = grpc.ServicerContext


class TopicCalls:
    """Topics, groups and metadata of one log."""

    def __init__(self, log: Log, cluster: Cluster) -> None:
        self._log = log
        self._cluster = cluster

    def create_topic(self, request: pb.CreateTopicRequest, _: _Context) -> pb.Topic:
        changes = decode_settings(request.settings)
        if not request.id:
            return encode_topic(self._log.create_topic(request.name, **changes))
        settings = self._log.defaults.changed(**changes)
        partitioner_for(settings.partitioner)
        topic = Topic(
            name=check_name(request.name),
            id=check_name(request.id, "topic id"),  # engines name files by it
            created_ms=request.created_ms or SystemClock().now_ms(),
            settings=settings,
        )
        try:
            return encode_topic(self._log.engine.create_topic(topic))
        except TopicExists:
            current = self._log.topic(topic.name)
            if current.id != topic.id:  # else the client repeats a call whose answer was lost
                raise
            return encode_topic(current)

    def get_topic(self, request: pb.GetTopicRequest, _: _Context) -> pb.Topic:
        return encode_topic(self._log.topic(request.name))

    def list_topics(self, _request: pb.ListTopicsRequest, _: _Context) -> pb.ListTopicsResponse:
        return pb.ListTopicsResponse(topics=map(encode_topic, self._log.topics()))

    def describe_topic(self, request: pb.DescribeTopicRequest, _: _Context) -> pb.TopicDescription:
        described = self._log.describe(request.name)
        brokers = len(self._cluster.members())
        return pb.TopicDescription(
            topic=encode_topic(described.topic),
            partitions=[
                pb.PartitionDescription(
                    partition=partition.index,
                    bounds=pb.Bounds(**partition.bounds._asdict()),
                    bytes=partition.bytes,
                    broker=owner_of(partition.index, brokers),
                )
                for partition in described.partitions
            ],
        )

    def alter_topic(self, request: pb.AlterTopicRequest, _: _Context) -> pb.Topic:
        changes = decode_settings(request.changes)
        if not request.version and not request.id:
            return encode_topic(self._log.alter_topic(request.name, **changes))
        current = self._log.topic(request.name)
        settings = current.settings.changed(**changes)
        partitioner_for(settings.partitioner)
        wanted = Topic(
            name=current.name,
            id=request.id or current.id,
            created_ms=current.created_ms,
            settings=settings,
            version=request.version or current.version,
        )
        return encode_topic(self._log.engine.alter_topic(wanted))

    def delete_topic(self, request: pb.DeleteTopicRequest, _: _Context) -> pb.DeleteTopicResponse:
        if request.id and self._log.topic(request.name).id != request.id:
            raise TopicRecreated(request.name, request.id)
        self._log.delete_topic(request.name)
        return pb.DeleteTopicResponse()

    def commit_positions(self, request: pb.CommitPositionsRequest, _: _Context) -> pb.CommitPositionsResponse:
        self._log.commit(request.group, request.topic, dict(request.positions))
        return pb.CommitPositionsResponse()

    def fetch_positions(self, request: pb.FetchPositionsRequest, _: _Context) -> pb.FetchPositionsResponse:
        return pb.FetchPositionsResponse(positions=self._log.committed(request.group, request.topic))

    def list_groups(self, _request: pb.ListGroupsRequest, _: _Context) -> pb.ListGroupsResponse:
        return pb.ListGroupsResponse(groups=[_encode_group(group) for group in self._log.groups()])

    def delete_group(self, request: pb.DeleteGroupRequest, _: _Context) -> pb.DeleteGroupResponse:
        self._log.delete_group(request.group, request.topic or None)
        return pb.DeleteGroupResponse()

    def load_metadata(self, request: pb.LoadMetadataRequest, _: _Context) -> pb.LoadMetadataResponse:
        found = self._log.engine.load(request.key)
        return pb.LoadMetadataResponse() if found is None else pb.LoadMetadataResponse(**found._asdict())

    def store_metadata(self, request: pb.StoreMetadataRequest, _: _Context) -> pb.StoreMetadataResponse:
        return pb.StoreMetadataResponse(version=self._log.engine.store(request.key, request.data, request.version))

    def list_metadata(self, request: pb.ListMetadataRequest, _: _Context) -> pb.ListMetadataResponse:
        return pb.ListMetadataResponse(keys=self._log.engine.keys(request.prefix))

    def delete_metadata(self, request: pb.DeleteMetadataRequest, _: _Context) -> pb.DeleteMetadataResponse:
        self._log.engine.discard(request.key)
        return pb.DeleteMetadataResponse()


def _encode_group(group: GroupPositions) -> pb.GroupPositions:
    return pb.GroupPositions(
        group=group.group, topic=group.topic, positions=group.positions, updated_ms=group.updated_ms
    )
