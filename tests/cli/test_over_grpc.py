"""The same commands against a real server: `ottla serve` in one process, the others beside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program

PROGRAM = [sys.executable, "-m", "ottla"]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a log in a folder, and its URL."""
    folder = tmp_path_factory.mktemp("served")
    process = subprocess.Popen(
        [*PROGRAM, "serve", str(folder / "log"), "--grpc", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")},
        cwd=folder,
    )
    assert process.stdout is not None
    yield f"grpc://{json.loads(process.stdout.readline())['grpc']}"
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    process.stdout.close()


@pytest.fixture
def remote(program: "Program", server: str) -> Iterator["Program"]:
    """`ottla` with the server's log, which is empty."""

    def run(*arguments: str, stdin: bytes = b"", url: str = server) -> object:
        return program(*arguments, stdin=stdin, url=url)

    yield run  # type: ignore[misc]  # the same, with another default
    for topic in program("topics", "list", "--json", url=server).json:
        program("topics", "delete", topic["topic"], "--yes", url=server)


def test_what_is_produced_is_consumed(remote: "Program") -> None:
    sent = remote("produce", "t", "--key", "k", "-H", "h=1", stdin=b"one\ntwo\n").done()
    assert sent.err == "ottla: sent 2 messages (t is at 3)\n"
    assert remote("consume", "t").done().out == b"one\ntwo\n"
    first = remote("consume", "t", "--json").json_lines[0]
    assert (first["key"], first["headers"]) == ("k", [{"name": "h", "value": "1"}])
    assert remote("consume", "t", "--from", "2").lines == ["two"]
    assert remote("consume", "t", "--from", "1h ago", "-n", "1").done().lines == ["one"]
    assert remote("tail", "t", "-n", "1", "--no-follow").lines == ["two"]


def test_many_messages(remote: "Program") -> None:
    lines = b"".join(b"%d\n" % number for number in range(200_000))
    remote("produce", "t", stdin=lines).done()
    assert remote("consume", "t").done().out == lines


def test_topics_and_groups(remote: "Program") -> None:
    remote("topics", "create", "t", "--partitions", "2", "--retention", "7d").done()
    remote("topics", "alter", "t", "--retention", "2h").done()
    remote("topics", "add-partitions", "t", "3").done()
    remote("produce", "t", "-p", "2", stdin=b"x\n" * 10).done()
    (row,) = remote("topics", "list").done().table
    assert (row["PARTITIONS"], row["MESSAGES"], row["RETENTION"]) == ("3", "10", "2h")
    remote("consume", "t", "-g", "g", "-p", "2", "-n", "4").done()
    assert [one["lag"] for one in remote("groups", "describe", "g", "--json").json] == [0, 0, 6]
    remote("groups", "reset", "g", "t", "--to", "latest").done()
    assert remote("groups", "list").table[0]["LAG"] == "0"
    remote("topics", "trim", "t", "--before", "latest", "--yes").done()
    assert remote("topics", "list").table[0]["MESSAGES"] == "0"


def test_followed_across_processes(remote: "Program", server: str) -> None:
    remote("topics", "create", "t").done()
    with subprocess.Popen([*PROGRAM, "tail", "t", "-u", server], stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        for line in (b"one\n", b"two\n"):
            remote("produce", "t", stdin=line).done()
            assert tail.stdout.readline() == line
        tail.send_signal(signal.SIGINT)
        assert tail.wait(PATIENCE_S) == 130


def test_to_a_folder_and_back(remote: "Program", tmp_path: Path, server: str) -> None:
    """Backup and restore."""
    remote("topics", "create", "t", "--partitions", "2").done()
    remote("produce", "t", stdin=b"".join(b"%d\n" % number for number in range(1000))).done()
    before = remote("consume", "t", "--json").lines
    assert remote("copy", server, str(tmp_path / "backup"), "--json").done().json["messages"] == 1000
    assert remote("copy", server, str(tmp_path / "backup"), "--json").done().json["messages"] == 0
    remote("topics", "delete", "t", "--yes").done()
    remote("copy", str(tmp_path / "backup"), server).done()
    assert sorted(remote("consume", "t", "--json").lines) == sorted(before)


def test_health(remote: "Program", server: str) -> None:
    findings = remote("doctor", server, "--write", "--json").done().json["findings"]
    assert {finding["what"]: finding["state"] for finding in findings} == {
        "server": "good", "version": "good", "brokers": "good", "log": "good", "write": "good",
    }  # fmt: skip
    remote("bench", server, "--seconds", "0.05", "--messages", "1000").done()
    assert remote("topics", "list", "--json").json == []


@pytest.mark.parametrize(
    "typed", ["topics list", "consume t", "produce t", "tail t", "groups list", "copy {url} {folder}", "bench {url}"]
)
def test_no_server_is_one_sentence_with_its_code(program: "Program", folder: Path, typed: str) -> None:
    url = "grpc://127.0.0.1:1"
    words = typed.format(url=url, folder=folder).split()
    ended = program(*words, stdin=b"x\n", url=url)
    assert ended.code == 4
    complaints = [line for line in ended.err.splitlines() if not line.startswith("ottla: sent 0")]
    assert len(complaints) == 1
    assert complaints[0].startswith("ottla: no server answers at 127.0.0.1:1")
    assert "ottla serve" in complaints[0]


def test_no_server_for_the_doctor(program: "Program") -> None:
    ended = program("doctor", "127.0.0.1:1", "--json")
    assert ended.code == 4
    (finding,) = ended.json["findings"]
    assert (finding["what"], finding["state"]) == ("server", "bad")


def test_the_default_is_the_server_on_this_machine(program: "Program", monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def refuse(url: str, **_: object) -> ottla.Log:
        opened.append(url)
        raise ottla.ServerUnavailable(url, "as the test wants it")

    monkeypatch.setattr(ottla, "open", refuse)
    assert program("topics", "list", url=None).code == 4
    assert opened == ["grpc://127.0.0.1:9999"]
