"""Topics, groups and metadata over the wire, as a client in any language meets them."""

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import ottla
from ottla.errors import (
    InvalidValue,
    MetadataConflict,
    TopicExists,
    TopicRecreated,
    UnknownPartition,
    UnknownTopic,
)
from ottla.protocol.errors import ERROR_KEY, decode_error
from ottla.protocol.services import LOG_SERVICE, Stub
from ottla.server import Server
from ottla.v1 import log_pb2 as pb

INVALID = grpc.StatusCode.INVALID_ARGUMENT


@pytest.fixture(params=["memory:", "file://{}"], ids=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ottla.Log]:
    with ottla.open(request.param.format(tmp_path / "log")) as log:
        yield log


@pytest.fixture
def client(log: ottla.Log) -> Iterator[Stub]:
    server = Server(log)
    with grpc.insecure_channel(str(server.start("127.0.0.1:0"))) as channel, server:
        yield Stub(channel, LOG_SERVICE)


def refused(call: Callable[[], object], code: grpc.StatusCode, error: type[ottla.OttlaError]) -> Any:
    """The error that a call ends with, revived from its trailing metadata."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status: Any = caught.value
    revived = decode_error(pb.Error.FromString(dict(status.trailing_metadata())[ERROR_KEY]))
    assert (status.code(), type(revived)) == (code, error)
    return revived


def create(client: Stub, name: str = "deliveries", *, topic_id: str = "", **settings: Any) -> pb.Topic:
    request = pb.CreateTopicRequest(name=name, id=topic_id, settings=pb.TopicSettings(**settings))
    topic: pb.Topic = client.CreateTopic(request, timeout=30)
    return topic


def alter(client: Stub, name: str = "deliveries", *, version: int = 0, topic_id: str = "", **changes: Any) -> pb.Topic:
    request = pb.AlterTopicRequest(name=name, version=version, id=topic_id, changes=pb.TopicSettings(**changes))
    topic: pb.Topic = client.AlterTopic(request, timeout=30)
    return topic


class TestCreating:
    def test_a_topic_has_an_id_a_version_and_all_its_settings(self, client: Stub, log: ottla.Log) -> None:
        topic = create(client, partitions=3, partitioner="key-hash", retention_ms=60_000)
        assert (topic.name, topic.version) == ("deliveries", 1)
        assert topic.id == log.topic("deliveries").id
        assert topic.created_ms == log.topic("deliveries").created_ms
        assert (topic.settings.partitions, topic.settings.partitioner) == (3, "key-hash")
        assert (topic.settings.retention_ms, topic.settings.sync) == (60_000, "always")
        assert client.GetTopic(pb.GetTopicRequest(name="deliveries")) == topic

    def test_what_is_not_said_is_as_in_the_logs_defaults(self, client: Stub, log: ottla.Log) -> None:
        log.defaults = log.defaults.changed(partitions=2, retention="1h")
        assert create(client).settings.partitions == 2
        assert create(client, "forever", retention_ms=0).settings.retention_ms == 0
        assert log.topic("forever").settings.retention_ms is None

    def test_a_client_that_gives_the_id_can_repeat_the_call(self, client: Stub) -> None:
        """After a lost reply; the topic is made once. With another id it is another's."""
        mine = uuid.uuid4().hex
        topic = create(client, topic_id=mine)
        assert topic.id == mine
        assert topic.created_ms > 0
        assert create(client, topic_id=mine) == topic
        refused(lambda: create(client, topic_id=uuid.uuid4().hex), grpc.StatusCode.ALREADY_EXISTS, TopicExists)

    def test_a_name_that_is_taken_is_refused(self, client: Stub) -> None:
        create(client)
        error = refused(lambda: create(client), grpc.StatusCode.ALREADY_EXISTS, TopicExists)
        assert error.topic == "deliveries"

    @pytest.mark.parametrize("topic_id", ["", "f" * 32], ids=["the server's id", "the client's id"])
    @pytest.mark.parametrize(
        ("name", "settings"),
        [
            ("../evil", {}),
            ("", {}),
            ("deliveries", {"partitions": 0}),
            ("deliveries", {"partitions": 10_001}),
            ("deliveries", {"partitioner": "nope"}),
            ("deliveries", {"sync": "sometimes"}),
            ("deliveries", {"max_message_bytes": 2**31}),
            ("deliveries", {"retention_bytes": 2**63}),
        ],
    )
    def test_what_breaks_a_rule_is_refused(
        self, client: Stub, log: ottla.Log, topic_id: str, name: str, settings: dict[str, Any]
    ) -> None:
        refused(lambda: create(client, name, topic_id=topic_id, **settings), INVALID, InvalidValue)
        assert log.topics() == []

    @pytest.mark.parametrize("topic_id", ["../../../evil", "..", "a/b", "x" * 250])
    def test_an_id_is_no_path(self, client: Stub, tmp_path: Path, topic_id: str) -> None:
        error = refused(lambda: create(client, topic_id=topic_id), INVALID, InvalidValue)
        assert "topic id" in str(error)
        assert not [path for path in tmp_path.rglob("*") if path.name in {"evil", "topic.json"}]


