"""M9: a server from one's own code, on a log or a store; it stops gracefully, or with the error of a part that died."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import ottla
from ottla.batch import Batch, columns_of_values
from ottla.errors import InvalidValue, ServerError
from ottla.model import Appended
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub
from ottla.server import Server
from ottla.storage import open_engine
from ottla.storage.memory import MemoryPartition
from ottla.v1 import log_pb2 as pb

WAIT_AT_2: dict[str, Any] = {"topic": "t", "from": 2, "wait_ms": 60_000}


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open("memory:") as log:
        yield log


@pytest.fixture
def server(log: ottla.Log) -> Iterator[Server]:
    server = Server(log)
    yield server
    server.stop()


@pytest.fixture
def connect() -> Iterator[Callable[[Server], Any]]:
    """Stubs of the log service, whose channels are closed in the end."""
    channels: list[grpc.Channel] = []

    def connected(server: Server) -> Any:
        channels.append(grpc.insecure_channel(str(server.address)))
        return Stub(channels[-1], LOG_SERVICE)

    yield connected
    for channel in channels:
        channel.close()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def record(value: bytes) -> pb.ProduceRequest:
    return pb.ProduceRequest(topic="t", records=[pb.Record(value=value)])


def append_request(number: int) -> pb.AppendRequest:
    batch = Batch.pack(columns_of_values([b"value"]))
    return pb.AppendRequest(request=number, topic="t", partition=0, batches=batch.to_bytes())


class Gate:
    """Appends of memory logs wait here while it is closed: an engine that takes its time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.waiting = threading.Semaphore(0)
        append = MemoryPartition.append

        def slow(partition: Any, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
            self.waiting.release()
            assert self.open.wait(30)
            return append(partition, batches, expected_next=expected_next)

        monkeypatch.setattr(MemoryPartition, "append", slow)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


class TestStarting:
    def test_port_0_picks_a_free_one_and_says_which(self, server: Server, connect: Callable[[Server], Any]) -> None:
        address = server.start("127.0.0.1:0")
        assert address.port > 0
        assert server.address == address
        assert connect(server).Produce(record(b"x")).landed[0].number == 1

    def test_serve_blocks_until_it_is_stopped_and_sets_the_retention(self, log: ottla.Log) -> None:
        """M9: `Server(store).serve(address, retention)`."""
        server = Server(log)
        thread = threading.Thread(target=server.serve, args=("127.0.0.1:0", "10s"))
        thread.start()
        eventually(lambda: hasattr(server, "address") and server._listener)
        assert thread.is_alive()
        assert log.create_topic("t").settings.retention_ms == 10_000
        server.stop()
        thread.join(30)
        assert not thread.is_alive()

    def test_a_store_can_be_injected(self, connect: Callable[[Server], Any]) -> None:
        """M9: the store is the caller's, and the caller closes it."""
        engine = open_engine("memory:")
        server = Server(engine)
        server.start("127.0.0.1:0")
        connect(server).Produce(record(b"x"))
        server.stop()
        assert [topic.name for topic in engine.topics()] == ["t"]
        engine.close()

    def test_it_is_a_context_manager(self, server: Server, connect: Callable[[Server], Any]) -> None:
        server.start("127.0.0.1:0")
        with server:
            assert connect(server).Produce(record(b"x"))
        with pytest.raises(grpc.RpcError):
            connect(server).Produce(record(b"x"), timeout=5)

    def test_a_second_server_on_the_same_port_is_an_error(self, server: Server, log: ottla.Log) -> None:
        address = server.start("127.0.0.1:0")
        with pytest.raises(InvalidValue, match="another program listens there"):
            Server(log).start(str(address))

    def test_one_that_cannot_start_changes_nothing(self, server: Server, log: ottla.Log) -> None:
        address = server.start("127.0.0.1:0")
        with pytest.raises(InvalidValue):
            Server(log).start(str(address), retention="10s")
        assert log.defaults.retention_ms is None

    @pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:9999"])
    def test_what_others_could_reach_needs_to_be_said(self, server: Server, address: str) -> None:
        with pytest.raises(InvalidValue, match="--insecure"):
            server.start(address)

    def test_insecure_listens_everywhere(self, log: ottla.Log) -> None:
        server = Server(log, insecure=True)
        assert server.start("0.0.0.0:0").host == "0.0.0.0"
        server.stop()

    def test_without_a_host_it_is_loopback(self, server: Server) -> None:
        assert server.start(":0").host == "127.0.0.1"

    def test_it_starts_once(self, server: Server) -> None:
        server.start("127.0.0.1:0")
        with pytest.raises(InvalidValue, match="started before"):
            server.start("127.0.0.1:0")
        server.stop()
        with pytest.raises(InvalidValue, match="started before"):
            server.start("127.0.0.1:0")

    def test_health_and_reflection_and_both_services_are_on_the_port(self, server: Server) -> None:
        server.start("127.0.0.1:0")
        with grpc.insecure_channel(str(server.address)) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="ottla.v1.Log"))
            assert health.status == health_pb2.HealthCheckResponse.SERVING
            asked = reflection_pb2.ServerReflectionRequest(list_services="")
            (answer,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
            names = {service.name for service in answer.list_services_response.service}
            assert {LOG_SERVICE.full_name, MINIKAFKA_SERVICE.full_name, "grpc.health.v1.Health"} <= names


class TestStopping:
    def test_an_accepted_append_is_finished_and_acknowledged(
        self, server: Server, log: ottla.Log, gate: Gate, connect: Callable[[Server], Any]
    ) -> None:
        """The engine is slow, the server stops meanwhile, and the client still gets its answer."""
        log.create_topic("t")
        server.start("127.0.0.1:0")
        requests: queue.Queue[pb.AppendRequest | None] = queue.Queue()
        answers = connect(server).Append(iter(requests.get, None))
        requests.put(append_request(7))
        assert gate.waiting.acquire(timeout=30)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        eventually(server._stopping.is_set)
        gate.open.set()
        answer = next(answers)
        assert (answer.request, answer.appended[0].first) == (7, 1)
        stopping.join(30)
        assert not stopping.is_alive()
        assert log.bounds("t").next == 2
        requests.put(None)

    def test_an_accepted_produce_is_finished_and_acknowledged(
        self, server: Server, log: ottla.Log, gate: Gate, connect: Callable[[Server], Any]
    ) -> None:
        server.start("127.0.0.1:0")
        call = connect(server).Produce.future(record(b"x"))
        assert gate.waiting.acquire(timeout=30)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        eventually(server._stopping.is_set)
        gate.open.set()
        assert call.result(timeout=30).landed[0].number == 1
        stopping.join(30)
        assert log.bounds("t").next == 2

    def test_new_calls_are_refused_while_it_stops(
        self, server: Server, log: ottla.Log, gate: Gate, connect: Callable[[Server], Any]
    ) -> None:
        log.create_topic("t")
        server.start("127.0.0.1:0")
        held = connect(server).Produce.future(record(b"x"))
        assert gate.waiting.acquire(timeout=30)
        late = connect(server)
        late.ListTopics(pb.ListTopicsRequest())
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        eventually(server._stopping.is_set)
        eventually(lambda: _refused(late))
        gate.open.set()
        assert held.result(timeout=30)
        stopping.join(30)

    def test_a_request_after_the_last_one_accepted_is_refused_and_not_written(
        self, server: Server, log: ottla.Log, gate: Gate, connect: Callable[[Server], Any]
    ) -> None:
        log.create_topic("t")
        server.start("127.0.0.1:0")
        requests: queue.Queue[pb.AppendRequest | None] = queue.Queue()
        answers = connect(server).Append(iter(requests.get, None))
        requests.put(append_request(1))
        assert gate.waiting.acquire(timeout=30)
        requests.put(append_request(2))
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        eventually(lambda: all(stream._ended for stream in server._services._streams._open))
        gate.open.set()
        assert next(answers).request == 1
        with pytest.raises(grpc.RpcError):
            next(answers)
        stopping.join(30)
        assert log.bounds("t").next == 2
        requests.put(None)

    def test_streams_that_wait_for_their_client_do_not_hold_it_up(
        self, server: Server, log: ottla.Log, connect: Callable[[Server], Any]
    ) -> None:
        """Idle appends, readers at the tail, held fetches, health watches and reflection all end."""
        topic = log.create_topic("t")
        server.start("127.0.0.1:0")
        stub = connect(server)
        requests: queue.Queue[Any] = queue.Queue()
        appends = stub.Append(iter(requests.get, None))
        requests.put(append_request(1))
        next(appends)
        follow = stub.Read(pb.ReadRequest(topic="t", topic_id=topic.id, follow=True, **{"from": 1}))
        next(follow)
        fetch = stub.Fetch.future(pb.FetchRequest(**WAIT_AT_2))
        with grpc.insecure_channel(str(server.address)) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            next(watch)
            reflected: queue.Queue[Any] = queue.Queue()
            reflection = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
                iter(reflected.get, None)
            )
            reflected.put(reflection_pb2.ServerReflectionRequest(list_services=""))
            next(reflection)
            stopping = threading.Thread(target=server.stop, args=(3600,))
            stopping.start()
            stopping.join(60)
            assert not stopping.is_alive()
            assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
            reflected.put(None)
        assert not fetch.result(timeout=30).batches
        requests.put(None)

    def test_an_append_that_never_ends_is_given_up_after_the_grace(
        self, server: Server, log: ottla.Log, gate: Gate, connect: Callable[[Server], Any]
    ) -> None:
        log.create_topic("t")
        server.start("127.0.0.1:0")
        requests: queue.Queue[pb.AppendRequest | None] = queue.Queue()
        answers = connect(server).Append(iter(requests.get, None))
        requests.put(append_request(1))
        assert gate.waiting.acquire(timeout=30)
        server.stop(grace=0.1)
        with pytest.raises(grpc.RpcError):
            next(answers)
        requests.put(None)

    def test_stopping_twice_or_from_two_threads_is_harmless(self, server: Server) -> None:
        server.start("127.0.0.1:0")
        threads = [threading.Thread(target=server.stop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        server.stop()
        server.wait()


def _refused(stub: Any) -> bool:
    try:
        stub.ListTopics(pb.ListTopicsRequest(), timeout=5)
    except grpc.RpcError:
        return True
    return False


class TestParts:
    def test_it_stops_with_the_error_of_a_culler_that_died(self, log: ottla.Log, server: Server) -> None:
        def broken() -> float:
            raise SystemError("the culler is broken")

        log._culler.pass_and_pause = broken  # type: ignore[method-assign]  # what makes it die
        with pytest.raises(SystemError, match="the culler is broken"):
            server.serve("127.0.0.1:0")

    def test_a_topic_whose_retention_fails_does_not_stop_it(self, log: ottla.Log, server: Server) -> None:
        log.create_topic("t", retention="1s")
        partition = log.engine.partition(log.topic("t"), 0)

        def broken(**_: Any) -> None:
            raise OSError("one topic's trouble")

        partition.expire = broken  # type: ignore[method-assign,assignment]  # what fails
        server.start("127.0.0.1:0")
        eventually(lambda: log.culler_errors)
        assert not server._stopped.wait(0.6)
        assert b"ottla_culler_errors 1.0" in server.metrics.exposition()

    def test_it_stops_with_an_error_when_its_listener_ends(self, server: Server) -> None:
        server.start("127.0.0.1:0")
        assert server._listener is not None
        server._listener._grpc.stop(None)
        with pytest.raises(ServerError, match="ended by itself"):
            server.wait()

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_it_stops_with_an_error_when_the_listeners_thread_dies(
        self, server: Server, connect: Callable[[Server], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As when the machine has no threads left: the port would stay open, and nobody would answer."""
        server.start("127.0.0.1:0")

        def no_thread(*_: Any, **__: Any) -> Any:
            raise RuntimeError("can't start new thread")

        assert server._listener is not None
        monkeypatch.setattr(server._listener.pools.quick, "submit", no_thread)
        call = connect(server).ListTopics.future(pb.ListTopicsRequest())
        with pytest.raises(ServerError, match="ended by itself"):
            server.wait()
        call.cancel()
