"""Removed messages are gone for readers at once; their lines go when at least half of the file is theirs."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.clock import ManualClock
from ottla.storage.jsonl import JsonlEngine
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, new_topic, numbers_of, values_of

Open = Callable[..., JsonlEngine]
ALICE = Sender.number(1)
LARGE = b"x" * 10_000


def offsets_in(folder: Path) -> int:
    return len((folder / "deliveries-1.txt").read_bytes().splitlines())


@pytest.fixture
def engine(opened: Open) -> JsonlEngine:
    return opened()


def test_lines_stay_until_half_of_the_file_is_removed(engine: JsonlEngine, folder: Path) -> None:
    partition = engine.partition(new_topic(engine), 0)
    for n in range(20):
        partition.append([ALICE.batch(n, LARGE)])
    assert partition.trim(10) == (10, 21)
    assert numbers_of(partition) == list(range(10, 21))
    assert offsets_in(folder) == 20
    assert partition.trim(12) == (12, 21)
    assert offsets_in(folder) == 9
    assert numbers_of(partition) == list(range(12, 21))
    assert partition.size() == (folder / "deliveries-1.txt").stat().st_size
    assert partition.append([ALICE.batch(19, LARGE)]) == [(20, 1, True)]


def test_a_small_file_is_not_worth_writing_anew(engine: JsonlEngine, folder: Path) -> None:
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"%d" % n) for n in range(20)])
    partition.trim(20)
    assert offsets_in(folder) == 20
    assert numbers_of(partition) == [20]


def test_everything_is_removed(opened: Open, folder: Path) -> None:
    """The file is empty then; numbers and producers go on, and after reopening too."""
    partition = opened().partition(new_topic(opened(), partitions=2), 0)
    partition.append([ALICE.batch(0, b"a", b"b")])
    partition.append([ALICE.batch(1, b"c")])
    assert partition.trim(100) == (4, 4)
    assert offsets_in(folder) == 0
    assert partition.size() == 0
    again = opened().partition(opened().topic("deliveries"), 0)
    assert again.bounds() == (4, 4)
    assert again.append([ALICE.batch(0, b"a", b"b")]) == [(1, 2, True)]
    assert again.append([ALICE.batch(2, b"d")]) == [(4, 1, False)]
    assert partition.append([ALICE.batch(2, b"d")]) == [(4, 1, True)]
    assert values_of(partition) == values_of(again) == [b"d"]
    assert opened().partition(opened().topic("deliveries"), 1).append([batch_of(b"x")])[0].first == 1


def test_partitions_are_removed_apart(engine: JsonlEngine, folder: Path) -> None:
    """Removing from one partition leaves the others of the file as they are, before and after it is rewritten."""
    topic = new_topic(engine, partitions=3, sync="never")
    for n in range(30):
        engine.partition(topic, n % 3).append([batch_of(LARGE, b"%d" % n)])
    engine.partition(topic, 0).trim(21)
    assert offsets_in(folder) == 60
    engine.partition(topic, 1).trim(20)
    assert offsets_in(folder) == 22
    assert numbers_of(engine.partition(topic, 0)) == []
    assert numbers_of(engine.partition(topic, 1)) == [20]
    assert values_of(engine.partition(topic, 2))[1::2] == [b"%d" % n for n in range(2, 30, 3)]
    assert [engine.partition(topic, index).bounds() for index in range(3)] == [(21, 21), (20, 21), (1, 21)]
    assert list(engine.verify()) == []


def test_a_batch_that_is_removed_in_part_stays_whole(engine: JsonlEngine, folder: Path) -> None:
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(LARGE) for _ in range(9)])
    partition.append([batch_of(b"a", b"b", b"c")])
    partition.trim(11)
    assert offsets_in(folder) == 3
    assert values_of(partition) == [b"b", b"c"]
    assert partition.read(1, ALL_BYTES)[0].first_number == 10


def test_other_engines_notice_that_the_file_was_replaced(opened: Open) -> None:
    """Handles, indexes and positions of the old file are not used for the new one."""
    one, other, reader = opened(), opened(), opened(read_only=True)
    topic = new_topic(one, sync="never")
    partitions = [engine.partition(topic, 0) for engine in (one, other, reader)]
    number = 1
    for _ in range(4):
        for n in range(10):
            partitions[n % 2].append([batch_of(LARGE + b"%d" % (number + n))])
        number += 10
        for partition in partitions:
            assert numbers_of(partition) == list(range(number - 10, number))
            assert values_of(partition, number - 3) == [LARGE + b"%d" % n for n in range(number - 3, number)]
        partitions[1].trim(number - 1)
        for partition in partitions:
            assert partition.bounds() == (number - 1, number)
            assert partition.find(0) == number - 1
        partitions[0].trim(number)
        for partition in partitions:
            assert partition.read(1, ALL_BYTES) == []
            assert partition.size() == 0


def test_reading_while_the_file_is_replaced_again_and_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader never sees damage, a gap or another message: it skips ahead to what is kept."""
    monkeypatch.setattr("ottla.storage.jsonl.replacement._WORTH_BYTES", 0)
    writer, reader = opened(), opened()
    topic = new_topic(writer, sync="never")
    partition, followed = writer.partition(topic, 0), reader.partition(topic, 0)
    stop = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def follow() -> None:
        number = 1
        try:
            while not stop.is_set() or number < partition.bounds().next:
                for batch in followed.read(number, 2000):
                    values = batch.columns().values.to_pylist()
                    assert values == [b"%d" % n for n in range(batch.first_number, batch.next_number)]
                    seen.append(batch.first_number)
                    number = batch.next_number
                followed.bounds()
                followed.find(0)
        except BaseException as error:  # noqa: BLE001  (told by the test)
            failures.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(1, 301, 2):
        partition.append([batch_of(b"%d" % n, b"%d" % (n + 1))])
        if n % 10 == 1:
            partition.trim(n - 4)
    stop.set()
    thread.join()
    assert failures == []
    assert seen == sorted(set(seen))
    assert seen[-1] == 299


def test_expiry_drops_whole_batches_by_age_and_size(engine: JsonlEngine, clock: ManualClock) -> None:
    partition = engine.partition(new_topic(engine), 0)
    for _ in range(4):
        partition.append([batch_of(LARGE, LARGE)])
        clock.advance(1000)
    assert partition.expire(older_than_ms=clock.now_ms() - 3000) == (3, 9)
    assert partition.expire(max_bytes=50_000) == (5, 9)
    assert partition.expire(max_bytes=1) == (9, 9)
    assert partition.append([batch_of(b"x")])[0].first == 9


def test_finding_by_time_after_the_file_was_replaced(engine: JsonlEngine, clock: ManualClock) -> None:
    partition = engine.partition(new_topic(engine, sync="never"), 0)
    times = []
    for _ in range(40):
        times.append(clock.now_ms())
        partition.append([batch_of(LARGE)])
        clock.advance(10)
    partition.trim(31)
    for _ in range(5):
        times.append(clock.now_ms())
        partition.append([batch_of(LARGE)])
        clock.advance(10)
    assert [partition.find(time) for time in times] == [31] * 30 + list(range(31, 46))
    assert partition.find(clock.now_ms()) == 46