class TestLooking:
    def test_topics_are_listed_by_name(self, client: Stub) -> None:
        for name in ("b", "c", "a"):
            create(client, name)
        assert [topic.name for topic in client.ListTopics(pb.ListTopicsRequest()).topics] == ["a", "b", "c"]

    def test_a_description_says_what_each_partition_holds(self, client: Stub, log: ottla.Log) -> None:
        topic = create(client, partitions=2)
        log.append("deliveries", [b"x" * 100] * 3, partition=1)
        log.trim("deliveries", 1, before=2)
        described = client.DescribeTopic(pb.DescribeTopicRequest(name="deliveries"))
        assert described.topic == topic
        assert [(p.partition, p.bounds.first, p.bounds.next) for p in described.partitions] == [(0, 1, 1), (1, 2, 4)]
        assert described.partitions[1].bytes > 300
        assert [p.broker for p in described.partitions] == [1, 1]

    @pytest.mark.parametrize("call", ["GetTopic", "DescribeTopic", "DeleteTopic", "AlterTopic"])
    def test_an_unknown_topic_is_an_error(self, client: Stub, call: str) -> None:
        request = getattr(pb, f"{call}Request")(name="nope")
        error = refused(lambda: getattr(client, call)(request), grpc.StatusCode.NOT_FOUND, UnknownTopic)
        assert error.topic == "nope"


class TestAltering:
    def test_only_what_is_named_changes_and_the_version_goes_up(self, client: Stub) -> None:
        before = create(client, partitions=2, retention_ms=1000)
        after = alter(client, partitions=3)
        assert (after.version, after.id) == (2, before.id)
        assert (after.settings.partitions, after.settings.retention_ms) == (3, 1000)
        assert alter(client, retention_ms=0).settings.retention_ms == 0

    def test_a_version_that_is_no_longer_current_is_refused(self, client: Stub, log: ottla.Log) -> None:
        create(client)
        assert alter(client, retention_ms=1000, version=1).version == 2
        error = refused(lambda: alter(client, retention_ms=5000, version=1), grpc.StatusCode.ABORTED, MetadataConflict)
        assert (error.expected, error.actual) == (1, 2)
        assert log.topic("deliveries").settings.retention_ms == 1000

    def test_a_topic_that_was_made_anew_is_not_changed_by_those_who_mean_the_old_one(
        self, client: Stub, log: ottla.Log
    ) -> None:
        old = create(client)
        log.delete_topic("deliveries")
        create(client)
        refused(
            lambda: alter(client, retention_ms=1000, topic_id=old.id),
            grpc.StatusCode.FAILED_PRECONDITION,
            TopicRecreated,
        )
        assert log.topic("deliveries").settings.retention_ms is None

    @pytest.mark.parametrize("version", [0, 1])
    @pytest.mark.parametrize("changes", [{"partitions": 1}, {"partitioner": "nope"}, {"sync": "no"}])
    def test_what_breaks_a_rule_is_refused(
        self, client: Stub, log: ottla.Log, version: int, changes: dict[str, Any]
    ) -> None:
        create(client, partitions=2)
        refused(lambda: alter(client, version=version, **changes), INVALID, InvalidValue)
        assert log.topic("deliveries").version == 1


def test_a_deleted_topic_is_gone_with_the_positions_in_it(client: Stub, log: ottla.Log) -> None:
    create(client)
    log.commit("billing", "deliveries", {0: 5})
    client.DeleteTopic(pb.DeleteTopicRequest(name="deliveries"))
    assert log.topics() == []
    create(client)
    assert log.committed("billing", "deliveries") == {}


def test_a_topic_that_was_made_anew_is_not_deleted_by_those_who_mean_the_old_one(client: Stub, log: ottla.Log) -> None:
    old = create(client)
    client.DeleteTopic(pb.DeleteTopicRequest(name="deliveries", id=old.id))
    new = create(client)
    delete = partial(client.DeleteTopic, pb.DeleteTopicRequest(name="deliveries", id=old.id))
    refused(delete, grpc.StatusCode.FAILED_PRECONDITION, TopicRecreated)
    assert log.topic("deliveries").id == new.id


