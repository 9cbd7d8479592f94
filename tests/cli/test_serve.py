"""`ottla serve` and `mkfk-server` as people and scripts use them: the real program, its signals and its sentences."""

import contextlib
import fcntl
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import ottla
from ottla.minikafka import minikafka_pb2 as mk
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub
from ottla.testing.servers import PROGRAM, ServerProcess
from ottla.v1 import log_pb2 as pb

MKFK_SERVER = (sys.executable, "-c", "from ottla.cli.mkfk import server; server()")


@contextlib.contextmanager
def client(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address) as channel:
        yield Stub(channel, LOG_SERVICE)


def record(value: bytes = b"x") -> pb.ProduceRequest:
    return pb.ProduceRequest(topic="t", records=[pb.Record(value=value)])


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


def failed(*arguments: str, program: tuple[str, ...] = PROGRAM, **environment: str) -> tuple[int, str]:
    """The exit code and the last line of a server that does not start."""
    server = ServerProcess(*arguments, program=program, environment=environment)
    try:
        code = server.end()
        assert "Traceback" not in server.said()
        return code, server.said().splitlines()[-1]
    finally:
        server.close()


class TestCheck:
    def test_it_says_what_is_in_force_and_from_where(self, program: Any, tmp_path: Path) -> None:
        (tmp_path / "ottla.toml").write_text('[serve]\nretention = "1h"\n')
        rows = {row["SETTING"]: row for row in program("serve", "--check", "--grpc", ":0").done().table}
        assert rows["url"]["FROM"] == "OTTLA_URL"
        assert (rows["grpc"]["VALUE"], rows["grpc"]["FROM"]) == (":0", "--grpc")
        assert (rows["retention"]["VALUE"], rows["retention"]["FROM"]) == ("1h", "retention in ottla.toml")
        assert (rows["brokers"]["VALUE"], rows["brokers"]["FROM"]) == ("1", "default")

    def test_scripts_get_json(self, program: Any) -> None:
        rows = {row["setting"]: row for row in program("serve", "/data", "--check", "--json").done().json}
        assert rows["url"] == {"setting": "url", "value": "file:///data", "from": "URL", "problem": None}

    def test_wrong_values_are_all_said_and_the_exit_code_too(self, program: Any) -> None:
        done = program("serve", "--check", "--grpc", "here", "--retention", "soon", "--json")
        assert done.code == 2
        assert [row["setting"] for row in done.json if row["problem"]] == ["grpc", "retention"]
        assert done.err.splitlines()[-2].startswith("ottla: --grpc 'here' is not valid")
        assert "500ms, 10s, 5m" in done.err.splitlines()[-1]

    def test_notices_go_to_the_person(self, program: Any) -> None:
        done = program("serve", "--check", "--grpc", ":9999", "--json", url=None)
        assert done.code == 0
        assert "nothing survives a restart" in done.err
        assert ":9999 names no host" in done.err

    def test_credentials_are_not_shown(self, program: Any) -> None:
        done = program("serve", "s3://key:secret@bucket", "--check", "--json")
        assert "secret" not in done.out.decode() + done.err

    def test_it_touches_nothing(self, program: Any, folder: Path) -> None:
        program("serve", "--check").done()
        assert not folder.exists()


