"""Several engines and processes on one folder: writers, janitors and readers that follow the tail."""

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ottla.errors import TopicRecreated
from ottla.testing.filelog import FileLog
from ottla.testing.samples import Sender, batch_of, messages_of, numbers_of, values_of
from ottla.testing.workers import Workers


def test_two_engines_take_turns(log: FileLog) -> None:
    """Whatever one does, the other one sees and goes on from: appends, rolls, trims, compactions."""
    one, other = log.create(segment_bytes="600B"), log.partition()
    chance = random.Random(1)
    expected: list[bytes] = []
    first = 1
    for n in range(200):
        partition, watcher = chance.sample([one, other], 2)
        match chance.choice(["append"] * 8 + ["trim", "compact"]):
            case "append":
                value = b"%d" % n * chance.choice([1, 50])
                assert partition.append([batch_of(value)])[0].first == len(expected) + 1
                expected.append(value)
            case "trim":
                first = max(first, len(expected) - chance.randrange(20))
                partition.trim(first)
            case "compact":
                partition.compact()
        assert watcher.bounds() == (first, len(expected) + 1)
        assert values_of(watcher, first) == expected[first - 1 :]
    assert list(log.open().verify()) == []


def test_stamps_are_judged_alike_by_all(log: FileLog) -> None:
    """Each engine knows what the other one took, across rolls."""
    engines = [log.create(segment_bytes="300B"), log.partition(), log.partition()]
    for sequence in range(30):
        batch = Sender.number(1).batch(sequence)
        results = [engine.append([batch])[0] for engine in random.Random(sequence).sample(engines, 3)]
        assert [result.duplicate for result in results] == [False, True, True]
        assert {result.first for result in results} == {sequence + 1}


def follow(root: str, until: int) -> list[int]:
    """In a process of its own: read from the start as it grows, and from wherever it was trimmed to."""
    engine = FileLog(Path(root)).open()
    partition = engine.partition(engine.topic("deliveries"), 0)
    seen: list[int] = []
    position = 1
    while position < until:
        engine.wait({partition: position}, 30)
        for batch in partition.read(position, 2000):
            for number in range(max(batch.first_number, position), batch.next_number):
                seen.append(number)
                position = number + 1
    return seen


def write(root: str, times: int) -> int:
    engine = FileLog(Path(root)).open()
    partition = engine.partition(engine.topic("deliveries"), 0)
    for n in range(times):
        partition.append([batch_of(b"%d" % n * 20, b"x")])
    return times * 2


def tidy(root: str, until: int) -> int:
    """Compact, trim and expire until the log is as long as that."""
    engine = FileLog(Path(root)).open()
    partition = engine.partition(engine.topic("deliveries"), 0)
    rounds = 0
    while partition.bounds().next < until:
        partition.compact()
        partition.trim(partition.bounds().next - 100)
        partition.expire(max_bytes=20_000)
        rounds += 1
    return rounds


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return Workers()


def test_readers_follow_through_rolls_compaction_and_retention(log: FileLog, workers: Workers) -> None:
    """What they see never goes back and never comes twice; what they miss was removed before they came to it."""
    log.create(segment_bytes="2KiB", sync="never")
    log.close()
    total = 1200
    with workers:
        module = Path(__file__).stem
        janitor = workers.start(f"{module}:tidy", root=str(log.root), until=total + 1)
        readers = [workers.start(f"{module}:follow", root=str(log.root), until=total + 1) for _ in range(2)]
        writers = [workers.start(f"{module}:write", root=str(log.root), times=total // 4) for _ in range(2)]
        assert sum(writer.result() for writer in writers) == total
        for reader in readers:
            seen = reader.result()
            assert seen == sorted(set(seen))
            assert seen[-1] == total
        assert janitor.result() > 0
    assert list(log.open().verify()) == []


def test_a_topic_deleted_while_it_is_written(log: FileLog) -> None:
    """Every writer is told; nothing of it is left, and a new topic of that name starts at 1."""
    partitions = [log.create(segment_bytes="500B"), log.partition(), log.partition()]
    told = []

    def append_until_told(number: int) -> None:
        try:
            while True:
                partitions[number].append([batch_of(b"x" * 100)])
        except TopicRecreated:
            told.append(number)

    threads = [threading.Thread(target=append_until_told, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    while log.open(read_only=True).partition(log.topic(), 0).bounds().next < 50:
        pass
    log.open().delete_topic("deliveries")
    for thread in threads:
        thread.join()
    assert sorted(told) == [0, 1, 2]
    assert not list((log.root / "topics").glob("*/*"))
    assert log.create().append([batch_of(b"new")])[0].first == 1


def test_deleting_a_topic_gives_its_descriptors_back(log: FileLog) -> None:
    """The disk has the space when nobody holds the files open any more, in this process or another."""
    partition, other = log.create(segment_bytes="300B"), log.partition()
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 100)])
    values_of(partition)
    values_of(other)
    log.open().delete_topic("deliveries")
    for each in (partition, other):
        with pytest.raises(TopicRecreated):
            each.bounds()
    assert open_files_below(log.root / "topics") == []
    assert open_files_below(log.root / "trash") == []


def test_what_compaction_and_retention_removed_is_closed(log: FileLog) -> None:
    """A reader in another process lets go of removed files when it reads on."""
    partition, reader = log.create(segment_bytes="300B"), log.partition()
    for n in range(30):
        partition.append([batch_of(b"%d" % n * 100)])
    values_of(reader)
    partition.compact()
    values_of(reader)
    partition.append([batch_of(b"x")])
    partition.trim(31)
    assert numbers_of(reader) == [31]
    held = open_files_below(log.root / "topics")
    assert [path for path in held if path.endswith("(deleted)")] == []


def open_files_below(folder: Path) -> list[str]:
    links = []
    for fd in Path("/proc/self/fd").iterdir():
        try:
            links.append(str(fd.readlink()))
        except FileNotFoundError:
            continue
    return [link for link in links if link.startswith(f"{folder}/")]


def test_threads_of_two_engines_in_one_process(log: FileLog) -> None:
    """The lock works between engines of the same process too."""
    partitions = [log.create(segment_bytes="2KiB", sync="never"), log.partition()]

    def append(number: int) -> None:
        for n in range(150):
            partitions[number % 2].append([Sender.number(number).batch(n, b"%d:%d" % (number, n))])

    run_all([partial(append, number) for number in range(4)])
    messages = messages_of(log.partition())
    assert [message.number for message in messages] == list(range(1, 601))
    for number in range(4):
        own = [m.value for m in messages if m.value is not None and m.value.startswith(b"%d:" % number)]
        assert own == [b"%d:%d" % (number, n) for n in range(150)]


def run_all(works: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (the test raises it)
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
