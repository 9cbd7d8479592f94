"""Topics and metadata in files: changed in one step, seen by every process, never outside the root."""

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.errors import CorruptLog, InvalidValue, MetadataConflict, TopicExists, UnknownTopic
from ottla.storage.disk.root import Root
from ottla.testing.filelog import FileLog
from ottla.testing.samples import batch_of, new_topic, values_of
from ottla.testing.steps import Steps


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FileLog]:
    log = FileLog(tmp_path / "log")
    yield log
    log.close()


def test_a_change_in_one_engine_is_seen_by_the_others(log: FileLog) -> None:
    one, other = log.open(), log.open()
    topic = new_topic(one, partitions=2)
    assert other.topic("deliveries") == topic
    assert other.topics() == [topic]
    altered = other.alter_topic(replace(topic, settings=replace(topic.settings, partitions=3)))
    assert one.topic("deliveries") == altered
    one.delete_topic("deliveries")
    with pytest.raises(UnknownTopic):
        other.topic("deliveries")
    assert other.topics() == []


def test_looking_a_topic_up_is_one_read_if_nothing_changed(log: FileLog) -> None:
    """It is done before every batch."""
    new_topic(log.open())
    steps = Steps()
    engine = log.open(files=steps)
    engine.topic("deliveries")
    steps.act_at(0, None)
    for _ in range(10):
        engine.topic("deliveries")
    assert {name.split()[0] for name in steps.names} == {"read_at"}
    assert steps.count == 10


def test_a_process_that_died_in_the_middle_of_a_change_misleads_nobody(log: FileLog) -> None:
    """The counter stays odd: until the next change, everybody looks at the files."""
    engine, other = log.open(), log.open()
    topic = new_topic(engine)
    other.topic("deliveries")
    (log.root / "changes").write_bytes((engine.root.changes() + 1).to_bytes(8, "little"))
    shutil.move(engine.catalog.folder(topic), log.root / "trash")
    for each in (engine, other):
        with pytest.raises(UnknownTopic):
            each.topic("deliveries")
    new_topic(engine)
    assert engine.root.changes() % 2 == 0


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", "a/b", "", ".", "a\0b", "x" * 250])
def test_no_name_leads_out_of_the_root(log: FileLog, name: str) -> None:
    engine = log.open()
    outside = log.root.parent / "outside" / "0"
    outside.mkdir(parents=True)
    new_topic(engine)
    topic = engine.topic("deliveries")
    shutil.copy(engine.catalog.folder(topic) / "topic.json", outside / "topic.json")
    with pytest.raises(UnknownTopic):
        engine.topic(name)
    for attempt in (lambda: engine.load(name), lambda: engine.store(name, b"", 0), lambda: engine.keys(name)):
        if name != "a/b":
            with pytest.raises(InvalidValue):
                attempt()


def test_names_may_be_as_long_as_the_rule_says(log: FileLog) -> None:
    name = "n" * 249
    engine = log.open()
    new_topic(engine, name)
    engine.partition(engine.topic(name), 0).append([batch_of(b"x")])
    engine.store(f"{name}/{name}", b"x", 0)
    assert engine.load(f"{name}/{name}") == (b"x", 1)
    assert engine.keys(name) == [f"{name}/{name}"]
    engine.delete_topic(name)


def test_many_deletions_at_once(log: FileLog) -> None:
    """Emptying the trash of one does not pull it away under another."""
    engines = [log.open() for _ in range(4)]
    for n in range(40):
        new_topic(engines[0], f"t{n}")
    errors: list[BaseException] = []

    def delete(number: int) -> None:
        try:
            for n in range(number, 40, 4):
                engines[number].delete_topic(f"t{n}")
        except BaseException as error:  # noqa: BLE001  (the test shows it)
            errors.append(error)

    threads = [threading.Thread(target=delete, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert log.open().topics() == []
    assert list((log.root / "trash").iterdir()) == []


def test_creating_at_once_succeeds_once(log: FileLog) -> None:
    engines = [log.open() for _ in range(6)]
    created: list[str] = []

    def create(number: int) -> None:
        with contextlib.suppress(TopicExists):
            created.append(new_topic(engines[number]).id)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert created == [log.topic().id]


def test_unknown_names_are_not_remembered(log: FileLog) -> None:
    """Whoever asks for a million names that are not there costs no memory."""
    engine = log.open()
    for n in range(100):
        with pytest.raises(UnknownTopic):
            engine.topic(f"t{n}")
    assert engine.catalog._one == {}


def test_a_topic_is_readable_json_with_a_checksum(log: FileLog) -> None:
    topic = new_topic(log.open(), retention="7d", partitions=3)
    (path,) = log.root.glob("topics/deliveries/*/topic.json")
    content = json.loads(path.read_text())
    assert content["settings"]["retention_ms"] == 7 * 86_400_000
    assert content["id"] == topic.id
    path.write_text(path.read_text().replace('"partitions": 3', '"partitions": 4'))
    with pytest.raises(CorruptLog, match="checksum"):
        log.open().topic("deliveries")


class TestMetadata:
    def test_versions_count_up_and_conflicts_are_told(self, log: FileLog) -> None:
        one, other = log.open(), log.open()
        assert one.store("groups/a", b"1", 0) == 1
        assert other.store("groups/a", b"2", 1) == 2
        with pytest.raises(MetadataConflict):
            one.store("groups/a", b"3", 1)
        assert one.load("groups/a") == (b"2", 2)

    @pytest.mark.parametrize("stored", [b"", b"x", b"ottla-metadata 1 1", b"ottla-metadata 1 x y\nz", b"\xff\n"])
    def test_anything_else_is_damage(self, log: FileLog, stored: bytes) -> None:
        engine = log.open()
        engine.store("a", b"1", 0)
        (log.root / "metadata" / "a=").write_bytes(stored)
        with pytest.raises(CorruptLog):
            engine.load("a")

    def test_the_version_is_covered_by_the_checksum(self, log: FileLog) -> None:
        engine = log.open()
        engine.store("a", b"1", 0)
        path = log.root / "metadata" / "a="
        path.write_bytes(path.read_bytes().replace(b"metadata 1 1 ", b"metadata 1 9 "))
        with pytest.raises(CorruptLog):
            engine.load("a")

    def test_unfinished_files_are_no_keys(self, log: FileLog) -> None:
        engine = log.open()
        engine.store("groups/a", b"1", 0)
        (log.root / "metadata" / "groups" / "~0123").touch()
        assert engine.keys("groups") == ["groups/a"]


def test_the_root_is_gone(log: FileLog) -> None:
    """Somebody removed the folder under a running program: nothing is acknowledged into nowhere."""
    partition = log.create()
    partition.append([batch_of(b"a")])
    shutil.rmtree(log.root)
    with pytest.raises(CorruptLog, match="removed while the log was open"):
        partition.append([batch_of(b"b")])


def test_the_root_is_opened_again_by_every_engine(log: FileLog) -> None:
    """There is nothing about a log that only the engine that made it knows."""
    log.create().append([batch_of(b"a")])
    assert isinstance(log.open().root, Root)
    assert values_of(log.partition()) == [b"a"]
