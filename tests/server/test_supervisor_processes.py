"""W3: three real brokers on one log: one of them killed under load, all of them stopped, the supervisor killed."""

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import ottla
from ottla.protocol.brokers import owner_of
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub
from ottla.testing.servers import ServerProcess, is_running
from ottla.v1 import log_pb2 as pb

PARTITIONS = 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/log"


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@contextlib.contextmanager
def clients(server: ServerProcess) -> Iterator[list[Any]]:
    """A client of each broker, in their order."""
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
    with contextlib.ExitStack() as channels:
        yield [
            Stub(channels.enter_context(grpc.insecure_channel(address, options=options)), LOG_SERVICE)
            for address in server.addresses
        ]


class Producer(threading.Thread):
    """Posts numbered values to one partition, at its owner; at another broker while that is away."""

    def __init__(self, brokers: list[Any], partition: int, total: int) -> None:
        super().__init__()
        self._brokers = brokers
        self._partition = partition
        self._total = total
        self._id = uuid.uuid4().bytes
        self._owner = owner_of(partition, len(brokers))
        self.acknowledged: list[int] = []
        self.elsewhere = 0
        """How many were taken by a broker that does not own the partition."""

    def run(self) -> None:
        for sequence in range(self._total):
            request = pb.ProduceRequest(
                topic="t",
                partition=self._partition,
                records=[pb.Record(value=b"%d" % sequence)],
                producer_id=self._id,
                sequence=sequence,
            )
            self.acknowledged.append(self._posted(request))

    def _posted(self, request: pb.ProduceRequest) -> int:
        """The message's number, once any broker has taken it: repeating is safe."""
        others = [broker for broker in range(1, len(self._brokers) + 1) if broker != self._owner]
        while True:
            for broker in (self._owner, *others):
                with contextlib.suppress(grpc.RpcError):
                    answer = self._brokers[broker - 1].Produce(request, timeout=10)
                    self.elsewhere += broker != self._owner
                    return int(answer.landed[0].number)


def test_a_broker_that_is_killed_under_load_comes_back_and_nothing_is_lost_or_doubled(url: str) -> None:
    with ServerProcess(url, "--brokers", "3") as server, clients(server) as brokers:
        brokers[0].CreateTopic(pb.CreateTopicRequest(name="t", settings=pb.TopicSettings(partitions=PARTITIONS)))
        producers = [Producer(brokers, partition, total=150) for partition in range(PARTITIONS)]
        for producer in producers:
            producer.start()
        eventually(lambda: all(len(producer.acknowledged) > 20 for producer in producers))
        victim = server.listening["brokers"][1]["pid"]
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: [member.alive for member in _members(brokers[0])] == [True, False, True])
        eventually(lambda: all(member.alive for member in _members(brokers[0])))
        for producer in producers:
            producer.join(60)
            assert not producer.is_alive()
        eventually(lambda: [member.address for member in _members(brokers[1])] == server.addresses)
        assert server.stop() == 0
        events = [(event.get("event"), event.get("broker")) for event in server.events()]
        assert events.count(("broker_ended", 2)) == 1
        assert ("broker_ended", 1) not in events
    with ottla.open(url) as log:
        for producer in producers:
            values = [int(message.value or b"") for message in log.read("t", producer._partition)]
            assert values == list(range(150))
            assert producer.acknowledged == list(range(1, 151))
    assert sum(producer.elsewhere for producer in producers) > 0


def _members(client: Any) -> list[pb.Broker]:
    try:
        return list(client.DescribeCluster(pb.DescribeClusterRequest(), timeout=10).brokers)
    except grpc.RpcError:
        return []


def test_every_broker_serves_every_partition_and_says_who_owns_what(url: str) -> None:
    with ServerProcess(url, "--brokers", "3", "--retention", "1h") as server, clients(server) as brokers:
        brokers[2].CreateTopic(pb.CreateTopicRequest(name="t", settings=pb.TopicSettings(partitions=4)))
        for number, broker in enumerate(brokers, 1):
            for partition in range(4):
                request = pb.ProduceRequest(topic="t", partition=partition, records=[pb.Record(value=b"x")])
                assert broker.Produce(request).landed[0].number == number
        described = brokers[1].DescribeTopic(pb.DescribeTopicRequest(name="t"))
        assert [partition.broker for partition in described.partitions] == [1, 2, 3, 1]
        assert described.topic.settings.retention_ms == 3_600_000
        for number, broker in enumerate(brokers, 1):
            cluster = broker.DescribeCluster(pb.DescribeClusterRequest(with_messages=True))
            assert cluster.answered_by == number
            owned = {
                b.id: [(p.partition, p.next_number, p.message.value) for p in b.partitions] for b in cluster.brokers
            }
            assert owned == {1: [(0, 4, b"x"), (3, 4, b"x")], 2: [(1, 4, b"x")], 3: [(2, 4, b"x")]}


