"""MiniKafka's own programs, typed exactly as they always were (row M11), against its service (row M7)."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.server import Server

PATIENCE_S = 60.0


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open("memory:") as log:
        yield log


@pytest.fixture
def host(log: ottla.Log) -> Iterator[str]:
    server = Server(log)
    yield str(server.start("127.0.0.1:0"))
    server.stop(0)


def typed(line: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A line as a person types it; the program is the one that is installed beside this Python."""
    program, *arguments = line.split()
    return subprocess.run(
        [installed(program), *arguments], input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )


def installed(program: str) -> str:
    found = shutil.which(program, path=str(Path(sys.executable).parent))
    assert found is not None, f"{program} is not installed: pip install --editable ."
    return found


def test_row_m11_a_producer_sends_each_line_and_prints_its_number(log: ottla.Log, host: str) -> None:
    done = typed(f"mkfk-producer -host {host} -topic foo", b"one\n\nthree")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n2\n3\n", b"")
    assert log.read("foo").values() == [b"one", b"", b"three"]


def test_row_m11_a_consumer_starts_at_1_and_says_what_came(log: ottla.Log, host: str) -> None:
    log.append("foo", [b"one", b"two"])
    with subprocess.Popen(
        [installed("mkfk-consumer"), "-host", host, "-topic", "foo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(3)] == [b"2 messages, next is 3\n", b"one\n", b"two\n"]
        log.append("foo", [b"three"])
        assert [consumer.stdout.readline() for _ in range(2)] == [b"1 messages, next is 4\n", b"three\n"]
        consumer.send_signal(signal.SIGINT)
        _, errors = consumer.communicate(timeout=PATIENCE_S)
    assert (consumer.returncode, errors) == (130, b"")


def test_a_topic_that_is_not_there_is_an_error_that_says_topic(host: str) -> None:
    done = typed(f"mkfk-consumer -host {host} -topic nothing")
    assert done.returncode == 3
    assert done.stderr.startswith(b"mkfk-consumer: topic 'nothing' does not exist")


def test_a_topic_with_several_partitions_is_refused(log: ottla.Log, host: str) -> None:
    log.create_topic("foo", partitions=2)
    done = typed(f"mkfk-producer -host {host} -topic foo", b"one\n")
    assert done.returncode == 1
    assert b"it has 2 partitions" in done.stderr


def test_no_server(host: str) -> None:
    """One that never was, and one that has just gone."""
    done = typed("mkfk-producer -host 127.0.0.1:1 -topic foo", b"one\n")
    assert done.returncode == 4
    assert done.stderr.startswith(b"mkfk-producer: no server answers at 127.0.0.1:1 within 0.5 s")
    assert len(done.stderr.splitlines()) == 1
    assert host


def test_a_topic_must_be_named() -> None:
    done = typed("mkfk-consumer -host localhost:9999")
    assert done.returncode == 2
    assert b"-topic" in done.stderr
