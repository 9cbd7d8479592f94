"""A log that was opened read-only: everything can be read, and nothing is ever written, created, locked or cut."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.errors import InvalidValue, ReadOnly
from ottla.storage.file import FileEngine
from ottla.storage.file.partition import FilePartition
from ottla.testing.filelog import FileLog
from ottla.testing.samples import Sender, batch_of, new_topic, values_of
from ottla.testing.steps import Steps

CHANGING = ("pwritev", "truncate", "sync", "rename", "link", "unlink", "mkdir")


@pytest.fixture
def filled(log: FileLog) -> FileLog:
    return fill(log)


def fill(log: FileLog) -> FileLog:
    partition = log.create(segment_bytes="500B")
    for n in range(30):
        partition.append([Sender.number(1).batch(n, b"%d" % n * 50)])
        if n == 15:
            partition.compact()
    log.open().store("groups/billing", b"1", 0)
    log.close()
    return log


def look_at_everything(engine: FileEngine) -> list[bytes | None]:
    partition = engine.partition(engine.topic("deliveries"), 0)
    assert partition.bounds() == (1, 31)
    assert partition.find(0) == 1
    assert partition.size() > 0
    assert engine.load("groups/billing") == (b"1", 1)
    assert engine.keys("groups") == ["groups/billing"]
    assert len(engine.topics()) == 1
    assert not engine.wait({partition: 31}, 0.001)
    assert list(engine.verify()) == []
    return values_of(partition)


@pytest.mark.parametrize("restarted", [False, True])
def test_reading_writes_nothing(filled: FileLog, restarted: bool) -> None:
    """Not even after a restart, when an appender would have to recover."""
    if restarted:
        with filled.files(".log")[-1].open("ab") as segment:
            segment.write(b"torn")
        filled.reboot()
    before = filled.tree()
    steps = Steps()
    engine = filled.open(read_only=True, files=steps)
    assert look_at_everything(engine) == [b"%d" % n * 50 for n in range(30)]
    engine.close()
    assert [name for name in steps.names if name.startswith(CHANGING)] == []
    assert filled.tree() == before


def test_everything_that_changes_is_refused(filled: FileLog) -> None:
    before = filled.tree()
    engine = filled.open(read_only=True)
    topic = engine.topic("deliveries")
    partition: FilePartition = engine.partition(topic, 0)
    for attempt in (
        lambda: partition.append([batch_of(b"x")]),
        lambda: partition.trim(5),
        lambda: partition.expire(max_bytes=1),
        partition.compact,
        lambda: new_topic(engine, "other"),
        lambda: engine.alter_topic(topic),
        lambda: engine.delete_topic("deliveries"),
        lambda: engine.store("a", b"", 0),
        lambda: engine.discard("groups/billing"),
        engine.repair,
    ):
        with pytest.raises(ReadOnly):
            attempt()
    filled.close()
    assert filled.tree() == before


def test_nothing_is_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no ottla log"):
        FileLog(tmp_path / "nowhere").open(read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_may_only_be_read(quick_log: FileLog) -> None:
    """By a user who owns nothing of it."""
    fill(quick_log)
    paths = [quick_log.root, *quick_log.root.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    quick_log.root.parent.chmod(0o755)
    try:
        assert as_nobody(lambda: len(look_at_everything(quick_log.open(read_only=True))) == 30)
    finally:
        for path in paths:
            path.chmod(0o700 if path.is_dir() else 0o600)


def as_nobody(work: Callable[[], bool]) -> bool:
    """Whether *work* is true for a user without any rights; root has all of them, so it becomes another."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setegid(65534)
                os.seteuid(65534)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_it_follows_a_writer(filled: FileLog) -> None:
    """What others append, compact and trim is seen as it happens."""
    reader, writer = filled.partition(read_only=True), filled.partition()
    assert len(values_of(reader)) == 30
    for n in range(30, 50):
        writer.append([batch_of(b"%d" % n * 50)])
        assert values_of(reader)[-1] == b"%d" % n * 50
    writer.compact()
    writer.trim(20)
    assert values_of(reader) == [b"%d" % n * 50 for n in range(19, 50)]


def test_it_follows_a_writer_that_recovers(filled: FileLog) -> None:
    filled.reboot()
    reader = filled.partition(read_only=True)
    assert len(values_of(reader)) == 30
    filled.partition().append([batch_of(b"new")])
    assert values_of(reader)[-1] == b"new"
    assert reader.bounds() == (1, 32)


def test_a_root_from_before_its_counter_was_made(filled: FileLog) -> None:
    """Whoever made the log may have been killed before it made that file."""
    (filled.root / "changes").unlink()
    before = filled.tree()
    assert len(look_at_everything(filled.open(read_only=True))) == 30
    assert filled.tree() == before
