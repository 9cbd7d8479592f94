"""Reading ahead: sequential reads find their next piece on the way, and nothing that is read is stale."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.errors import TopicRecreated
from ottla.server import Server
from ottla.server.batches import BatchCalls
from ottla.storage import Engine, PartitionStore, open_engine
from ottla.storage.remote.reading import PIECE_BYTES
from ottla.testing.samples import ALL_BYTES, batch_of, new_topic, values_of


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What the server was asked."""
    counted: Counter[str] = Counter()

    def count(name: str) -> None:
        call = getattr(BatchCalls, name)

        def counting(self: BatchCalls, *given: Any) -> Any:
            counted[name] += 1
            return call(self, *given)

        monkeypatch.setattr(BatchCalls, name, counting)

    for name in ("fetch", "get_bounds", "wait"):
        count(name)
    return counted


@pytest.fixture
def url(calls: Counter[str]) -> Iterator[str]:  # noqa: ARG001  (counted before the server takes its calls)
    with ottla.open("memory:") as log:
        server = Server(log)
        yield f"grpc://{server.start('127.0.0.1:0')}"
        server.stop(0)


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    yield engine
    engine.close()


@pytest.fixture
def partition(engine: Engine) -> PartitionStore:
    return engine.partition(new_topic(engine), 0)


def append_pieces(partition: PartitionStore, count: int) -> None:
    for n in range(count):
        partition.append([batch_of(b"%d" % n * (PIECE_BYTES // 2))])


def test_a_read_gives_about_a_megabyte_however_much_is_asked_for(partition: PartitionStore) -> None:
    append_pieces(partition, 5)
    assert [len(partition.read(start, ALL_BYTES)) for start in range(1, 6)] == [1, 1, 1, 1, 1]


def test_who_reads_on_is_read_ahead(partition: PartitionStore, calls: Counter[str]) -> None:
    """The first read and the one after it ask; from then on the next piece is on its way."""
    append_pieces(partition, 6)
    calls.clear()
    for number in range(1, 7):
        assert partition.read(number, ALL_BYTES)[0].first_number == number
    assert calls["fetch"] == 6
    assert partition.read(7, ALL_BYTES) == []


def test_at_the_tail_every_read_asks(partition: PartitionStore) -> None:
    """What anybody appended before is seen."""
    for n in range(1, 30):
        assert partition.read(n, ALL_BYTES) == []
        partition.append([batch_of(b"%d" % n)])
        assert [batch.first_number for batch in partition.read(n, ALL_BYTES)] == [n]


def test_what_another_client_appends_at_the_tail_is_seen(url: str, partition: PartitionStore) -> None:
    other = open_engine(url)
    theirs = other.partition(other.topic("deliveries"), 0)
    append_pieces(partition, 4)
    start = 1
    for _ in range(10):
        while batches := partition.read(start, ALL_BYTES):
            start = batches[-1].next_number
        (appended,) = theirs.append([batch_of(b"new")])
        assert appended.first == start
        assert partition.read(start, ALL_BYTES)[0].columns().values.to_pylist() == [b"new"]
        start += 1
    other.close()


def test_what_is_trimmed_is_not_read_ahead(partition: PartitionStore) -> None:
    append_pieces(partition, 6)
    for number in (1, 2, 3):
        partition.read(number, ALL_BYTES)
    partition.trim(6)
    assert partition.read(4, ALL_BYTES)[0].first_number == 6


def test_a_reader_elsewhere_does_not_get_what_was_read_ahead(partition: PartitionStore) -> None:
    append_pieces(partition, 8)
    for number in (1, 2, 3, 7, 8, 2, 3, 1, 4):
        assert partition.read(number, ALL_BYTES)[0].first_number == number


def test_a_small_read_after_a_large_one_keeps_to_its_limit(partition: PartitionStore) -> None:
    for n in range(30):
        partition.append([batch_of(b"%d" % n * 1000)])
    partition.read(1, 1)
    partition.read(2, 1)
    assert len(partition.read(3, 1)) == 1
    assert len(partition.read(4, 5000)) <= 5


def test_a_recreated_topic_is_noticed_by_who_reads_on(engine: Engine, partition: PartitionStore) -> None:
    append_pieces(partition, 4)
    for number in (1, 2):
        partition.read(number, ALL_BYTES)
    engine.delete_topic("deliveries")
    new_topic(engine)
    with pytest.raises(TopicRecreated):
        partition.read(3, ALL_BYTES)


def test_what_a_wait_brought_is_read_without_asking_again(
    engine: Engine, partition: PartitionStore, calls: Counter[str]
) -> None:
    partition.append([batch_of(b"a")])
    calls.clear()
    assert engine.wait({partition: 1}, 60)
    assert [batch.first_number for batch in partition.read(1, ALL_BYTES)] == [1]
    assert calls == {"fetch": 1}


def test_a_consumer_asks_once_for_each_piece(url: str, calls: Counter[str]) -> None:
    """Bounds come with what is read: nothing is asked twice."""
    with ottla.open(url) as log:
        log.append("deliveries", [b"x" * 1000] * 5000)
        with log.consumer("deliveries") as consumer:
            calls.clear()
            count = 0
            while count < 5000:
                count += len(consumer.poll(timeout=10)[0])
            assert calls["get_bounds"] == 0
            assert calls["fetch"] <= 12


def test_everything_is_read_by_threads_that_share_a_handle(partition: PartitionStore) -> None:
    append_pieces(partition, 10)
    expected = values_of(partition)
    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(values_of(partition) == expected)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
