"""What people see: `topic-broker.txt` in the folder, a line for each message, for ever in the same file."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.clock import ManualClock
from ottla.errors import CorruptLog, InvalidValue, TopicRecreated, UnsupportedFormat
from ottla.storage import open_engine
from ottla.storage.jsonl import JsonlEngine
from ottla.testing.samples import batch_of, messages_of, new_topic, numbers_of, values_of
from ottla.testing.workers import Workers

Open = Callable[..., JsonlEngine]


def lines_in(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_w4_one_line_of_json_for_each_message(opened: Open, folder: Path, clock: ManualClock) -> None:
    """W4: `topic-broker_id.txt`, one line for each message with its metadata, in the order of the file."""
    partition = opened().partition(new_topic(opened(), "deliveries"), 0)
    partition.append([batch_of(b"truck 1021\non time", None), batch_of(b"\xff")])
    lines = lines_in(folder / "deliveries-1.txt")
    assert [(line["topic"], line["partition"], line["offset"], line["timestamp"]) for line in lines] == [
        ("deliveries", 0, number, clock.now_ms()) for number in (1, 2, 3)
    ]
    assert [line.get("value") for line in lines] == ["truck 1021\non time", None, None]
    assert [message.value for message in messages_of(partition)] == [b"truck 1021\non time", None, b"\xff"]


def test_w4_one_file_for_each_topic_and_broker(opened: Open, folder: Path) -> None:
    """W4: partition p is in the file of broker p % brokers + 1, whichever engine writes it."""
    engine = opened(query="?brokers=2")
    topic = new_topic(engine, "deliveries", partitions=5)
    other = opened(query="?brokers=3")
    for index in range(5):
        for each in (engine, other, opened()):
            each.partition(topic, index).append([batch_of(b"%d" % index)])
    new_topic(engine, "returns")
    assert sorted(path.name for path in folder.glob("*.txt")) == ["deliveries-1.txt", "deliveries-2.txt"]
    assert {line["partition"] for line in lines_in(folder / "deliveries-1.txt")} == {0, 2, 4}
    assert {line["partition"] for line in lines_in(folder / "deliveries-2.txt")} == {1, 3}
    for index in range(5):
        assert values_of(opened().partition(topic, index)) == [b"%d" % index] * 3


def test_partitions_share_a_file_and_no_numbers(opened: Open, folder: Path) -> None:
    engine = opened()
    topic = new_topic(engine, partitions=3, sync="never")
    for n in range(60):
        engine.partition(topic, n % 3).append([batch_of(*[b"%d" % n] * (n % 4 + 1))])
    for index in range(3):
        assert values_of(engine.partition(topic, index), 1, 500) == [
            b"%d" % n for n in range(index, 60, 3) for _ in range(n % 4 + 1)
        ]
        numbers = [line["offset"] for line in lines_in(folder / "deliveries-1.txt") if line["partition"] == index]
        assert numbers == list(range(1, len(numbers) + 1))


def test_grep_finds_a_message(opened: Open, folder: Path) -> None:
    engine = opened()
    engine.partition(new_topic(engine), 0).append([batch_of(b"truck 1021 on time", b"truck 1022 late")])
    found = subprocess.run(["grep", "-c", "1022 late", folder / "deliveries-1.txt"], check=True, capture_output=True)
    assert found.stdout == b"1\n"


def test_processes_write_one_file_together(opened: Open, folder: Path) -> None:
    """Each line is whole, and each partition dense, while processes write all partitions of a file at once."""
    engine = opened()
    topic = new_topic(engine, partitions=3)
    with Workers() as workers:
        running = [workers.start(append_round, url=f"jsonl://{folder}", times=20) for _ in range(3)]
        for worker in running:
            worker.result()
    assert len(lines_in(folder / "deliveries-1.txt")) == 3 * 20 * 3 * 2
    for index in range(3):
        assert numbers_of(engine.partition(topic, index)) == list(range(1, 121))


def append_round(url: str, times: int) -> None:
    engine = open_engine(url)
    topic = engine.topic("deliveries")
    for n in range(times):
        for index in range(3):
            engine.partition(topic, index).append([batch_of(b"%d" % n, None)])


def test_a_deleted_topic_takes_its_files_along(opened: Open, folder: Path) -> None:
    engine = opened(query="?brokers=2")
    topic = new_topic(engine, partitions=2)
    partitions = [engine.partition(topic, index) for index in range(2)]
    for partition in partitions:
        partition.append([batch_of(b"old")])
    opened().delete_topic("deliveries")
    assert sorted(path.name for path in folder.iterdir() if "~" in path.name or path.suffix == ".txt") == []
    again = opened().partition(new_topic(opened()), 0)
    assert again.append([batch_of(b"new")])[0].first == 1
    assert [line["value"] for line in lines_in(folder / "deliveries-1.txt")] == ["new"]
    with pytest.raises(TopicRecreated):
        partitions[0].append([batch_of(b"lost")])


def test_text_that_a_deletion_left_behind_is_nobodys(
    opened: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies while it deletes a topic leaves text; it is never taken for the next topic's."""
    engine = opened()
    engine.partition(new_topic(engine), 0).append([batch_of(b"old", b"old")])
    monkeypatch.setattr(JsonlEngine, "removed", lambda *_: None)
    engine.delete_topic("deliveries")
    assert (folder / "deliveries-1.txt").exists()
    new_topic(opened())
    assert not (folder / "deliveries-1.txt").exists()
    (folder / "deliveries-1.txt").write_text("somebody put it back\n")
    partition = opened().partition(opened().topic("deliveries"), 0)
    assert partition.bounds() == (1, 1)
    partition.append([batch_of(b"new")])
    assert values_of(partition) == [b"new"]
    assert len(lines_in(folder / "deliveries-1.txt")) == 1


