"""W3: `ottla brokers`, in the shape that Wafka has, and as a table."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server import Server
from ottla.server.cluster import Cluster, Member

EVENT = (
    b'{"event_id": "e-53", "topic_name": "deliveries", "timestamp": "2030-01-31T12:00:00.000Z", "message": "on time"}'
)


@pytest.fixture
def served() -> Iterator[tuple[ottla.Log, str]]:
    """A log with two brokers, of which one is away, and the URL of the other."""
    members = [Member(1, "127.0.0.1:1"), Member(2, "127.0.0.1:2", alive=False)]
    with ottla.open("memory:") as log:
        server = Server(log, cluster=Cluster(1, lambda: members))
        address = server.start("127.0.0.1:0")
        yield log, f"grpc://{address}"
        server.stop()


def test_the_seeds_shape_with_the_current_message(program: Any, served: tuple[ottla.Log, str]) -> None:
    log, url = served
    log.append("deliveries", [b"x"] * 52 + [EVENT])
    first, second = program("brokers", "--json", url=url).done().json_lines
    assert first == {
        "broker_id": 1,
        "partitions": {"deliveries": {"messages": [json.loads(EVENT)], "next_offset": 54}},
    }
    assert second == {"broker_id": 2, "partitions": {}}


def test_partitions_of_a_topic_that_has_several_are_named_apart(program: Any, served: tuple[ottla.Log, str]) -> None:
    log, url = served
    log.create_topic("deliveries", partitions=3)
    log.create_topic("deliveries-0")
    log.append("deliveries", [b"x"], partition=2)
    first, second = program("brokers", "--json", url=url).done().json_lines
    assert list(first["partitions"]) == ["deliveries/0", "deliveries/2", "deliveries-0"]
    assert list(second["partitions"]) == ["deliveries/1"]
    assert first["partitions"]["deliveries/2"]["next_offset"] == 2
    assert first["partitions"]["deliveries/2"]["messages"][0]["message"] == "x"
    assert first["partitions"]["deliveries/0"] == {"messages": [], "next_offset": 1}


def test_a_table_for_people(program: Any, served: tuple[ottla.Log, str]) -> None:
    log, url = served
    log.append("deliveries", [b"line\none\t" + b"y" * 100])
    first, second = program("brokers", url=url).done().table
    assert first["ADDRESS"] == "127.0.0.1:1"
    assert (first["STATE"], second["STATE"]) == ("alive", "away")
    assert (first["TOPIC"], first["PARTITION"], first["NEXT"]) == ("deliveries", "0", "2")
    assert first["CURRENT MESSAGE"].startswith("line one yyy")
    assert first["CURRENT MESSAGE"].endswith("…")
    assert second["TOPIC"] == ""


def test_messages_that_are_too_large_for_the_answer_are_left_out(program: Any, served: tuple[ottla.Log, str]) -> None:
    log, url = served
    log.append("large", [bytes(7 * 2**20)])
    log.append("small", [b"x"])
    first, _ = program("brokers", "--json", url=url).done().json_lines
    assert first["partitions"]["large"] == {"messages": [], "next_offset": 2}
    assert first["partitions"]["small"]["messages"]


def test_a_log_without_a_server_is_described_too(program: Any, tmp_path: Path) -> None:
    """All commands take any URL."""
    url = f"jsonl://{tmp_path}/log?brokers=2"
    with ottla.open(url) as log:
        log.create_topic("deliveries", partitions=2)
        log.append("deliveries", [b"x"], partition=1)
    first, second = program("brokers", "--json", url=url).done().json_lines
    assert list(first["partitions"]) == ["deliveries/0"]
    assert second["partitions"]["deliveries/1"]["next_offset"] == 2


def test_no_server_is_one_sentence(program: Any) -> None:
    done = program("brokers", url="grpc://127.0.0.1:1")
    assert done.code == 4
    assert done.err.startswith("ottla: no server answers at 127.0.0.1:1")


@pytest.mark.parametrize("url", ["grpc://h:x", "grpc://[::1"])
def test_an_address_that_is_none_is_one_sentence(program: Any, url: str) -> None:
    done = program("brokers", url=url)
    assert done.code == 2
    assert "write it as grpc://host:port" in done.err
