"""One flipped bit, anywhere: never wrong data, never a crash, and what is damaged is named and never cut."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.batch import Batch, Messages, columns_of_lists
from ottla.clock import ManualClock
from ottla.errors import CorruptLog, OttlaError
from ottla.model import Message
from ottla.storage.file.partition import FilePartition
from ottla.testing.filelog import FileLog, flip
from ottla.testing.samples import Sender, batch_of, messages_of

FLIPS = 60
"""Positions to try in each file: all of a small one, and a sample of a larger one that is the same in every run."""


@pytest.fixture
def whole(quick_log: FileLog, clock: ManualClock) -> FileLog:
    """A log with a run, a sealed segment with its index and producers, and an active segment."""
    log = quick_log
    partition = log.create(segment_bytes="1KiB", partitions=1)
    for n in range(24):
        keys, headers = [b"k%d" % n, None], [(("h", b"%d" % n),), ()]
        columns = columns_of_lists([b"value %d" % n * 5, None], keys, headers, [n, n + 1])
        partition.append([Batch.pack(columns), Sender.number(1).batch(n, b"%d" % n * 30)])
        clock.advance(10)
        if n == 14:
            partition.compact()
    log.open().store("groups/billing", b"position", 0)
    log.close()
    assert len(log.files(".parquet")) == 1
    assert len(log.files(".log")) >= 3
    return log


@pytest.fixture
def messages(whole: FileLog) -> list[Message]:
    found = messages_of(whole.partition())
    whole.close()
    return found


def positions(path: Path) -> Iterator[int]:
    size = path.stat().st_size
    yield from range(size) if size <= FLIPS else sorted(random.Random(size).sample(range(size), FLIPS))


def readable(partition: FilePartition, messages: list[Message]) -> tuple[list[Message], list[CorruptLog]]:
    """Everything that can be read, asking for every message by its number; and the damage that was met."""
    found: list[Message] = []
    errors: list[CorruptLog] = []
    number = 1
    while number <= len(messages):
        try:
            batches = partition.read(number, 400)
            found += Messages.of("", 0, batches, number)
            number = batches[-1].next_number
        except CorruptLog as error:
            errors.append(error)
            number += 1
    return found, errors


def check_flipped(log: FileLog, messages: list[Message], path: Path, *, harmless: bool = False) -> None:
    """Read everything: what comes is right, and what does not come is named; a reader has changed nothing."""
    before = log.tree()
    partition = log.partition(read_only=True)
    found, errors = readable(partition, messages)
    assert all(messages[message.number - 1] == message for message in found)
    if harmless:
        assert len(found) == len(messages)
        assert not errors
    else:
        assert {error.path for error in errors} <= {str(path)}
        assert len({message.number for message in found}) == len(found)
        assert bool(errors) == (len(found) < len(messages))
    log.close()
    assert log.tree() == before


def flipped(log: FileLog, path: Path) -> Iterator[int]:
    """Flip one bit of a file after another; whatever is done to the log meanwhile is undone."""
    originals = {each: each.read_bytes() for each in log.root.rglob("*") if each.is_file()}
    for position in positions(path):
        flip(path, position, 1 << position % 8)
        yield position
        log.close()
        restore(log, originals)


def restore(log: FileLog, originals: dict[Path, bytes]) -> None:
    """In place: the log stays one of this run of the machine."""
    for path in log.root.rglob("*"):
        if path.is_file() and path not in originals:
            path.unlink()
    for path, data in originals.items():
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)


@pytest.mark.parametrize("which", [0, 1, -1], ids=["first-kept", "sealed", "active"])
def test_in_a_segment(whole: FileLog, messages: list[Message], which: int) -> None:
    """What the batch held cannot be read, all others can; an append adds behind it or is refused, and cuts nothing."""
    path = whole.files(".log")[which]
    for position in flipped(whole, path):
        check_flipped(whole, messages, path)
        (damage,) = whole.open(read_only=True).verify()
        assert damage.path == str(path), position
        assert damage.position <= position
        assert damage.lost is not None
        before = path.read_bytes()
        try:
            (appended,) = whole.partition().append([batch_of(b"next")])
            assert appended.first == len(messages) + 1
        except CorruptLog as error:
            assert error.path == str(path)  # noqa: PT017  (an appender need not meet it)
        assert path.read_bytes().startswith(before)


def test_in_a_run(whole: FileLog, messages: list[Message]) -> None:
    """A run says what is wrong with it; whatever else it is, it is not read."""
    path = whole.files(".parquet")[0]
    for position in flipped(whole, path):
        check_flipped(whole, messages, path)
        (damage,) = whole.open(read_only=True).verify()
        assert damage.path == str(path), position
        assert damage.lost is not None


def test_in_an_index_is_harmless(whole: FileLog, messages: list[Message]) -> None:
    path = whole.files(".index")[0]
    for position in flipped(whole, path):
        check_flipped(whole, messages, path, harmless=True)
        assert whole.partition().find(0) == 1, position
        assert list(whole.open(read_only=True).verify()) == []


def test_in_the_producers_table(whole: FileLog, messages: list[Message]) -> None:
    """Nobody's retry is judged by a damaged table: appends are refused until it is repaired; reading goes on."""
    path = whole.files(".producers")[-1]
    for position in flipped(whole, path):
        check_flipped(whole, messages, path, harmless=True)
        with pytest.raises(CorruptLog) as refused:
            whole.partition().append([batch_of(b"x")])
        assert refused.value.path == str(path)
        assert [each.path for each in whole.open(read_only=True).verify()] == [str(path)], position