def test_names_of_topics_and_brokers_do_not_mix(opened: Open, folder: Path) -> None:
    """`a-1` with broker 1 and `a` with broker 11 are other files."""
    engine = opened(query="?brokers=11")
    for name in ("a", "a-1"):
        topic = new_topic(engine, name, partitions=11)
        for index in range(11):
            engine.partition(topic, index).append([batch_of(name.encode())])
    for name in ("a", "a-1"):
        assert all(values_of(engine.partition(engine.topic(name), index)) == [name.encode()] for index in range(11))
    assert len(list(folder.glob("*.txt"))) == 22


def test_a_name_must_leave_room_for_its_broker(opened: Open) -> None:
    """249 characters fit with one digit; with more the sentence says so, and nothing is made."""
    new_topic(opened(), "a" * 249)
    engine = opened(query="?brokers=10")
    with pytest.raises(InvalidValue, match="shorter name"):
        new_topic(engine, "b" * 249)
    new_topic(engine, "b" * 248)
    assert [len(topic.name) for topic in engine.topics()] == [249, 248]


@pytest.mark.parametrize(
    "query", ["?brokers=0", "?brokers=x", "?brokers=-1", "?brokers=", "?brokers=1001", "?brokers=²"]
)
def test_a_wrong_number_of_brokers(opened: Open, folder: Path, query: str) -> None:
    with pytest.raises(InvalidValue, match="from 1 to 1000"):
        opened(query=query)
    assert not folder.exists()


@pytest.mark.parametrize("query", ["?broker=2", "?network=yes", "?sync=never"])
def test_an_unknown_option(opened: Open, folder: Path, query: str) -> None:
    with pytest.raises(InvalidValue, match=r"jsonl: knows only network=allow and brokers=…"):
        opened(query=query)
    assert not folder.exists()


def test_a_file_log_is_no_jsonl_log(opened: Open, folder: Path) -> None:
    open_engine(f"file://{folder}").close()
    with pytest.raises(UnsupportedFormat, match="engine file"):
        opened()


def test_a_topic_that_does_not_say_how_many_brokers(opened: Open, folder: Path) -> None:
    topic = new_topic(opened())
    (folder / "topics" / topic.name / topic.id / "brokers.json").write_text("{}")
    with pytest.raises(CorruptLog, match="brokers"):
        opened().partition(topic, 0)
    assert [damage.path.rpartition("/")[2] for damage in opened().verify()] == ["brokers.json"]
