"""M5: retention by age and by size, carried out by a thread that comes and goes with the log."""

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.clock import ManualClock, SystemClock
from ottla.errors import StorageFailed
from ottla.log.retention import Culler
from ottla.model import Bounds, Topic
from ottla.storage import Engine, PartitionStore, open_engine
from ottla.testing.samples import batch_of, new_topic, values_of


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(clock: ManualClock) -> Engine:
    return open_engine("memory:", clock=clock)


@pytest.fixture
def culler(engine: Engine, clock: ManualClock) -> Iterator[Culler]:
    culler = Culler(engine, clock)
    yield culler
    culler.stop()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


def culler_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ottla-culler"]


def test_messages_older_than_the_age_go_and_numbers_go_on(engine: Engine, clock: ManualClock, culler: Culler) -> None:
    """M5: a topic's age; M2: numbers go on after removal."""
    partition = engine.partition(new_topic(engine, retention="10s"), 0)
    partition.append([batch_of(b"old")])
    clock.advance(6_000)
    partition.append([batch_of(b"new")])
    culler.cull()
    assert values_of(partition) == [b"old", b"new"]
    clock.advance(5_000)
    culler.cull()
    assert values_of(partition) == [b"new"]
    clock.advance(60_000)
    culler.cull()
    assert partition.bounds() == Bounds(3, 3)
    assert partition.append([batch_of(b"next")])[0].first == 3


def test_every_partition_is_kept_below_the_size(engine: Engine, culler: Culler) -> None:
    batch = batch_of(b"x" * 100)
    topic = new_topic(engine, partitions=2, retention_bytes=3 * batch.size)
    for index in range(2):
        for _ in range(5):
            engine.partition(topic, index).append([batch])
    culler.cull()
    assert [engine.partition(topic, index).bounds() for index in range(2)] == [Bounds(3, 6)] * 2


def test_a_topic_that_keeps_forever_is_never_touched(engine: Engine, clock: ManualClock, culler: Culler) -> None:
    """K1: topics kept potentially for ever."""
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"x")])
    clock.advance(10**12)
    culler.cull()
    assert values_of(partition) == [b"x"]


def test_a_thread_does_it_by_itself_on_the_real_clock() -> None:
    """M5: milliseconds are a retention too."""
    clock = SystemClock()
    engine = open_engine("memory:", clock=clock)
    topic = new_topic(engine, retention="20ms")
    partition = engine.partition(topic, 0)
    partition.append([batch_of(b"x")])
    culler = Culler(engine, clock)
    culler.notice(topic)
    eventually(lambda: partition.bounds().first == 2)
    culler.stop()


def test_the_thread_finds_what_other_processes_created(engine: Engine, clock: ManualClock, culler: Culler) -> None:
    culler.start()
    partition = engine.partition(new_topic(engine, retention="10ms"), 0)
    partition.append([batch_of(b"x")])
    clock.advance(100)
    eventually(lambda: partition.bounds().first == 2)


def test_there_is_no_thread_while_no_topic_needs_one(engine: Engine, culler: Culler) -> None:
    before = len(culler_threads())
    culler.notice(new_topic(engine))
    assert len(culler_threads()) == before
    topic = new_topic(engine, "expiring", retention="7d")
    for _ in range(3):
        culler.notice(topic)
    assert len(culler_threads()) == before + 1


def test_it_stops_with_the_log_and_for_good(engine: Engine, culler: Culler) -> None:
    topic = new_topic(engine, retention="7d")
    before = set(culler_threads())
    culler.notice(topic)
    (thread,) = set(culler_threads()) - before
    assert thread.daemon
    culler.stop()
    assert not thread.is_alive()
    culler.notice(topic)
    culler.start()
    assert set(culler_threads()) == before


def test_the_thread_keeps_no_abandoned_log_alive(engine: Engine, clock: ManualClock) -> None:
    culler = Culler(engine, clock)
    before = set(culler_threads())
    new_topic(engine, retention="10ms")
    culler.start()
    (thread,) = set(culler_threads()) - before
    del culler
    eventually(lambda: not thread.is_alive())


