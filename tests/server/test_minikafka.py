"""Rows M1 to M4, M7 and M8: MiniKafka's service, called as its own clients call it, by stubs made from its `.proto`."""

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc  # type: ignore[import-untyped]  # it has no types

import ottla
from ottla.clock import ManualClock
from ottla.minikafka import minikafka_pb2 as mk
from ottla.server import Server
from ottla.storage.memory import MemoryEngine, MemoryPartition

PROTO = Path(__file__).parents[2] / "proto"
SERVICE = "ottla/minikafka/minikafka"
CALL_S = 30.0
"""No call of these tests takes this long, unless something is wrong."""
MIB = 2**20


def generate(source: Path, name: str, target: Path) -> None:
    arguments = [f"-I{source}", f"--python_out={target}", f"--grpc_python_out={target}", f"{source}/{name}.proto"]
    assert protoc.main(["protoc", *arguments]) == 0


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module with the stubs that grpcio-tools makes of the service."""
    folder = tmp_path_factory.mktemp("stubs")
    generate(PROTO, SERVICE, folder)
    spec = importlib.util.spec_from_file_location("minikafka_pb2_grpc", folder / f"{SERVICE}_pb2_grpc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Client:
    """What an original client does, with less to type."""

    def __init__(self, channel: grpc.Channel, stubs: Any) -> None:
        self._stub = stubs.MiniKafkaStub(channel)

    def produce(self, topic: str, payload: bytes) -> int:
        request = mk.ProduceRequest(topic=mk.Topic(topic=topic), payload=mk.Payload(payload=payload))
        return int(self._stub.Produce(request, timeout=CALL_S).msg_number)

    def poll(self, topic: str, read_from: int) -> tuple[list[bytes], int]:
        request = mk.PollRequest(topic=topic, read_from=mk.MsgNumber(msg_number=read_from))
        answer = self._stub.Poll(request, timeout=CALL_S)
        return [payload.payload for payload in answer.payloads], answer.new_read_from.msg_number


@contextmanager
def serving(
    log: ottla.Log, stubs: Any, *, retention: str | None = None, largest_answer: int = 4 * MIB
) -> Iterator[Client]:
    """A client of a server of the log; its limit is gRPC's default."""
    server = Server(log)
    address = server.start("127.0.0.1:0", retention=retention)
    options = [("grpc.max_receive_message_length", largest_answer)]
    with grpc.insecure_channel(str(address), options=options) as channel, server:
        yield Client(channel, stubs)


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open("memory:") as log:
        yield log


@pytest.fixture
def client(log: ottla.Log, stubs: Any) -> Iterator[Client]:
    with serving(log, stubs) as client:
        yield client


