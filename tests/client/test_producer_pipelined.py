"""A producer with several appends on their way at once: order and exactly once hold whatever is lost."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Batch
from ottla.client import sender
from ottla.client.producer import Producer
from ottla.clock import SystemClock
from ottla.errors import MessageTooLarge, ServerBusy, ServerUnavailable, StorageFull, Uncertain
from ottla.log.topics import TopicHandle
from ottla.model import Appended, Topic
from ottla.settings import TopicSettings
from ottla.storage import Pipelined, Underway, open_engine
from ottla.storage.memory import MemoryPartition
from ottla.storage.producers import REMEMBERED_BATCHES

Fault = Literal["lost request", "lost reply", "full", "busy", "away"]
FAULTS: list[Fault] = ["lost request", "lost reply", "full", "busy", "away"]
PASSING: list[Fault] = ["lost request", "lost reply", "busy", "away"]


class Appending:
    """An append that was sent: what becomes of it is known when somebody asks."""

    def __init__(self, outcome: Callable[[], list[Appended]]) -> None:
        self._outcome = outcome

    def finish(self) -> list[Appended]:
        return self._outcome()


class Pipeline:
    """A partition behind a network: *faults* happen to its next appends, those after a lost one are lost with it."""

    def __init__(self, store: MemoryPartition) -> None:
        self._store = store
        self.faults: deque[Fault | None] = deque()
        self.most_underway = 0
        self._underway: list[Appending] = []
        self._broken = False

    def start(self, batches: Sequence[Batch]) -> Underway:
        appending = Appending(self._carried_out(list(batches)))
        self._underway.append(appending)
        self.most_underway = max(self.most_underway, len(self._underway))
        return appending

    def _carried_out(self, batches: list[Batch]) -> Callable[[], list[Appended]]:
        """The append as the server sees it, at once; its outcome as the client does, later."""
        fault = self.faults.popleft() if self.faults else None
        try:
            appended = self._append(batches, fault)
        except Exception as error:  # noqa: BLE001  (whatever it is, the client is told)
            return self._ending(error)
        return self._ending(appended)

    def _ending(self, outcome: list[Appended] | Exception) -> Callable[[], list[Appended]]:
        def end() -> list[Appended]:
            self._underway.pop(0)
            if not self._underway:
                self._broken = False
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return end

    def _append(self, batches: list[Batch], fault: Fault | None) -> list[Appended]:
        if self._broken:
            raise Uncertain("an append", "lost with the one before it")
        if fault == "full":
            raise StorageFull("deliveries/0")
        if fault == "busy":
            raise ServerBusy(1, 1, 1)
        if fault == "away":
            raise ServerUnavailable("server", "gone")
        if fault is not None:
            self._broken = True
        appended = [] if fault == "lost request" else self._store.append(batches)
        if fault is not None:
            raise Uncertain("an append", fault)
        return appended

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        fault = self.faults.popleft() if self.faults else None
        self._broken = False
        assert expected_next is None
        try:
            return self._append(list(batches), fault)
        finally:
            self._broken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Served(TopicHandle):
    """A topic whose partition is a pipeline."""

    def __init__(self) -> None:
        engine = open_engine("memory:")
        topic = Topic(name="deliveries", id="0" * 32, created_ms=0, settings=TopicSettings())
        super().__init__(engine, engine.create_topic(topic))
        self.pipeline = Pipeline(engine.partition(topic, 0))  # type: ignore[arg-type]

    def partition(self, index: int) -> Any:
        assert index == 0
        return self.pipeline

    def values(self) -> list[bytes | None]:
        return [value for batch in self.pipeline.read(1, 2**40) for value in batch.columns().values.to_pylist()]


@pytest.fixture(autouse=True)
def small_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One batch each, so that few messages make many."""
    monkeypatch.setattr(sender, "_APPEND_BYTES", 1)


def producer_of(topic: Served, **options: Any) -> Producer:
    options = {"linger_ms": 600_000, "max_batch_bytes": 100, **options}
    return Producer(lambda: topic, clock=SystemClock(), **options)