class TestListening:
    def test_it_prints_where_it_listens_for_scripts_and_people(self, folder: Path) -> None:
        with ServerProcess(str(folder)) as server:
            line = server.listening
            assert line["event"] == "listening"
            assert line["url"] == f"file://{folder}"
            assert line["pid"] == server.pid
            assert line["brokers"] == [{"id": 1, "grpc": line["grpc"], "metrics": None, "pid": server.pid}]
            with client(line["grpc"]) as stub:
                assert stub.Produce(record()).landed[0].number == 1
        words = (*PROGRAM, "memory:", "--grpc", "127.0.0.1:0")
        with ServerProcess(program=words) as server:
            assert server.address.startswith("127.0.0.1:")

    def test_what_it_kept_is_there_after_a_restart(self, folder: Path) -> None:
        for number in (1, 2):
            with ServerProcess(str(folder)) as server, client(server.address) as stub:
                assert stub.Produce(record()).landed[0].number == number
                assert server.stop() == 0

    def test_settings_reach_the_server(self, folder: Path) -> None:
        arguments = (str(folder), "--retention", "10s", "--max-call-bytes", "64KiB", "--metrics", "127.0.0.1:0")
        with ServerProcess(*arguments) as server, client(server.address) as stub:
            stub.Produce(record())
            assert stub.GetTopic(pb.GetTopicRequest(name="t")).settings.retention_ms == 10_000
            with pytest.raises(grpc.RpcError, match="larger than max"):
                stub.Produce(record(bytes(70_000)))
            metrics = server.listening["brokers"][0]["metrics"]
            with urllib.request.urlopen(f"http://{metrics}/metrics") as answer:
                assert b'ottla_messages_in_total{topic="t"} 1.0' in answer.read()

    def test_its_log_is_json_lines_in_a_pipe_and_text_when_asked(self, folder: Path) -> None:
        with ServerProcess(str(folder)) as server:
            server.stop()
            assert [event["event"] for event in server.events()] == ["started", "stopping", "stopped"]
        with ServerProcess(str(folder), "--log-format", "text") as server:
            server.stop()
            assert " info     listening on " in server.said()
            assert not server.events()

    def test_advertised_hosts_are_what_clients_are_told(self) -> None:
        arguments = ("memory:", "--grpc", "0.0.0.0:0", "--insecure", "--advertise", "localhost")
        with ServerProcess(*arguments) as server, client(server.address) as stub:
            assert server.address.startswith("localhost:")
            (broker,) = stub.DescribeCluster(pb.DescribeClusterRequest()).brokers
            assert broker.address == server.address


class Held:
    """The lock that every commit to partition 0 of topic `t` needs: while it is held, appends wait."""

    def __init__(self, folder: Path) -> None:
        (path,) = folder.glob("topics/t/*/0/control")
        self._file = os.open(path, os.O_RDWR)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        os.close(self._file)


@pytest.fixture
def held(folder: Path) -> Iterator[Held]:
    with ottla.open(f"file://{folder}") as log:
        log.append("t", [b"first"])
    held = Held(folder)
    yield held
    with contextlib.suppress(OSError):
        held.release()


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_the_first_finishes_what_was_accepted(self, folder: Path, held: Held, number: int) -> None:
        with ServerProcess(str(folder)) as server, client(server.address) as stub:
            stub.ListTopics(pb.ListTopicsRequest())
            call = stub.Produce.future(record(b"second"))
            eventually(lambda: _waits_for_the_lock(server))
            os.kill(server.pid, number)
            eventually(lambda: '"stopping"' in server.said())
            held.release()
            assert call.result(timeout=60).landed[0].number == 2
            assert server.end() == 0
        with ottla.open(f"file://{folder}") as log:
            assert log.read("t").values() == [b"first", b"second"]

    def test_the_second_stops_at_once(self, folder: Path, held: Held) -> None:
        with ServerProcess(str(folder)) as server, client(server.address) as stub:
            call = stub.Produce.future(record(b"second"))
            eventually(lambda: _waits_for_the_lock(server))
            os.kill(server.pid, signal.SIGTERM)
            eventually(lambda: '"stopping"' in server.said())
            os.kill(server.pid, signal.SIGTERM)
            assert server.end() == 128 + signal.SIGTERM
            assert "stopped at once" in server.said()
            with pytest.raises(grpc.RpcError):
                call.result(timeout=60)
        held.release()

    def test_a_signal_while_nothing_happens_is_a_clean_end(self) -> None:
        with ServerProcess("memory:") as server:
            assert server.stop() == 0


def _waits_for_the_lock(server: ServerProcess) -> bool:
    """Whether some thread of the server is waiting for a file lock."""
    return any(str(server.pid) in line for line in _waiting_locks())


def _waiting_locks() -> list[str]:
    return [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]