def refused(call: Callable[[], object], code: grpc.StatusCode) -> str:
    """The sentence that a call is refused with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code
    return str(caught.value.details())


class TestRowM1:
    """Opaque bytes of any length; the first message creates its topic; received order."""

    @pytest.mark.parametrize("payload", [b"", b"\x00", bytes(range(256)), "größe".encode(), b"x" * 3 * MIB])
    def test_messages_are_opaque_bytes_of_any_length(self, client: Client, payload: bytes) -> None:
        assert client.produce("foo", payload) == 1
        assert client.poll("foo", 1) == ([payload], 2)

    def test_a_message_without_a_payload_is_an_empty_one(self, client: Client) -> None:
        client._stub.Produce(mk.ProduceRequest(topic=mk.Topic(topic="foo")))
        assert client.poll("foo", 1) == ([b""], 2)

    def test_the_first_message_creates_the_topic(self, client: Client, log: ottla.Log) -> None:
        client.produce("foo", b"a")
        assert log.topic("foo").settings.partitions == 1

    def test_messages_are_in_the_order_in_which_they_came(self, client: Client) -> None:
        sent = [b"%d" % i for i in range(100)]
        assert [client.produce("foo", payload) for payload in sent] == list(range(1, 101))
        assert client.poll("foo", 1) == (sent, 101)

    def test_each_message_of_many_clients_has_a_number_of_its_own(self, client: Client) -> None:
        with ThreadPoolExecutor(8) as clients:
            numbers = list(clients.map(lambda i: client.produce("foo", b"%d" % i), range(200)))
        assert sorted(numbers) == list(range(1, 201))
        payloads, _ = client.poll("foo", 1)
        assert [payloads[number - 1] for number in numbers] == [b"%d" % i for i in range(200)]


def test_row_m2_numbers_start_at_1_in_every_topic_and_go_on_after_removal(client: Client, log: ottla.Log) -> None:
    assert [client.produce("foo", b"a"), client.produce("bar", b"a"), client.produce("foo", b"b")] == [1, 1, 2]
    log.trim("foo", before="latest")
    assert client.produce("foo", b"c") == 3


class TestRowM3:
    """What a poll gives, exactly."""

    def test_a_poll_gives_every_message_from_a_number_on_and_where_to_go_on(self, client: Client) -> None:
        for payload in (b"a", b"b", b"c"):
            client.produce("foo", payload)
        assert client.poll("foo", 1) == ([b"a", b"b", b"c"], 4)
        assert client.poll("foo", 2) == ([b"b", b"c"], 4)
        assert client.poll("foo", 4) == ([], 4)
        client.produce("foo", b"d")
        assert client.poll("foo", 4) == ([b"d"], 5)

    def test_beyond_the_tail_there_is_nothing_and_the_position_stays(self, client: Client) -> None:
        client.produce("foo", b"a")
        assert client.poll("foo", 2**32 - 1) == ([], 2**32 - 1)

    @pytest.mark.parametrize("read_from", [0, 1, 3])
    def test_a_topic_emptied_by_retention_gives_nothing_and_the_position_stays(
        self, client: Client, log: ottla.Log, read_from: int
    ) -> None:
        client.produce("foo", b"a")
        client.produce("foo", b"b")
        log.trim("foo", before="latest")
        assert client.poll("foo", read_from) == ([], read_from)

    def test_an_unknown_topic_is_an_error_that_says_topic(self, client: Client) -> None:
        assert "topic 'nope'" in refused(lambda: client.poll("nope", 1), grpc.StatusCode.NOT_FOUND)

    @pytest.mark.parametrize("name", ["", "a/b", ".."])
    def test_a_wrong_topic_name_is_an_error_that_says_topic(self, client: Client, name: str) -> None:
        for call in (lambda: client.poll(name, 1), lambda: client.produce(name, b"a")):
            assert "topic" in refused(call, grpc.StatusCode.INVALID_ARGUMENT)


def test_row_m4_consuming_removes_nothing_and_every_consumer_has_its_own_position(client: Client) -> None:
    for payload in (b"a", b"b", b"c"):
        client.produce("foo", payload)
    for _ in range(3):
        assert client.poll("foo", 1) == ([b"a", b"b", b"c"], 4)
        assert client.poll("foo", 3) == ([b"c"], 4)


class TestRowM7:
    """What is said of the service itself."""

    def test_topics_it_creates_have_one_partition_whatever_the_default_is(self, stubs: Any) -> None:
        with ottla.open("memory:", defaults={"partitions": 4}) as log, serving(log, stubs) as client:
            assert [client.produce("foo", b"a"), client.produce("foo", b"b")] == [1, 2]
            assert log.topic("foo").settings.partitions == 1

    def test_a_topic_with_several_partitions_is_a_clear_error(self, client: Client, log: ottla.Log) -> None:
        log.create_topic("foo", partitions=3)
        for call in (lambda: client.poll("foo", 1), lambda: client.produce("foo", b"a")):
            sentence = refused(call, grpc.StatusCode.INVALID_ARGUMENT)
            assert sentence == (
                "topic 'foo' is not valid: it has 3 partitions, and MiniKafka clients know only one: "
                "use the service ottla.v1.Log"
            )
        assert log.read("foo").values() == []

    def test_below_the_oldest_kept_it_skips_ahead(self, client: Client, log: ottla.Log) -> None:
        """Also into the middle of a batch."""
        log.append("foo", [b"a", b"b", b"c", b"d"])
        log.trim("foo", before=3)
        assert client.poll("foo", 1) == ([b"c", b"d"], 5)

    def test_a_poll_returns_what_fits_into_4_mb_and_where_to_go_on(self, client: Client, log: ottla.Log) -> None:
        """The client has gRPC's default limit; every message comes once."""
        sent = [bytes([i]) * 700_000 for i in range(14)]
        log.append("foo", sent)
        position, polls, found = 1, 0, []
        while position <= len(sent):
            payloads, position = client.poll("foo", position)
            found += payloads
            polls += 1
        assert found == sent
        assert polls == 3

    def test_many_small_messages_fit_too(self, client: Client, log: ottla.Log) -> None:
        """What surrounds a payload takes more than the payload itself."""
        log.append("foo", [b""] * 600_000)
        payloads, position = client.poll("foo", 1)
        assert 400_000 < len(payloads) < 600_000
        assert position == len(payloads) + 1

    def test_a_message_over_4_mb_travels_alone_to_a_client_that_takes_it(self, log: ottla.Log, stubs: Any) -> None:
        log.append("foo", [b"a", b"x" * 5 * MIB, b"c"])
        with serving(log, stubs, largest_answer=16 * MIB) as client:
            assert client.poll("foo", 1) == ([b"a"], 2)
            payloads, position = client.poll("foo", 2)
            assert ([len(payload) for payload in payloads], position) == ([5 * MIB], 3)
            assert client.poll("foo", 3) == ([b"c"], 4)

    def test_a_client_with_the_default_limit_learns_why_it_cannot_have_it(self, client: Client, log: ottla.Log) -> None:
        log.append("foo", [b"x" * 5 * MIB, b"b"])
        sentence = refused(lambda: client.poll("foo", 1), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert "larger than max" in sentence
        assert client.poll("foo", 2) == ([b"b"], 3)

    def test_a_message_over_the_topics_limit_is_refused_and_creates_nothing(
        self, client: Client, log: ottla.Log
    ) -> None:
        sentence = refused(lambda: client.produce("foo", b"x" * (8 * MIB + 1)), grpc.StatusCode.INVALID_ARGUMENT)
        assert "max_message_bytes" in sentence
        assert log.topics() == []

    def test_numbers_past_uint32_are_an_error(self, stubs: Any) -> None:
        """What can be told is told first; nothing is stored that could not be numbered."""
        with ottla.Log(OldEngine(next_number=2**32 - 2), "engine:") as log, serving(log, stubs) as client:
            assert [client.produce("foo", b"a"), client.produce("foo", b"b")] == [2**32 - 2, 2**32 - 1]
            sentence = refused(lambda: client.produce("foo", b"c"), grpc.StatusCode.INVALID_ARGUMENT)
            assert "MiniKafka's numbers end at 4,294,967,295: use the service ottla.v1.Log" in sentence
            assert client.poll("foo", 1) == ([b"a"], 2**32 - 1)
            assert "end at" in refused(lambda: client.poll("foo", 2**32 - 1), grpc.StatusCode.INVALID_ARGUMENT)
            assert log.bounds("foo").next == 2**32

    def test_retention_is_set_when_the_server_starts(self, stubs: Any) -> None:
        clock = ManualClock()
        with ottla.open("memory:", clock=clock) as log, serving(log, stubs, retention="500ms") as client:
            client.produce("foo", b"a")
            clock.advance(400)
            client.produce("foo", b"b")
            clock.advance(200)
            log.cull()
            assert client.poll("foo", 1) == ([b"b"], 3)

    def test_the_server_removes_what_is_too_old_by_itself(self, log: ottla.Log, stubs: Any) -> None:
        with serving(log, stubs, retention="50ms") as client:
            client.produce("foo", b"a")
            while client.poll("foo", 1)[0]:
                time.sleep(0.05)
            assert client.poll("foo", 1) == ([], 1)
            assert client.produce("foo", b"b") == 2

    def test_both_services_see_the_same_messages(self, client: Client, log: ottla.Log) -> None:
        client.produce("foo", b"a")
        log.append("foo", [b"b", None], keys=[b"k", b"k"])
        assert client.poll("foo", 1) == ([b"a", b"b", b""], 4)

    def test_a_topic_that_was_deleted_is_made_again(self, client: Client, log: ottla.Log) -> None:
        client.produce("foo", b"old")
        log.delete_topic("foo")
        assert client.produce("foo", b"new") == 1
        assert client.poll("foo", 1) == ([b"new"], 2)

    def test_a_client_that_has_nothing_but_the_proto_works(self, log: ottla.Log, tmp_path: Path) -> None:
        """In a process of its own, which never imports ottla."""
        (tmp_path / "minikafka.proto").write_bytes((PROTO / f"{SERVICE}.proto").read_bytes())
        generate(tmp_path, "minikafka", tmp_path)
        server = Server(log)
        address = server.start("127.0.0.1:0")
        with server:
            command = [sys.executable, "-c", ORIGINAL, str(address)]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == ["1", "2", "3", "a", "b", "c", "4", "NOT_FOUND"]
        assert log.read("foo").values() == [b"a", b"b", b"c"]


class TestRowM8:
    """The client library: producers and consumers bound to a topic, a timeout and a host."""

    @pytest.fixture
    def address(self, log: ottla.Log) -> Iterator[str]:
        server = Server(log)
        address = str(server.start("127.0.0.1:0"))
        with server:
            yield address

    def test_a_producers_send_returns_the_message_number(self, address: str) -> None:
        with ottla.open(f"grpc://{address}?timeout=20s") as remote, remote.producer("foo") as producer:
            assert [producer.send(payload).result().number for payload in (b"a", b"b", b"c")] == [1, 2, 3]

    def test_a_consumers_poll_returns_messages_and_the_new_read_from(self, address: str, log: ottla.Log) -> None:
        log.append("foo", [b"a", b"b", b"c"])
        with ottla.open(f"grpc://{address}?timeout=20s") as remote, remote.consumer("foo", start=1) as consumer:
            messages, read_from = consumer.poll()
            assert (messages.values(), read_from) == ([b"a", b"b", b"c"], 4)
            messages, read_from = consumer.poll()
            assert (messages.values(), read_from) == ([], 4)
            log.append("foo", [b"d"])
            messages, read_from = consumer.poll(timeout=20)
            assert (messages.values(), read_from) == ([b"d"], 5)
            assert remote.consumer("foo", start=3).poll()[0].values() == [b"c", b"d"]

    def test_an_unknown_topic_is_an_error_that_says_topic(self, address: str) -> None:
        with ottla.open(f"grpc://{address}?timeout=20s") as remote, pytest.raises(ottla.UnknownTopic, match="topic"):
            remote.consumer("nope", start=1)

    def test_a_host_where_nobody_answers_is_an_error_after_the_timeout(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as nobody:
            host = f"127.0.0.1:{nobody.getsockname()[1]}"
        with ottla.open(f"grpc://{host}?timeout=500ms") as remote:
            with pytest.raises(ottla.ServerUnavailable, match=host):
                remote.consumer("foo", start=1)
            with pytest.raises(ottla.ServerUnavailable, match=host):
                remote.producer("foo").send(b"a").result()


ORIGINAL = """
import sys, grpc, minikafka_pb2 as pb, minikafka_pb2_grpc as services
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = services.MiniKafkaStub(channel)
    for payload in (b"a", b"b", b"c"):
        request = pb.ProduceRequest(topic=pb.Topic(topic="foo"), payload=pb.Payload(payload=payload))
        print(stub.Produce(request, timeout=30).msg_number)
    answer = stub.Poll(pb.PollRequest(topic="foo", read_from=pb.MsgNumber(msg_number=1)), timeout=30)
    print(*(payload.payload.decode() for payload in answer.payloads), answer.new_read_from.msg_number)
    try:
        stub.Poll(pb.PollRequest(topic="nope"), timeout=30)
    except grpc.RpcError as error:
        print(error.code().name)
assert "ottla" not in sys.modules
"""
"""A client as one would write it for MiniKafka."""


class OldEngine(MemoryEngine):
    """A log that has been used for long: its partitions give out high numbers."""

    def __init__(self, next_number: int) -> None:
        super().__init__(ottla.storage.EngineOptions())
        self._next_number = next_number

    def partition(self, topic: ottla.Topic, index: int) -> MemoryPartition:
        partition = super().partition(topic, index)
        partition._first = max(partition._first, self._next_number)
        partition._next = max(partition._next, self._next_number)
        return partition