def messages(count: int) -> list[bytes]:
    return [b"%d" % n * 10 for n in range(count)]


def test_a_pipeline_is_one() -> None:
    assert isinstance(Served().pipeline, Pipelined)


def test_appends_are_sent_while_others_are_on_their_way() -> None:
    """As many as the log remembers, and no more."""
    topic = Served()
    with producer_of(topic) as producer:
        futures = [producer.send(value) for value in messages(100)]
        assert [future.result().number for future in futures] == list(range(1, 101))
    assert topic.pipeline.most_underway == REMEMBERED_BATCHES
    assert topic.values() == messages(100)


def test_without_idempotence_one_goes_after_another() -> None:
    """Nothing would keep those behind a refused one out of the log."""
    topic = Served()
    with producer_of(topic, idempotent=False) as producer:
        for value in messages(50):
            producer.send(value)
    assert topic.pipeline.most_underway == 0
    assert topic.values() == messages(50)


@given(st.lists(st.sampled_from([None, None, None, *PASSING]), max_size=30), st.integers(1, 60))
def test_what_passes_is_repeated_until_everything_is_stored_once(faults: list[Fault | None], count: int) -> None:
    topic = Served()
    topic.pipeline.faults.extend(faults)
    with producer_of(topic, linger_ms=0) as producer:
        futures = [producer.send(value) for value in messages(count)]
        assert [future.result().number for future in futures] == list(range(1, count + 1))
    assert topic.values() == messages(count)


@given(st.lists(st.sampled_from([None, None, *FAULTS]), max_size=20), st.integers(1, 60))
def test_what_is_refused_fails_with_all_behind_it(faults: list[Fault | None], count: int) -> None:
    """What was acknowledged is in the log at its number, what failed is not, and what is there is in order."""
    topic = Served()
    topic.pipeline.faults.extend(faults)
    values = messages(count)
    stored, failed = {}, []
    producer = producer_of(topic, linger_ms=0)
    futures = []
    for value in values:
        try:
            futures.append((value, producer.send(value)))
        except StorageFull:  # of one before it; this one was not taken
            failed.append(value)
    for value, future in futures:
        error = future.exception()
        if error is None:
            stored[value] = future.result().number
        else:
            assert isinstance(error, StorageFull)
            failed.append(value)
    producer.close()
    found = topic.values()
    assert [values.index(value or b"") for value in found] == sorted(values.index(value or b"") for value in found)
    assert {value: number for number, value in enumerate(found, 1)} == stored
    assert not set(failed) & set(found)


def test_a_refusal_in_the_middle_is_told_to_those_it_concerns() -> None:
    topic = Served()
    topic.pipeline.faults.extend([None, None, "full"])
    producer = producer_of(topic, max_batch_bytes=20)
    futures = [producer.send(value) for value in messages(6)]
    errors = [future.exception() for future in futures]
    assert [error is None for error in errors] == [True, True, False, False, False, False]
    assert isinstance(errors[2], StorageFull)
    assert producer.send(b"later").result().number == 3
    producer.close()


def test_a_callback_may_send_and_wait() -> None:
    """The lane is free when callbacks are called."""
    topic = Served()
    numbers: list[int] = []
    done = threading.Event()
    with producer_of(topic, linger_ms=0) as producer:

        def more(_: object) -> None:
            numbers.append(producer.send(b"more").result().number)
            done.set()

        for value in messages(20):
            last = producer.send(value)
        last.add_done_callback(more)
        assert done.wait(60)
    assert numbers == [21]


def test_an_error_before_anything_is_sent_is_an_error_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Served()
    start = topic.pipeline.start

    def refusing(batches: Sequence[Batch]) -> Underway:
        if batches[0].header.sequence == 3:
            raise MessageTooLarge("a request", 2, 1, "max_call_bytes")
        return start(batches)

    monkeypatch.setattr(topic.pipeline, "start", refusing)
    producer = producer_of(topic, max_batch_bytes=20)
    errors = [future.exception() for future in [producer.send(value) for value in messages(6)]]
    assert [error is None for error in errors] == [True, True, True, False, False, False]
    producer.close()