class TestFailures:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--grpc", "9999"), "--grpc '9999' is not valid: write it as host:port, as in 127.0.0.1:9999"),
            (("--grpc", "0.0.0.0:0"), "or say --insecure"),
            (("--retention", "soon"), "500ms, 10s, 5m, 2h, 7d or forever"),
            (("--brokers", "2"), "ottla serve /data --brokers 3"),
            (("grpc://127.0.0.1:1",), "that is another server"),
            (("ftp://host",), "known: memory, file, jsonl"),
            (("--config", "missing.toml"), "it cannot be read"),
        ],
    )
    def test_a_wrong_value_is_one_sentence_with_an_example(
        self, program: Any, arguments: tuple[str, ...], words: str
    ) -> None:
        """M10, for the flags; the table of all settings is in the tests of the server's configuration."""
        done = program("serve", *arguments, url=None)
        assert done.code == 2
        assert words in done.err.splitlines()[-1]
        assert not done.out

    def test_a_second_server_on_the_same_port_is_an_error(self, folder: Path) -> None:
        with ServerProcess("memory:") as server:
            code, sentence = failed(str(folder), "--grpc", server.address)
        assert code == 2
        assert sentence.startswith(f"ottla: address '{server.address}' is not valid: another program listens there")

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("not a folder")
        code, sentence = failed(str(tmp_path / "file" / "log"))
        assert code in {1, 2}
        assert sentence.startswith("ottla: ")
        assert "Not a directory" in sentence


class TestMiniKafkaServer:
    """`mkfk-server` is set up by its own variables, as the original is."""

    def test_address_retention_and_root_directory(self, folder: Path) -> None:
        """M10."""
        variables = {
            "MINIKAFKA_HOST": ":0",
            "MINIKAFKA_RETENTIONTIME": "1h0m0s",
            "MINIKAFKA_ROOT_DIR": str(folder),
            "OTTLA_URL": "memory:",
            "OTTLA_GRPC": "not looked at",
        }
        with ServerProcess(program=MKFK_SERVER, environment=variables) as server:
            with grpc.insecure_channel(server.address) as channel:
                stub = Stub(channel, MINIKAFKA_SERVICE)
                request = mk.ProduceRequest(topic=mk.Topic(topic="foo"), payload=mk.Payload(payload=b"hello"))
                assert stub.Produce(request).msg_number == 1
            assert "mkfk-server: MINIKAFKA_HOST :0 names no host" in server.said()
            assert server.stop() == 0
        with ottla.open(f"file://{folder}", read_only=True) as log:
            assert log.read("foo").values() == [b"hello"]
            assert log.topic("foo").settings.retention_ms == 3_600_000

    def test_without_a_root_directory_it_is_memory(self) -> None:
        variables = {"MINIKAFKA_HOST": "127.0.0.1:0", "MINIKAFKA_RETENTIONTIME": "10s"}
        with ServerProcess(program=MKFK_SERVER, environment=variables) as server:
            assert "nothing survives a restart" in server.said()

    @pytest.mark.parametrize(
        ("variables", "words"),
        [
            ({"MINIKAFKA_RETENTIONTIME": "10s"}, "MINIKAFKA_HOST=127.0.0.1:9999"),
            ({"MINIKAFKA_HOST": "127.0.0.1:0"}, "MINIKAFKA_RETENTIONTIME=10s"),
            ({"MINIKAFKA_HOST": "9999", "MINIKAFKA_RETENTIONTIME": "10s"}, "as in 127.0.0.1:9999"),
            ({"MINIKAFKA_HOST": "127.0.0.1:0", "MINIKAFKA_RETENTIONTIME": "soon"}, "10s"),
            ({"MINIKAFKA_HOST": "0.0.0.0:0", "MINIKAFKA_RETENTIONTIME": "10s"}, "others could reach it"),
        ],
    )
    def test_a_missing_or_wrong_value_is_fatal_and_the_message_shows_an_example(
        self, variables: dict[str, str], words: str
    ) -> None:
        """M10."""
        code, sentence = failed(program=MKFK_SERVER, **variables)
        assert code == 2
        assert sentence.startswith("mkfk-server: MINIKAFKA_")
        assert words in sentence


def test_json_lines_of_the_log_are_whole_even_with_several_brokers(folder: Path) -> None:
    with ServerProcess(str(folder), "--brokers", "2") as server:
        server.stop()
        lines = server.said().splitlines()
    assert {json.loads(line)["event"] for line in lines} >= {"started", "broker_started", "stopping", "stopped"}