class TestGroups:
    """A group is a bookmark."""

    def commit(
        self, client: Stub, positions: dict[int, int], group: str = "billing", topic: str = "deliveries"
    ) -> None:
        client.CommitPositions(pb.CommitPositionsRequest(group=group, topic=topic, positions=positions))

    def fetch(self, client: Stub, group: str = "billing") -> dict[int, int]:
        answer = client.FetchPositions(pb.FetchPositionsRequest(group=group, topic="deliveries"))
        return dict(answer.positions)

    def test_positions_that_are_not_named_stay(self, client: Stub, log: ottla.Log) -> None:
        create(client, partitions=3)
        assert self.fetch(client) == {}
        self.commit(client, {0: 5, 2: 7})
        self.commit(client, {0: 6})
        assert self.fetch(client) == {0: 6, 2: 7}
        assert log.committed("billing", "deliveries") == {0: 6, 2: 7}
        assert self.fetch(client, "shipping") == {}

    def test_every_group_is_listed_with_its_positions(self, client: Stub) -> None:
        create(client)
        create(client, "returns")
        self.commit(client, {0: 5})
        self.commit(client, {0: 2}, "shipping", "returns")
        groups = client.ListGroups(pb.ListGroupsRequest()).groups
        assert [(g.group, g.topic, dict(g.positions)) for g in groups] == [
            ("billing", "deliveries", {0: 5}),
            ("shipping", "returns", {0: 2}),
        ]
        assert all(group.updated_ms for group in groups)

    def test_a_group_is_forgotten_for_one_topic_or_for_all(self, client: Stub, log: ottla.Log) -> None:
        create(client)
        create(client, "returns")
        self.commit(client, {0: 5})
        self.commit(client, {0: 5}, topic="returns")
        client.DeleteGroup(pb.DeleteGroupRequest(group="billing", topic="returns"))
        assert [group.topic for group in log.groups()] == ["deliveries"]
        client.DeleteGroup(pb.DeleteGroupRequest(group="billing"))
        assert log.groups() == []

    @pytest.mark.parametrize(
        ("group", "topic", "positions", "code", "error"),
        [
            ("a/b", "deliveries", {0: 1}, INVALID, InvalidValue),
            ("billing", "nope", {0: 1}, grpc.StatusCode.NOT_FOUND, UnknownTopic),
            ("billing", "deliveries", {1: 1}, grpc.StatusCode.NOT_FOUND, UnknownPartition),
            ("billing", "deliveries", {0: 0}, INVALID, InvalidValue),
            ("billing", "deliveries", {0: 2**63}, INVALID, InvalidValue),
        ],
    )
    def test_what_breaks_a_rule_is_refused(
        self,
        client: Stub,
        log: ottla.Log,
        group: str,
        topic: str,
        positions: dict[int, int],
        code: grpc.StatusCode,
        error: type[ottla.OttlaError],
    ) -> None:
        create(client)
        refused(lambda: self.commit(client, positions, group, topic), code, error)
        assert log.groups() == []


class TestMetadata:
    """Small versioned documents, for clients that keep state of their own in the log."""

    def store(self, client: Stub, key: str, data: bytes, version: int) -> int:
        return int(client.StoreMetadata(pb.StoreMetadataRequest(key=key, data=data, version=version)).version)

    def load(self, client: Stub, key: str) -> tuple[bytes, int]:
        found = client.LoadMetadata(pb.LoadMetadataRequest(key=key))
        return found.data, found.version

    def test_what_was_stored_is_found_by_key_with_its_version(self, client: Stub) -> None:
        assert self.load(client, "apps/one") == (b"", 0)
        version = self.store(client, "apps/one", b"1", 0)
        assert self.load(client, "apps/one") == (b"1", version)
        newer = self.store(client, "apps/one", b"2", version)
        assert newer > version
        self.store(client, "apps/two", b"", 0)
        assert list(client.ListMetadata(pb.ListMetadataRequest(prefix="apps")).keys) == ["apps/one", "apps/two"]

    def test_a_change_on_top_of_another_version_is_refused(self, client: Stub) -> None:
        version = self.store(client, "apps/one", b"1", 0)
        for wrong in (0, version + 1):
            store = partial(self.store, client, "apps/one", b"x", wrong)
            error = refused(store, grpc.StatusCode.ABORTED, MetadataConflict)
            assert (error.expected, error.actual) == (wrong, version)
        assert self.load(client, "apps/one") == (b"1", version)

    def test_what_was_removed_is_gone_and_removing_it_again_is_harmless(self, client: Stub) -> None:
        self.store(client, "apps/one", b"1", 0)
        for _ in range(2):
            client.DeleteMetadata(pb.DeleteMetadataRequest(key="apps/one"))
        assert self.load(client, "apps/one") == (b"", 0)

    @pytest.mark.parametrize("key", ["", "/apps", "../apps", "apps//one"])
    def test_a_key_is_no_path(self, client: Stub, key: str) -> None:
        refused(lambda: self.store(client, key, b"x", 0), INVALID, InvalidValue)
        refused(lambda: self.load(client, key), INVALID, InvalidValue)
