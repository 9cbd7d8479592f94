"""What a server holds is bounded: bytes of producers, streams, sizes. Over the limit nothing is written."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

import ottla
from ottla.batch import Batch, columns_of_values
from ottla.errors import ServerBusy
from ottla.model import Appended
from ottla.protocol.errors import ERROR_KEY, RETRY_KEY, decode_error
from ottla.protocol.services import LOG_SERVICE, Stub
from ottla.server import Server
from ottla.server.budget import Budget
from ottla.storage.memory import MemoryPartition
from ottla.testing.servers import ServerProcess
from ottla.v1 import log_pb2 as pb

MIB = 2**20


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open("memory:") as log:
        log.create_topic("t")
        yield log


class Serving(NamedTuple):
    server: Server
    client: Any


@contextlib.contextmanager
def serving(log: ottla.Log, **limits: Any) -> Iterator[Serving]:
    server = Server(log, **limits)
    with grpc.insecure_channel(str(server.start("127.0.0.1:0"))) as channel, server:
        yield Serving(server, Stub(channel, LOG_SERVICE))


def record(size: int) -> pb.ProduceRequest:
    return pb.ProduceRequest(topic="t", partition=0, records=[pb.Record(value=bytes(size))])


def reading(topic: str = "t") -> pb.ReadRequest:
    fields: dict[str, Any] = {"topic": topic, "from": 1, "follow": True}
    return pb.ReadRequest(**fields)


def refusal(call: Callable[[], Any]) -> tuple[grpc.StatusCode, Any, str | None]:
    """The status, the error and the hint of a call that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status: Any = caught.value
    trailing = dict(status.trailing_metadata())
    error = decode_error(pb.Error.FromString(trailing[ERROR_KEY])) if ERROR_KEY in trailing else None
    return status.code(), error, trailing.get(RETRY_KEY)


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


