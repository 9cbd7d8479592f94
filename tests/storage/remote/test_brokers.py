"""Several brokers on one log: clients go to the owner of a partition, and to another while it is away (row W3)."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.errors import ServerUnavailable
from ottla.protocol.packed import PackedAppend
from ottla.server import Server
from ottla.server.batches import BatchCalls
from ottla.server.cluster import Cluster, Member
from ottla.storage import open_engine
from ottla.testing.proxy import Proxy
from ottla.testing.samples import Sender, batch_of, new_topic, values_of
from ottla.v1 import log_pb2 as pb


class Brokers:
    """Two servers on one log, each behind a way that can be cut."""

    def __init__(self, folder: Path) -> None:
        self.logs = [ottla.open(f"file://{folder}") for _ in range(2)]
        self.members: list[Member] = []
        self.servers = [Server(log, cluster=Cluster(n, lambda: self.members)) for n, log in enumerate(self.logs, 1)]
        self.proxies = [Proxy(str(server.start("127.0.0.1:0"))) for server in self.servers]
        self.members = [Member(n, proxy.address) for n, proxy in enumerate(self.proxies, 1)]
        self.appended: Counter[tuple[int, int]] = Counter()
        """How many appends each broker took for each partition."""

    def url(self, *, timeout: str = "20s") -> str:
        """Of the first: clients learn of the other by themselves."""
        return f"grpc://{self.proxies[0].address}?timeout={timeout}"

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        for server in self.servers:
            server.stop(0)
        for log in self.logs:
            log.close()


@pytest.fixture
def brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Brokers]:
    append = BatchCalls._append

    def counting(calls: BatchCalls, packed: PackedAppend) -> pb.AppendResponse:
        answer = append(calls, packed)
        both.appended[both.logs.index(calls._log) + 1, packed.request.partition] += 1
        return answer

    monkeypatch.setattr(BatchCalls, "_append", counting)
    both = Brokers(tmp_path / "log")
    yield both
    both.close()


def test_each_partition_is_written_at_its_owner(brokers: Brokers) -> None:
    engine = open_engine(brokers.url())
    topic = new_topic(engine, partitions=4)
    for partition in range(4):
        engine.partition(topic, partition).append([batch_of(b"a")])
    assert brokers.appended == {(1, 0): 1, (2, 1): 1, (1, 2): 1, (2, 3): 1}
    engine.close()


def test_another_broker_stands_in_while_the_owner_is_away(brokers: Brokers) -> None:
    """Appends and reads of its partitions go on at once, and back to it when it is there again."""
    engine = open_engine(brokers.url())
    topic = new_topic(engine, partitions=2)
    partition = engine.partition(topic, 1)
    sender = Sender.number(1)
    partition.append([sender.batch(0)])
    brokers.proxies[1].refuse()
    partition.append([sender.batch(1)])
    assert values_of(partition) == [b"0", b"1"]
    assert brokers.appended == {(2, 1): 1, (1, 1): 1}
    brokers.proxies[1].recover()
    sequence = 2
    while brokers.appended[2, 1] == 1:
        partition.append([sender.batch(sequence)])
        sequence += 1
    assert values_of(partition) == [b"%d" % n for n in range(sequence)]
    engine.close()


def test_the_broker_that_was_named_may_be_away(brokers: Brokers) -> None:
    """Once the map is known, any of them will do, for topics and metadata too."""
    engine = open_engine(brokers.url())
    topic = new_topic(engine, partitions=2)
    engine.partition(topic, 0).append([batch_of(b"a")])
    brokers.proxies[0].refuse()
    assert engine.topic("deliveries") == topic
    engine.store("a/b", b"x", 0)
    assert values_of(engine.partition(topic, 0)) == [b"a"]
    assert engine.wait({engine.partition(topic, 0): 1, engine.partition(topic, 1): 1}, 60)
    engine.close()


def test_several_may_be_named(brokers: Brokers) -> None:
    """Then it does not matter which of them is there at first."""
    both = ",".join(proxy.address for proxy in brokers.proxies)
    brokers.proxies[0].refuse()
    engine = open_engine(f"grpc://{both}")
    assert engine.topics() == []
    engine.close()


def test_all_of_them_away_is_an_error(brokers: Brokers) -> None:
    engine = open_engine(brokers.url(timeout="500ms"))
    partition = engine.partition(new_topic(engine, partitions=2), 1)
    partition.append([batch_of(b"a")])
    for proxy in brokers.proxies:
        proxy.refuse()
    with pytest.raises(ServerUnavailable):
        partition.append([batch_of(b"b")])
    engine.close()


def test_a_producer_loses_and_doubles_nothing_while_a_broker_comes_and_goes(brokers: Brokers) -> None:
    with ottla.open(brokers.url()) as log:
        log.create_topic("deliveries", partitions=2)
        with log.producer("deliveries", max_batch_bytes=500, linger_ms=0) as producer:
            futures = []
            for n in range(3000):
                if n in {500, 1500, 2500}:
                    brokers.proxies[1].refuse()
                if n in {1000, 2000}:
                    brokers.proxies[1].recover()
                futures.append(producer.send(b"%d" % n, partition=n % 2))
            landed = [future.result() for future in futures]
        for partition in range(2):
            numbers = [place.number for place in landed if place.partition == partition]
            assert numbers == list(range(1, 1501))
            assert log.read("deliveries", partition).values() == [b"%d" % n for n in range(partition, 3000, 2)]