@pytest.mark.parametrize("slot", [0, 1])
def test_in_one_slot_of_control(whole: FileLog, messages: list[Message], slot: int) -> None:
    """The other slot is enough to find what was acknowledged: nothing is lost, and the next append goes on."""
    path = whole.folder() / "control"
    originals = {each: each.read_bytes() for each in whole.root.rglob("*") if each.is_file()}
    for position in range(0, 104, 3):
        flip(path, 512 * slot + position, 1 << position % 8)
        assert len(list(whole.open(read_only=True).verify())) == 1
        partition = whole.partition()
        assert partition.append([batch_of(b"next")])[0].first == len(messages) + 1
        assert [m.value for m in messages_of(partition)] == [*(m.value for m in messages), b"next"]
        assert list(whole.open(read_only=True).verify()) == []
        whole.close()
        restore(whole, originals)


def test_in_both_slots_of_control(whole: FileLog) -> None:
    """Nothing is guessed at: reading and appending say that it must be repaired, and change nothing."""
    path = whole.folder() / "control"
    flip(path, 20)
    flip(path, 532)
    before = whole.tree()
    partition = whole.partition()
    for attempt in (partition.bounds, lambda: partition.read(1, 1), lambda: partition.append([batch_of(b"x")])):
        with pytest.raises(CorruptLog) as refused:
            attempt()
        assert refused.value.path == str(path)
    damage = list(whole.open(read_only=True).verify())
    assert [(each.path, each.reason) for each in damage] == [(str(path), "neither of its two slots is valid")]
    assert whole.tree() == before


@pytest.mark.parametrize("name", ["topics/deliveries/*/topic.json", "metadata/groups/billing=", "ottla.json"])
def test_in_descriptions(whole: FileLog, name: str) -> None:
    """A topic, metadata and the root itself: refused, or as it was; never another setting, position or engine."""
    (path,) = whole.root.glob(name)
    topic, position = whole.topic(), whole.open(read_only=True).load("groups/billing")
    for _ in flipped(whole, path):
        try:
            engine = whole.open(read_only=True)
            assert engine.topic("deliveries") == topic
            assert engine.load("groups/billing") == position
            damaged = False
        except OttlaError:
            damaged = True
        if damaged and name != "ottla.json":
            assert [each.path for each in whole.open(read_only=True).verify()] == [str(path)]