class FailingPartition:
    def expire(self, **_: object) -> Bounds:
        raise StorageFailed("deliveries/0", "the disk is on fire")


class FailingEngine:
    """An engine whose topic `deliveries` cannot expire while `broken`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.broken = True

    def topics(self) -> list[Topic]:
        return self.engine.topics()

    def partition(self, topic: Topic, index: int) -> PartitionStore:
        if self.broken and topic.name == "deliveries":
            return FailingPartition()  # type: ignore[return-value]  # all that a culler uses
        return self.engine.partition(topic, index)


def test_one_topics_error_is_remembered_and_stops_no_other(engine: Engine, clock: ManualClock) -> None:
    failing = FailingEngine(engine)
    topics = [new_topic(engine, name, retention="10ms") for name in ("deliveries", "orders")]
    for topic in topics:
        engine.partition(topic, 0).append([batch_of(b"x")])
    clock.advance(100)
    culler = Culler(failing, clock)  # type: ignore[arg-type]  # all that a culler uses
    errors = culler.cull()
    assert list(errors) == ["deliveries"]
    assert "on fire" in str(errors["deliveries"])
    assert [engine.partition(topic, 0).bounds().first for topic in topics] == [1, 2]
    failing.broken = False
    assert culler.cull() == {}
    assert engine.partition(topics[0], 0).bounds().first == 2


def test_the_thread_says_an_error_once_and_tries_again(
    engine: Engine, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    failing = FailingEngine(engine)
    topic = new_topic(engine, retention="10ms")
    engine.partition(topic, 0).append([batch_of(b"x")])
    clock.advance(100)
    culler = Culler(failing, clock)  # type: ignore[arg-type]  # all that a culler uses
    with caplog.at_level(logging.ERROR, "ottla"):
        for _ in range(3):
            culler.pass_and_pause()
    assert len(caplog.records) == 1
    assert "deliveries" in caplog.text
    failing.broken = False
    culler.pass_and_pause()
    assert culler.errors == {}


def test_a_log_that_cannot_list_its_topics_does_not_end_the_thread(
    engine: Engine, culler: Culler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> list[Topic]:
        raise OSError("the folder cannot be read")

    monkeypatch.setattr(engine, "topics", unreadable)
    assert culler.pass_and_pause() > 0
    assert "cannot be read" in str(culler.errors["*"])


def test_an_engine_that_its_owner_closed_ends_it_quietly(engine: Engine, clock: ManualClock) -> None:
    culler = Culler(engine, clock)
    engine.close()
    culler.pass_and_pause()
    assert not culler.errors
    assert culler._stopped.is_set()


def test_what_ends_the_thread_for_good_is_remembered(culler: Culler, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> float:
        raise SystemError("not a topic's trouble")

    monkeypatch.setattr(culler, "pass_and_pause", broken)
    culler.start()
    assert culler._thread is not None
    culler._thread.join()
    assert isinstance(culler.failure, SystemError)


@pytest.mark.parametrize(("retention", "least", "most"), [("10ms", 0.05, 0.05), ("5s", 0.5, 0.5), ("7d", 1.0, 1.0)])
def test_it_wakes_at_a_tenth_of_the_age_within_limits(
    engine: Engine, culler: Culler, monkeypatch: pytest.MonkeyPatch, retention: str, least: float, most: float
) -> None:
    """M5: about a tenth of the age, at least every second or so."""
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    new_topic(engine, retention=retention)
    assert least <= culler.pass_and_pause() <= most


def test_after_a_fork_the_child_starts_its_own(engine: Engine, culler: Culler) -> None:
    topic = new_topic(engine, retention="7d")
    culler.notice(topic)
    running = len(culler_threads())
    parents, parents_stop = culler._thread, culler._stopped
    culler.forget_thread()  # what a forked child does first
    culler.notice(topic)
    assert len(culler_threads()) == running + 1
    culler.stop()
    assert parents is not None
    parents_stop.set()
    parents.join()