def test_minikafka_clients_may_call_any_broker(url: str) -> None:
    """M7 with W3."""
    from ottla.minikafka import minikafka_pb2 as mk  # noqa: PLC0415  (only here)

    with ServerProcess(url, "--brokers", "2") as server, contextlib.ExitStack() as channels:
        stubs = [
            Stub(channels.enter_context(grpc.insecure_channel(address)), MINIKAFKA_SERVICE)
            for address in server.addresses
        ]
        request = mk.ProduceRequest(topic=mk.Topic(topic="mk"), payload=mk.Payload(payload=b"hello"))
        assert [stub.Produce(request).msg_number for stub in stubs] == [1, 2]
        for stub in stubs:
            polled = stub.Poll(mk.PollRequest(topic="mk", read_from=mk.MsgNumber(msg_number=1)))
            assert [payload.payload for payload in polled.payloads] == [b"hello", b"hello"]


def test_text_logs_have_a_file_for_each_topic_and_broker(tmp_path: Path) -> None:
    """W4: `topic-broker_id.txt`."""
    with ServerProcess(f"jsonl://{tmp_path}/log", "--brokers", "2") as server, clients(server) as brokers:
        brokers[0].CreateTopic(pb.CreateTopicRequest(name="deliveries", settings=pb.TopicSettings(partitions=2)))
        for partition in range(2):
            request = pb.ProduceRequest(topic="deliveries", partition=partition, records=[pb.Record(value=b"x")])
            brokers[partition].Produce(request)
    assert {path.name for path in (tmp_path / "log").glob("*.txt")} == {"deliveries-1.txt", "deliveries-2.txt"}


def test_a_killed_supervisor_leaves_no_brokers_behind(url: str) -> None:
    with ServerProcess(url, "--brokers", "3") as server:
        pids = [broker["pid"] for broker in server.listening["brokers"]]
        assert all(map(is_running, pids))
        server.kill()
        eventually(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_brokers_and_the_end_is_clean(url: str, number: int) -> None:
    with ServerProcess(url, "--brokers", "2") as server:
        pids = [broker["pid"] for broker in server.listening["brokers"]]
        os.kill(server.pid, number)
        assert server.end() == 0
        assert not any(map(is_running, pids))


def test_a_second_signal_stops_at_once_even_a_broker_that_hangs(url: str) -> None:
    with ServerProcess(url, "--brokers", "2") as server:
        pids = [broker["pid"] for broker in server.listening["brokers"]]
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(server.pid, signal.SIGTERM)
        eventually(lambda: not is_running(pids[1]))
        os.kill(server.pid, signal.SIGTERM)
        assert server.end() == 128 + signal.SIGTERM
        eventually(lambda: not any(map(is_running, pids)))


def test_a_port_that_is_taken_ends_it_with_one_sentence(url: str) -> None:
    with ServerProcess(url) as first:
        second = ServerProcess(url, "--brokers", "2", "--grpc", first.address)
        try:
            assert second.end() == 2
            assert "another program listens there" in second.said().splitlines()[-1]
        finally:
            second.close()


def test_the_library_goes_on_over_the_network_while_a_broker_is_killed(url: str) -> None:
    """`ottla.open("grpc://…")` finds the owners by itself, and another broker while one is away."""
    with ServerProcess(url, "--brokers", "3") as server:
        with ottla.open(f"grpc://{server.address}") as log:
            log.create_topic("t", partitions=PARTITIONS)
            with log.producer("t") as producer:
                for batch in range(60):
                    producer.send_many([b"%d-%d" % (batch, number) for number in range(100)])
                    if batch == 20:
                        os.kill(server.listening["brokers"][1]["pid"], signal.SIGKILL)
        assert server.stop() == 0
    with ottla.open(url) as log:
        values = [value or b"" for value in log.read("t").values()]
    assert sorted(values) == sorted(b"%d-%d" % (batch, number) for batch in range(60) for number in range(100))
