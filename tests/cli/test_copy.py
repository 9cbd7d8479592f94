"""`ottla copy`: nothing is lost, nothing is there twice, however often it is interrupted and repeated."""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.cli import copying
from ottla.errors import StorageFailed, Uncertain
from ottla.log.topics import TopicHandle

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@pytest.fixture
def backup(tmp_path: Path) -> str:
    return str(tmp_path / "backup")


@pytest.fixture
def target(backup: str) -> Iterator[ottla.Log]:
    with ottla.open(f"file://{backup}") as opened:
        yield opened


def content(log: ottla.Log, topic: str) -> list[tuple[Any, ...]]:
    """All but the numbers, by partition."""
    return [(m.partition, m.timestamp_ms, m.key, m.value, m.headers) for m in log.read(topic)]


def fill(log: ottla.Log) -> None:
    log.create_topic("t", partitions=3, retention="30d", partitioner="key-hash", sync="never")
    log.append("t", [b"a", b"", None], partition=0, keys=[b"k", None, b""], headers=[{"h": b"1", "n": None}, {}, {}])
    log.append("t", [b"b"], partition=0, timestamps=[12345])
    for number in range(100):
        log.append("t", [b"%d" % number], partition=1)
    log.append("u", [bytes(1000)] * 5000)


def test_everything_is_kept(program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path) -> None:
    fill(log)
    ended = program("copy", str(folder), backup, "--json").done()
    assert ended.json["messages"] == 5104
    assert [topic.name for topic in target.topics()] == ["t", "u"]
    for topic in ("t", "u"):
        assert content(target, topic) == content(log, topic)
        assert target.topic(topic).settings == log.topic(topic).settings
        assert [m.number for m in target.read(topic)] == [m.number for m in log.read(topic)]


def test_repeating_it_copies_what_is_new(
    program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
) -> None:
    fill(log)
    program("copy", str(folder), backup).done()
    assert program("copy", str(folder), backup, "--json").done().json["messages"] == 0
    log.append("u", [b"new"])
    log.add_partitions("t", 4)
    log.append("t", [b"also new"], partition=3)
    assert program("copy", str(folder), backup, "--json").done().json["messages"] == 2
    for topic in ("t", "u"):
        assert content(target, topic) == content(log, topic)


def test_backup_and_restore_to_another_engine_with_positions(
    program: "Program", log: ottla.Log, backup: str, folder: Path, tmp_path: Path
) -> None:
    fill(log)
    log.commit("g", "t", {0: 3, 1: 51})
    program("copy", str(folder), backup, "--groups").done()
    program("copy", backup, f"jsonl://{tmp_path}/restored", "t", "--groups").done()
    with ottla.open(f"jsonl://{tmp_path}/restored") as restored:
        assert [topic.name for topic in restored.topics()] == ["t"]
        assert content(restored, "t") == content(log, "t")
        assert restored.committed("g", "t") == {0: 3, 1: 51}


def test_a_trimmed_source_starts_at_1_and_positions_follow(
    program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
) -> None:
    log.append("t", [b"%d" % number for number in range(1, 101)])
    log.trim("t", before=61)
    log.commit("g", "t", {0: 71})
    log.commit("behind", "t", {0: 2})
    program("copy", str(folder), backup, "--groups").done()
    assert target.read("t").values() == [b"%d" % number for number in range(61, 101)]
    assert target.bounds("t") == (1, 41)
    assert target.read("t", 0, target.committed("g", "t")[0], max_messages=1).values() == [b"71"]
    assert target.committed("behind", "t") == {0: 1}
    log.append("t", [b"101"])
    program("copy", str(folder), backup).done()
    assert target.read("t", 0, 41).values() == [b"101"]


def test_what_was_removed_before_it_was_copied_is_said(
    program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
) -> None:
    log.append("t", [b"%d" % number for number in range(1, 11)])
    program("copy", str(folder), backup).done()
    log.append("t", [b"%d" % number for number in range(11, 31)])
    log.trim("t", before=21)
    ended = program("copy", str(folder), backup, "--json").done()
    assert ended.err == "ottla: messages 11 to 20 of t/0 are gone: they were removed before they were copied\n"
    assert ended.json["messages"] == 10
    log.append("t", [b"31"])
    assert program("copy", str(folder), backup, "--json").done().json["messages"] == 1
    assert target.read("t").values() == [b"%d" % n for n in [*range(1, 11), *range(21, 32)]]


