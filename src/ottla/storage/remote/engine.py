"""The `grpc:` engine: the log of a server, with every promise of the contract kept over the wire."""

import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar, cast

from google.protobuf.message import Message

from ottla.errors import OttlaError, ReadOnly, TopicRecreated, Uncertain, UnknownPartition, UnknownTopic
from ottla.model import Topic
from ottla.protocol.topics import decode_topic, encode_settings
from ottla.settings import TopicSettings, check_name
from ottla.storage.contract import EngineOptions, PartitionStore, Versioned
from ottla.storage.disk import forks
from ottla.storage.remote.calls import Calls
from ottla.storage.remote.partition import RemotePartition
from ottla.storage.remote.reading import WAIT_MARGIN_S
from ottla.v1 import log_pb2 as pb

_LONGEST_WAIT_S: Final = 30.0
"""In one call; a longer wait is several."""

_Answer = TypeVar("_Answer", bound=Message)


class RemoteEngine:
    """Topics, partitions and metadata of a server's log."""

    def __init__(self, addresses: list[tuple[str, int]], timeout_s: float, options: EngineOptions) -> None:
        self.calls = Calls(addresses, timeout_s)
        self.served_by = ", ".join(channel.address for channel in self.calls.brokers.given)
        self._read_only = options.read_only
        self._partitions: weakref.WeakValueDictionary[tuple[str, int], RemotePartition] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        forks.register(self)

    def forget(self) -> None:
        self._lock = threading.Lock()

    # Topics

    def topics(self) -> list[Topic]:
        answer = self.call("ListTopics", pb.ListTopicsRequest(), pb.ListTopicsResponse)
        return [decode_topic(topic) for topic in answer.topics]

    def topic(self, name: str) -> Topic:
        self.check_open()
        return decode_topic(self.call("GetTopic", pb.GetTopicRequest(name=check_name(name)), pb.Topic))

    def create_topic(self, topic: Topic) -> Topic:
        """As the contract says; settings that are as the library's defaults are as the server's defaults say."""
        self.check_writable("create a topic")
        settings = encode_settings(topic.settings)
        for field in fields(TopicSettings):
            if getattr(topic.settings, field.name) == field.default:
                settings.ClearField(cast("Any", field.name))
        request = pb.CreateTopicRequest(name=topic.name, id=topic.id, created_ms=topic.created_ms, settings=settings)
        return decode_topic(self.call("CreateTopic", request, pb.Topic))

    def alter_topic(self, topic: Topic) -> Topic:
        self.check_writable("change a topic")
        request = pb.AlterTopicRequest(
            name=topic.name, id=topic.id, version=topic.version, changes=encode_settings(topic.settings)
        )
        what = f"a change of topic {topic.name!r}"
        changed = replace(topic, version=topic.version + 1)
        while True:
            try:
                return decode_topic(self.call("AlterTopic", request, pb.Topic, once=what))
            except Uncertain:
                if self.topic(topic.name) == changed:
                    return changed

    def delete_topic(self, name: str) -> None:
        self.check_writable("delete a topic")
        topic_id = self.topic(name).id
        while True:
            request = pb.DeleteTopicRequest(name=name, id=topic_id)
            try:
                self.call("DeleteTopic", request, pb.DeleteTopicResponse, once=f"the end of topic {name!r}")
            except Uncertain:
                if self._id_of(name) == topic_id:
                    continue
            except TopicRecreated:  # somebody else was first, and made another
                topic_id = self.topic(name).id
                continue
            break
        for (owner_id, _), partition in list(self._partitions.items()):
            if owner_id == topic_id:
                partition.forget_read()

    def _id_of(self, name: str) -> str | None:
        try:
            return self.topic(name).id
        except UnknownTopic:
            return None

    def partition(self, topic: Topic, index: int) -> RemotePartition:
        self.check_open()
        if index < 0:
            raise UnknownPartition(topic.name, index, topic.settings.partitions)
        with self._lock:
            partition = self._partitions.get((topic.id, index))
            if partition is None:
                partition = self._partitions[topic.id, index] = RemotePartition(self, topic, index)
            return partition

    def wait(self, after: Mapping[PartitionStore, int], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        partitions = cast("Mapping[RemotePartition, int]", after)
        while True:
            left = max(deadline - time.monotonic(), 0)
            try:
                if self._waited(partitions, min(left, _LONGEST_WAIT_S)):
                    return True
            except OttlaError:
                return True  # whoever reads next is told
            if left <= _LONGEST_WAIT_S:
                return self.calls.closed

    def _waited(self, after: Mapping[RemotePartition, int], seconds: float) -> bool:
        if not after:
            return self.calls.pause(seconds)
        if len(after) == 1:
            ((partition, number),) = after.items()
            return partition.wait(number, seconds)
        request = pb.WaitRequest(
            after=[pb.PartitionNumber(**partition.names, number=number) for partition, number in after.items()],
            wait_ms=round(seconds * 1000),
        )
        deadline = time.monotonic() + seconds + WAIT_MARGIN_S
        return self.call("Wait", request, pb.WaitResponse, deadline=deadline).ready

    # Metadata

    def load(self, key: str) -> Versioned | None:
        answer = self.call("LoadMetadata", pb.LoadMetadataRequest(key=key), pb.LoadMetadataResponse)
        return Versioned(answer.data, answer.version) if answer.version else None

    def store(self, key: str, data: bytes, version: int) -> int:
        """As the contract says. After a lost answer, the same data at a higher version is taken for this call's."""
        self.check_writable("store metadata")
        request = pb.StoreMetadataRequest(key=key, data=data, version=version)
        while True:
            try:
                return self.call("StoreMetadata", request, pb.StoreMetadataResponse, once=f"metadata {key!r}").version
            except Uncertain:
                found = self.load(key)
                if found is not None and found.version > version and found.data == data:
                    return found.version

    def keys(self, prefix: str) -> list[str]:
        return list(self.call("ListMetadata", pb.ListMetadataRequest(prefix=prefix), pb.ListMetadataResponse).keys)

    def discard(self, key: str) -> None:
        self.check_writable("remove metadata")
        self.call("DeleteMetadata", pb.DeleteMetadataRequest(key=key), pb.DeleteMetadataResponse)

    # The end

    def close(self) -> None:
        if self.calls.closed:
            return
        self.calls.close()
        for partition in list(self._partitions.values()):
            partition.close()
        self.calls.brokers.close()

    def check_open(self) -> None:
        self.calls.check_open()

    def check_writable(self, what: str) -> None:
        self.check_open()
        if self._read_only:
            raise ReadOnly(what)

    def call(
        self,
        method: str,
        request: Message,
        answer: type[_Answer],
        *,
        partition: int | None = None,
        deadline: float | None = None,
        once: str = "",
    ) -> _Answer:
        """One call with its answer decoded; see `Calls.unary`."""
        data = self.calls.unary(method, request, partition=partition, deadline=deadline, once=once)
        return answer.FromString(data.to_pybytes())

    def __repr__(self) -> str:
        return f"RemoteEngine({self.served_by})"