class TestBudget:
    def test_what_does_not_fit_is_refused_with_a_hint(self) -> None:
        budget = Budget(100)
        with budget.holding(60):
            with pytest.raises(ServerBusy, match="60 of 100 bytes") as caught, budget.holding(41):
                pass
            assert caught.value.retry_after_ms > 0
            with budget.holding(40):
                assert budget.used == 100
        assert budget.used == 0

    def test_one_request_fits_into_an_empty_budget_whatever_its_size(self) -> None:
        budget = Budget(100)
        with budget.holding(1000):
            pass
        assert budget.used == 0

    def test_a_request_that_fails_gives_its_bytes_back(self) -> None:
        budget = Budget(100)
        with pytest.raises(KeyError), budget.holding(60):
            raise KeyError
        assert budget.used == 0


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Appends of memory logs wait until this is set."""
    gate = threading.Event()
    append = MemoryPartition.append

    def slow(partition: Any, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        assert gate.wait(60)
        return append(partition, batches, expected_next=expected_next)

    monkeypatch.setattr(MemoryPartition, "append", slow)
    yield gate
    gate.set()


class TestBytesInFlight:
    def test_a_second_producer_is_refused_before_any_write_and_told_when_to_come_back(
        self, log: ottla.Log, gate: threading.Event
    ) -> None:
        with serving(log, max_in_flight="1MiB") as (server, client):
            first = client.Produce.future(record(MIB - 1000))
            eventually(lambda: server._budget.used > MIB // 2)
            code, error, retry = refusal(lambda: client.Produce(record(2000), timeout=30))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert isinstance(error, ServerBusy)
            assert retry == str(error.retry_after_ms)
            gate.set()
            assert first.result(timeout=30).landed[0].number == 1
            assert client.Produce(record(2000), timeout=30).landed[0].number == 2
        assert log.bounds("t").next == 3

    def test_a_stream_gets_the_refusal_as_an_answer_and_goes_on(self, log: ottla.Log, gate: threading.Event) -> None:
        batch = Batch.pack(columns_of_values([bytes(MIB - 1000)])).to_bytes()
        with serving(log, max_in_flight="1MiB") as (server, client):
            first = client.Produce.future(record(MIB - 1000))
            eventually(lambda: server._budget.used > MIB // 2)
            requests: queue.Queue[pb.AppendRequest | None] = queue.Queue()
            answers = client.Append(iter(requests.get, None))
            requests.put(pb.AppendRequest(request=1, topic="t", batches=batch))
            refused = next(answers)
            assert refused.error.name == "ServerBusy"
            assert not refused.appended
            gate.set()
            assert first.result(timeout=30)
            requests.put(pb.AppendRequest(request=2, topic="t", batches=batch))
            assert next(answers).appended[0].first == 2
            requests.put(None)


class TestSizes:
    def test_a_request_over_the_limit_is_refused_with_both_sizes_and_the_server_goes_on(self, log: ottla.Log) -> None:
        with serving(log, max_call_bytes="1MiB") as (_, client):
            with pytest.raises(grpc.RpcError) as caught:
                client.Produce(record(2 * MIB), timeout=30)
            status: Any = caught.value
            assert status.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "larger than max" in status.details()
            assert RETRY_KEY not in dict(status.trailing_metadata()), "repeating it would not help"
            assert client.Produce(record(1000), timeout=30).landed[0].number == 1

    def test_a_message_over_the_topics_limit_is_refused_with_a_sentence(self, log: ottla.Log) -> None:
        log.alter_topic("t", max_message_bytes="64KiB")
        with serving(log) as (_, client):
            code, error, _ = refusal(lambda: client.Produce(record(70_000), timeout=30))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "max_message_bytes" in str(error)
        assert log.bounds("t").next == 1


class TestHeldStreams:
    """Each kind of call has its own limit: over it there is an answer at once, never a hang."""

    def test_readers_over_the_limit_are_refused_and_others_go_on(self, log: ottla.Log) -> None:
        log.append("t", [b"x"])
        with serving(log, max_streams=2) as (_, client):
            streams = [client.Read(reading()) for _ in range(2)]
            for stream in streams:
                next(stream)
            code, error, retry = refusal(lambda: next(client.Read(reading(), timeout=30)))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert str(error).startswith("the server holds 2 of 2 read streams")
            assert "max_streams" in str(error)
            assert retry
            assert client.ListTopics(pb.ListTopicsRequest(), timeout=30).topics
            assert client.Produce(record(10), timeout=30)
            assert client.Fetch(pb.FetchRequest(topic="t"), timeout=30).batches
            streams[0].cancel()
            eventually(lambda: _reads(client))
            streams[1].cancel()

    def test_appenders_over_the_limit_are_refused(self, log: ottla.Log) -> None:
        batch = Batch.pack(columns_of_values([b"x"])).to_bytes()
        with serving(log, max_streams=1) as (_, client):
            requests: queue.Queue[pb.AppendRequest | None] = queue.Queue()
            answers = client.Append(iter(requests.get, None))
            requests.put(pb.AppendRequest(topic="t", batches=batch))
            next(answers)
            one_more = iter([pb.AppendRequest(topic="t", batches=batch)])
            code, error, _ = refusal(lambda: next(client.Append(one_more, timeout=30)))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert isinstance(error, ServerBusy)
            assert log.bounds("t").next == 2
            requests.put(None)

    def test_waiting_calls_over_the_limit_are_refused(self, log: ottla.Log) -> None:
        fields: dict[str, Any] = {"topic": "t", "from": 1, "wait_ms": 60_000}
        with serving(log, max_streams=1) as (server, client):
            held = client.Fetch.future(pb.FetchRequest(**fields))
            listener = server._listener
            assert listener is not None
            eventually(lambda: listener.pools.waiting.held)
            code, error, _ = refusal(lambda: client.Fetch(pb.FetchRequest(**fields), timeout=30))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert isinstance(error, ServerBusy)
            log.append("t", [b"x"])
            assert held.result(timeout=30).batches

    def test_refusals_are_counted(self, log: ottla.Log) -> None:
        log.append("t", [b"x"])
        with serving(log, max_streams=1) as (server, client):
            stream = client.Read(reading())
            next(stream)
            refusal(lambda: next(client.Read(reading(), timeout=30)))
            assert b'ottla_errors_total{error="ServerBusy",method="Read"} 1.0' in server.metrics.exposition()
            stream.cancel()

    def test_more_quick_calls_than_threads_wait_their_turn(self, log: ottla.Log) -> None:
        with serving(log) as (_, client):
            calls = [client.ListTopics.future(pb.ListTopicsRequest()) for _ in range(200)]
            assert all(call.result(timeout=60).topics for call in calls)


def _reads(client: Any) -> bool:
    """Whether a reader is taken (again)."""
    stream = client.Read(reading(), timeout=30)
    try:
        next(stream)
    except grpc.RpcError:
        return False
    stream.cancel()
    return True


class TestSlowConsumers:
    def test_readers_that_do_not_read_cost_the_server_no_memory(self, tmp_path: Path) -> None:
        """Eight streams over 64 MiB each, of which nobody takes more than the first answer."""
        url = f"file://{tmp_path}/log"
        with ottla.open(url) as log:
            log.create_topic("t", sync="never")
            for _ in range(64):
                log.append("t", [bytes(MIB)])
        with ServerProcess(url) as server, grpc.insecure_channel(server.address) as channel:
            client = Stub(channel, LOG_SERVICE)
            next(client.Read(reading()))
            before = _resident_bytes(server.pid)
            streams = [client.Read(reading()) for _ in range(8)]
            for stream in streams:
                next(stream)
            time.sleep(1)  # long enough to fill whatever could be filled
            grown = _resident_bytes(server.pid) - before
            for stream in streams:
                stream.cancel()
        assert grown < 96 * MIB, "a queue for each reader would be 512 MiB"


def _resident_bytes(pid: int) -> int:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024