def test_a_hole_that_a_repair_left_is_said_and_stepped_over(
    program: "Program", folder: Path, backup: str, target: ottla.Log
) -> None:
    with ottla.open(f"file://{folder}") as log:
        for first in (1, 11, 21):
            log.append("t", [b"%d" % number for number in range(first, first + 10)])
    segment = min(folder.glob("topics/t/*/0/*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    program("repair", str(folder), "--yes").done()
    ended = program("copy", str(folder), backup).done()
    assert "messages 11 to 20 of t/0 are gone" in ended.err
    assert target.read("t").values() == [b"%d" % number for number in [*range(1, 11), *range(21, 31)]]
    assert program("copy", str(folder), backup, "--json").done().json["messages"] == 0


def test_from_somewhere(program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path) -> None:
    log.append("t", [b"%d" % number for number in range(1, 11)])
    program("copy", str(folder), backup, "--from", "8").done()
    log.append("t", [b"11"])
    program("copy", str(folder), backup, "--from", "8").done()
    assert target.read("t").values() == [b"8", b"9", b"10", b"11"]


def test_only_the_topics_that_are_named(
    program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
) -> None:
    for topic in ("a", "b", "c"):
        log.append(topic, [b"x"])
    program("copy", str(folder), backup, "a", "c").done()
    assert [topic.name for topic in target.topics()] == ["a", "c"]


def test_nothing_to_copy(program: "Program", log: ottla.Log, backup: str) -> None:
    assert program("copy", log.url, backup).done().err == "ottla: there is no topic to copy\n"


@pytest.mark.parametrize("seed", range(3))
def test_interrupted_anywhere_it_goes_on(
    program: "Program", log: ottla.Log, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Appends that fail, appends whose reply is lost, and stops between them: each message arrives once."""
    choice = random.Random(seed)
    log.create_topic("t", partitions=2, sync="never")
    for number in range(120):
        log.append("t", [b"%d" % number], partition=number % 2)
    monkeypatch.setattr(copying, "_READ_BYTES", 500)
    monkeypatch.setattr(copying, "_BATCH_BYTES", 200)
    append = TopicHandle.append

    def unreliable(self: TopicHandle, *given: Any, **options: Any) -> Any:
        match choice.randrange(12):
            case 0:
                raise StorageFailed("there", "planted")
            case 1:
                append(self, *given, **options)
                raise Uncertain("an append", "planted")
            case 2:
                raise Uncertain("an append", "planted")
            case 3:
                append(self, *given, **options)
                raise StorageFailed("there", "planted, after it was stored")
            case 4:
                raise KeyboardInterrupt
            case _:
                return append(self, *given, **options)

    with monkeypatch.context() as patched:
        patched.setattr(TopicHandle, "append", unreliable)
        patched.setattr(time, "sleep", lambda _: None)
        for _ in range(200):
            if program("copy", str(folder), str(tmp_path / "copy")).code == 0:
                break
    with ottla.open(f"file://{tmp_path}/copy") as copy:
        assert content(copy, "t") == content(log, "t")


def test_a_copy_that_was_deleted_is_made_anew(
    program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
) -> None:
    log.append("t", [b"one", b"two"])
    for _ in range(2):
        program("copy", str(folder), backup).done()
        assert target.read("t").values() == [b"one", b"two"]
        target.delete_topic("t")
        assert target.engine.keys("copies") == []


class TestRefused:
    """What is no copy is never made worse."""

    def test_a_topic_with_messages_of_its_own(
        self, program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
    ) -> None:
        log.append("t", [b"x"])
        target.append("t", [b"y"])
        ended = program("copy", str(folder), backup)
        assert ended.code == 1
        assert "has messages that are not from this copy" in ended.err
        assert target.read("t").values() == [b"y"]

    def test_a_copy_that_somebody_else_wrote_to(
        self, program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
    ) -> None:
        log.append("t", [b"one", b"two"])
        program("copy", str(folder), backup, "--from", "2").done()
        target.append("t", [b"stranger"])
        log.append("t", [b"three", b"four"])
        ended = program("copy", str(folder), backup)
        assert ended.code == 1
        assert "somebody else wrote to t/0 in the target" in ended.err
        assert target.read("t").values() == [b"two", b"stranger"]

    def test_a_copy_of_a_topic_that_was_made_again(
        self, program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
    ) -> None:
        log.append("t", [b"one"])
        program("copy", str(folder), backup).done()
        log.delete_topic("t")
        log.append("t", [b"one", b"two"])
        ended = program("copy", str(folder), backup)
        assert ended.code == 1
        assert "is a copy of another topic of that name" in ended.err
        assert target.read("t").values() == [b"one"]

    def test_a_topic_with_more_partitions(
        self, program: "Program", log: ottla.Log, backup: str, target: ottla.Log, folder: Path
    ) -> None:
        log.append("t", [b"one"])
        target.create_topic("t", partitions=2)
        assert "has 2 partitions in the target and 1 at the source" in program("copy", str(folder), backup).err
