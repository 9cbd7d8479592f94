"""What a client does when the network or the server fails: it finds back, it says what it knows, it never hangs."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import ottla
from ottla.batch import Batch
from ottla.errors import (
    Closed,
    MessageTooLarge,
    MetadataConflict,
    OttlaError,
    ServerBusy,
    ServerUnavailable,
    Uncertain,
    UnknownTopic,
)
from ottla.model import Appended
from ottla.server import Server
from ottla.storage import Engine, PartitionStore, open_engine
from ottla.storage.memory import MemoryPartition
from ottla.storage.remote.channel import channels
from ottla.testing.proxy import Proxy
from ottla.testing.samples import Sender, batch_of, new_topic, values_of

ALICE = Sender.number(1)


@pytest.fixture
def served() -> Iterator[ottla.Log]:
    """The log behind the server."""
    with ottla.open("memory:") as log:
        yield log


@pytest.fixture
def server(served: ottla.Log) -> Iterator[Server]:
    server = Server(served)
    server.start("127.0.0.1:0")
    yield server
    server.stop(0)


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(str(server.address)) as proxy:
        yield proxy


@pytest.fixture
def engine(proxy: Proxy) -> Iterator[Engine]:
    engine = open_engine(f"grpc://{proxy.address}?timeout=20s")
    yield engine
    engine.close()


@pytest.fixture
def partition(engine: Engine) -> PartitionStore:
    return engine.partition(new_topic(engine), 0)


def later(work: Callable[[], object], seconds: float = 0.1) -> threading.Timer:
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


class TestTheServerIsAway:
    def test_a_server_that_was_never_there_is_told_at_once(self) -> None:
        engine = open_engine("grpc://127.0.0.1:1?timeout=60s")
        with pytest.raises(ServerUnavailable, match=r"no server answers at 127.0.0.1:1 \(connection refused\): check"):
            engine.topics()
        engine.close()

    def test_a_name_that_is_no_host_is_told_at_once(self) -> None:
        engine = open_engine("grpc://no.such.host.invalid:9999?timeout=60s")
        with pytest.raises(ServerUnavailable, match=r"no server answers at no.such.host.invalid:9999"):
            engine.topics()
        engine.close()

    def test_what_answers_must_speak_grpc(self) -> None:
        """A web server, say, is not waited for: what it says makes no sense."""

        def answer() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(100))

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=answer)
            thread.start()
            engine = open_engine(f"grpc://127.0.0.1:{listener.getsockname()[1]}")
            with pytest.raises(ServerUnavailable):
                engine.topics()
            engine.close()
            thread.join()

    def test_one_that_was_there_is_waited_for(self, engine: Engine, partition: PartitionStore, proxy: Proxy) -> None:
        partition.append([batch_of(b"a")])
        proxy.refuse()
        timer = later(proxy.recover, 0.3)
        partition.append([batch_of(b"b")])
        assert values_of(partition) == [b"a", b"b"]
        assert engine.topic("deliveries").name == "deliveries"
        timer.join()

    def test_but_not_longer_than_a_call_may_take(self, proxy: Proxy) -> None:
        engine = open_engine(f"grpc://{proxy.address}?timeout=300ms")
        assert engine.topics() == []
        proxy.refuse()
        with pytest.raises(ServerUnavailable):
            engine.topics()
        proxy.recover()
        assert engine.topics() == []
        engine.close()

    def test_a_restarted_server_is_found(self, tmp_path: Path) -> None:
        """Everything goes on with the same objects: topics, appends, reads, waiting, positions."""
        address, count = "127.0.0.1:0", 0
        client: ottla.Log | None = None
        for _ in range(3):
            with ottla.open(f"file://{tmp_path}") as served:
                server = Server(served)
                address = str(server.start(address))
                client = client or ottla.open(f"grpc://{address}")
                (landed,) = client.append("deliveries", [b"x"])
                count += 1
                assert landed.numbers == range(count, count + 1)
                assert len(client.read("deliveries")) == count
                with client.consumer("deliveries", group="billing") as consumer:
                    messages, _ = consumer.poll(timeout=5)
                    assert len(messages) == 1
                    consumer.commit()
                server.stop(0)
        assert client is not None
        client.close()

    def test_a_wait_ends_and_the_next_read_finds_it_again(
        self, engine: Engine, partition: PartitionStore, proxy: Proxy
    ) -> None:
        timer = later(proxy.cut)
        assert not engine.wait({partition: 1}, 0.5)
        timer.join()
        partition.append([batch_of(b"a")])
        assert engine.wait({partition: 1}, 60)


class TestAnAnswerIsLost:
    def test_a_stamped_append_is_repeated_and_stored_once(self, partition: PartitionStore, proxy: Proxy) -> None:
        partition.append([ALICE.batch(0)])
        proxy.lose_answers()
        timer = later(proxy.recover)
        assert partition.append([ALICE.batch(1), ALICE.batch(2)]) == [(2, 1, True), (3, 1, True)]
        timer.join()
        assert values_of(partition) == [b"0", b"1", b"2"]

    def test_a_plain_append_is_uncertain(self, partition: PartitionStore, proxy: Proxy) -> None:
        """It is in the log in this case, and the client cannot know."""
        partition.append([batch_of(b"a")])
        proxy.lose_answers()
        timer = later(proxy.recover)
        with pytest.raises(Uncertain, match=r"an append to deliveries/0 was stored \("):
            partition.append([batch_of(b"b")])
        timer.join()
        assert values_of(partition) == [b"a", b"b"]

    def test_more_stamped_batches_than_the_log_remembers_are_uncertain(
        self, partition: PartitionStore, proxy: Proxy
    ) -> None:
        partition.append([batch_of(b"a")])
        proxy.lose_answers()
        timer = later(proxy.recover)
        with pytest.raises(Uncertain):
            partition.append([ALICE.batch(sequence) for sequence in range(9)])
        timer.join()

    def test_an_append_is_uncertain_when_the_time_is_over(self, proxy: Proxy) -> None:
        engine = open_engine(f"grpc://{proxy.address}?timeout=300ms")
        partition = engine.partition(new_topic(engine), 0)
        partition.append([ALICE.batch(0)])
        proxy.lose_answers()
        with pytest.raises(Uncertain):
            partition.append([ALICE.batch(1)])
        proxy.recover()
        assert partition.append([ALICE.batch(1)]) == [(2, 1, True)]
        engine.close()

    def test_a_read_is_repeated(self, partition: PartitionStore, proxy: Proxy) -> None:
        partition.append([batch_of(b"a")])
        proxy.lose_answers()
        timer = later(proxy.recover)
        assert values_of(partition) == [b"a"]
        timer.join()

    def test_a_created_topic_is_recognised(self, engine: Engine, proxy: Proxy) -> None:
        engine.topics()
        proxy.lose_answers()
        timer = later(proxy.recover)
        topic = new_topic(engine, partitions=3)
        timer.join()
        assert engine.topics() == [topic]

    def test_a_change_of_a_topic_is_recognised(self, engine: Engine, proxy: Proxy) -> None:
        topic = new_topic(engine)
        proxy.lose_answers()
        timer = later(proxy.recover)
        changed = engine.alter_topic(replace(topic, settings=topic.settings.changed(partitions=2)))
        timer.join()
        assert engine.topic("deliveries") == changed
        assert changed.settings.partitions == 2

    def test_a_deleted_topic_is_recognised(self, engine: Engine, proxy: Proxy) -> None:
        new_topic(engine)
        proxy.lose_answers()
        timer = later(proxy.recover)
        engine.delete_topic("deliveries")
        timer.join()
        with pytest.raises(UnknownTopic):
            engine.topic("deliveries")

    def test_stored_metadata_is_recognised(self, engine: Engine, proxy: Proxy) -> None:
        version = engine.store("a/b", b"1", 0)
        proxy.lose_answers()
        timer = later(proxy.recover)
        assert engine.store("a/b", b"2", version) == version + 1
        timer.join()
        with pytest.raises(MetadataConflict):
            engine.store("a/b", b"3", version)

    def test_positions_are_committed_once(self, proxy: Proxy) -> None:
        with ottla.open(f"grpc://{proxy.address}") as log:
            log.append("deliveries", [b"a", b"b"])
            proxy.lose_answers()
            timer = later(proxy.recover)
            log.commit("billing", "deliveries", {0: 2})
            timer.join()
            assert log.committed("billing", "deliveries") == {0: 2}


class TestARequestIsLost:
    def test_what_was_not_sent_completely_is_sent_again(self, partition: PartitionStore, proxy: Proxy) -> None:
        """A plain append, too: the server does not look at half a request."""
        partition.append([batch_of(b"a")])
        proxy.refuse()
        timer = later(proxy.recover)
        partition.append([batch_of(b"b")])
        timer.join()
        assert values_of(partition) == [b"a", b"b"]

    def test_a_request_that_nobody_takes_is_given_up(self, proxy: Proxy) -> None:
        """More than windows and buffers hold, to a server that reads nothing: nothing is stored, and that is known."""
        engine = open_engine(f"grpc://{proxy.address}?timeout=500ms")
        partition = engine.partition(new_topic(engine), 0)
        partition.append([batch_of(b"a")])
        proxy.lose_requests()
        large = batch_of(b"x" * 6_000_000)
        with pytest.raises((ServerUnavailable, Uncertain)):
            partition.append([large, large])
        proxy.recover()
        assert values_of(partition) == [b"a"]
        engine.close()


class TestTheServerIsBusy:
    def test_an_append_is_repeated_after_the_pause_that_it_asks_for(
        self, partition: PartitionStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refusals = refuse_appends(monkeypatch, [ServerBusy(1, 1, 20)] * 3)
        assert partition.append([batch_of(b"a")])[0].first == 1
        assert refusals == []

    def test_a_producer_repeats_it_too(self, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plain appends as well, since nothing was written; and the order stays."""
        refuse_appends(monkeypatch, [ServerBusy(1, 1, 20)] * 5)
        with ottla.open(f"grpc://{proxy.address}") as log:
            for idempotent in (True, False):
                with log.producer("deliveries", idempotent=idempotent, max_batch_bytes=100) as producer:
                    futures = [producer.send(b"%d" % n * 50) for n in range(20)]
                    numbers = [future.result().number for future in futures]
                assert numbers == list(range(numbers[0], numbers[0] + 20))

    def test_but_not_for_ever(self, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = open_engine(f"grpc://{proxy.address}?timeout=2s")
        partition = engine.partition(new_topic(engine), 0)
        refuse_appends(monkeypatch, [ServerBusy(1, 1, 900)] * 100)
        with pytest.raises(ServerBusy):
            partition.append([batch_of(b"a")])
        engine.close()


def refuse_appends(monkeypatch: pytest.MonkeyPatch, errors: list[OttlaError]) -> list[OttlaError]:
    """Have the log behind the server refuse its next appends."""
    append = MemoryPartition.append

    def refusing(self: MemoryPartition, batches: list[Batch], *, expected_next: int | None = None) -> list[Appended]:
        if errors:
            raise errors.pop()
        return append(self, batches, expected_next=expected_next)

    monkeypatch.setattr(MemoryPartition, "append", refusing)
    return errors


class TestClosing:
    @pytest.mark.parametrize("losing", [False, True])
    def test_calls_that_wait_return(
        self, engine: Engine, partition: PartitionStore, proxy: Proxy, losing: bool
    ) -> None:
        """A long poll says True; an append says that nobody knows; a read says that the log is closed."""
        outcomes: dict[str, object] = {}

        def note(name: str, call: Callable[[], object]) -> threading.Thread:
            def run() -> None:
                try:
                    outcomes[name] = call()
                except OttlaError as error:
                    outcomes[name] = type(error)

            thread = threading.Thread(target=run)
            thread.start()
            return thread

        partition.append([batch_of(b"a")])
        threads = [note("wait", lambda: engine.wait({partition: 2}, 60))]
        if losing:
            time.sleep(0.05)
            proxy.lose_answers()
            threads.append(note("append", lambda: partition.append([batch_of(b"b")])))
            threads.append(note("read", lambda: partition.read(1, 1)))
        time.sleep(0.1)
        engine.close()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        assert outcomes == ({"wait": True, "append": Uncertain, "read": Closed} if losing else {"wait": True})

    def test_a_call_that_waits_for_a_server_to_come_back_returns(self, engine: Engine, proxy: Proxy) -> None:
        engine.topics()
        proxy.refuse()
        timer = later(engine.close, 0.2)
        with pytest.raises(Closed):
            engine.topics()
        timer.join()

    def test_one_connection_is_shared_and_closed_with_the_last(self, proxy: Proxy) -> None:
        engines = [open_engine(f"grpc://{proxy.address}") for _ in range(3)]
        for engine in engines:
            engine.topics()
        assert proxy.connections == 1
        for engine in engines[:2]:
            engine.close()
        engines[2].topics()
        assert proxy.connections == 1
        engines[2].close()
        assert not channels._channels

    def test_there_is_no_thread(self, server: Server) -> None:
        threads = set(threading.enumerate())
        engine = open_engine(f"grpc://{server.address}")
        partition = engine.partition(new_topic(engine), 0)
        partition.append([batch_of(b"a")])
        assert not engine.wait({partition: 2}, 0.01)
        new = {thread.name.rpartition("_")[0] for thread in set(threading.enumerate()) - threads}
        assert new <= {"ottla-quick", "ottla-waiting", "ottla-append"}, "those are the server's"
        engine.close()

    def test_an_engine_that_is_dropped_closes_its_connection(self, proxy: Proxy) -> None:
        """Without a warning: a program may end without closing."""
        engine: Engine | None = open_engine(f"grpc://{proxy.address}")
        assert engine is not None
        engine.topics()
        engine = None


class TestSizes:
    def test_a_request_above_the_servers_limit_says_which_limit(self, served: ottla.Log) -> None:
        served.create_topic("deliveries")
        server = Server(served, max_call_bytes="1MiB")
        engine = open_engine(f"grpc://{server.start('127.0.0.1:0')}")
        partition = engine.partition(engine.topic("deliveries"), 0)
        partition.append([batch_of(b"small")])
        with pytest.raises(
            MessageTooLarge, match=r"request of 2,000,\d+ bytes is over the limit of 1,048,576: .* max_call"
        ):
            partition.append([batch_of(b"x" * 2_000_000)])
        assert partition.append([batch_of(b"small")])[0].first == 2
        engine.close()
        server.stop(0)

    def test_a_call_of_many_megabytes_is_stored_piece_by_piece(self, partition: PartitionStore) -> None:
        batches = [batch_of(b"%d" % n * 1_000_000) for n in range(40)]
        assert [appended.first for appended in partition.append(batches)] == list(range(1, 41))
        assert partition.bounds() == (1, 41)

    def test_unless_it_must_be_whole(self, partition: PartitionStore) -> None:
        with pytest.raises(MessageTooLarge):
            partition.append([batch_of(b"x" * 1_000_000) for _ in range(40)], expected_next=1)
        assert partition.bounds() == (1, 1)


def test_the_engine_behind_the_server_may_fail_as_it_likes(
    partition: PartitionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not an error of ottla's is one sentence that points to the server's log."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(MemoryPartition, "find", broken)
    with pytest.raises(OttlaError, match=r"the server failed \(ZeroDivisionError\): see its log"):
        partition.find(0)
