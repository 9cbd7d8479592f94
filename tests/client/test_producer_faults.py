"""The producer when storage fails: exactly once, in order, bounded, and never silent (row W5)."""

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Batch, Messages
from ottla.client.parcel import Parcel
from ottla.client.producer import Producer
from ottla.client.sender import Sender
from ottla.clock import ManualClock
from ottla.errors import (
    InvalidValue,
    MessageTooLarge,
    ProducerFenced,
    SendTimeout,
    StorageFailed,
    StorageFull,
    Uncertain,
    UnknownProducer,
)
from ottla.log.topics import TopicHandle
from ottla.model import Appended, LandedRange, Topic
from ottla.settings import TopicSettings
from ottla.storage import open_engine
from ottla.storage.memory import MemoryPartition
from ottla.storage.producers import Producers

if TYPE_CHECKING:
    from ottla.client.futures import SendFuture, SendManyFuture

LONG_MS = 600_000
"""A linger that no test waits for."""
FULL = StorageFull("deliveries/0")


class Faulty(TopicHandle):
    """A topic whose next appends go wrong in the ways that `faults` lists; those after them go well.

    `lost request`: nothing is stored; `lost reply`: all is stored; both raise `Uncertain`. An error is raised
    with nothing stored. `None` goes well. While `gate` is clear, appends wait.
    """

    def __init__(self, engine: Any, topic: Topic) -> None:
        super().__init__(engine, topic)
        self.faults: deque[str | BaseException | None] = deque()
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.attempts: list[list[Batch]] = []

    def append(self, partition: int, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        self.arrived.set()
        assert self.gate.wait(60)
        self.attempts.append(list(batches))
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, BaseException):
            raise fault
        if fault != "lost request":
            appended = super().append(partition, batches, expected_next=expected_next)
        if fault is not None:
            raise Uncertain("the append", fault)
        return appended

    def values(self, partition: int = 0) -> list[bytes | None]:
        return Messages.of(self.name, partition, self.read(partition, 1, 2**40), 1).values()

    def sequences(self, partition: int = 0) -> list[tuple[int, int]]:
        """Epoch and sequence of each stored batch."""
        return [(batch.header.producer_epoch, batch.header.sequence) for batch in self.read(partition, 1, 2**40)]


def new_topic(**settings: Any) -> Faulty:
    engine = open_engine("memory:", clock=ManualClock())
    topic = Topic(name="deliveries", id="0" * 32, created_ms=0, settings=TopicSettings(**settings))
    return Faulty(engine, engine.create_topic(topic))


def producer_of(topic: TopicHandle, **options: Any) -> Producer:
    return Producer(lambda: topic, clock=ManualClock(), **{"linger_ms": LONG_MS, **options})


@pytest.fixture
def topic() -> Faulty:
    return new_topic()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.parcel.FIRST_PAUSE_S", 0.0005)
    monkeypatch.setattr("ottla.client.parcel.LONGEST_PAUSE_S", 0.001)


# Exactly once


@pytest.mark.parametrize("fault", ["lost reply", "lost request"])
def test_an_append_of_unknown_outcome_is_repeated_and_stored_once(topic: Faulty, fault: str) -> None:
    topic.faults += [fault] * 3
    with producer_of(topic) as producer:
        assert producer.send(b"a").result().number == 1
        assert producer.send(b"b").result().number == 2
    assert topic.values() == [b"a", b"b"]
    assert topic.sequences() == [(0, 0), (0, 1)]


@given(
    faults=st.lists(st.sampled_from(["lost reply", "lost request", None, None]), max_size=25),
    sends=st.lists(st.integers(0, 5), max_size=25),
)
def test_whatever_is_lost_on_the_way_every_message_is_stored_once_and_in_order(
    faults: list[str | None], sends: list[int]
) -> None:
    topic = new_topic()
    topic.faults += faults
    sent: list[bytes] = []
    landed: list[tuple[bytes, int]] = []
    with producer_of(topic, linger_ms=0, max_batch_bytes=200) as producer:
        for count in sends:
            some = [b"%d" % (len(sent) + index) for index in range(count)]
            if count > 2:
                ranges = producer.send_many(some).result()
                landed += zip(some, [n for landed in ranges for n in landed.numbers], strict=True)
            else:
                futures = [producer.send(value) for value in some]
                landed += [(value, future.result().number) for value, future in zip(some, futures, strict=True)]
            sent += some
    assert topic.values() == sent
    assert landed == [(value, number) for number, value in enumerate(sent, 1)]


def test_an_outcome_that_stays_unknown_reaches_the_future_and_sending_goes_on(topic: Faulty) -> None:
    """A new epoch makes sure that the lost batch cannot be taken for a later one, nor arrive after it."""
    topic.faults += ["lost request"] * 1000
    with producer_of(topic, send_timeout=0.05) as producer:
        with pytest.raises(Uncertain, match="not known whether"):
            producer.send(b"lost").result()
        lost = topic.attempts[0]
        topic.faults.clear()
        assert producer.send(b"a").result().number == 1
        assert producer.send(b"b").result().number == 2
    assert topic.values() == [b"a", b"b"]
    assert topic.sequences() == [(1, 0), (1, 1)]
    with pytest.raises(ProducerFenced):
        topic.append(0, lost)


def test_an_error_after_an_unknown_outcome_does_not_make_it_known(topic: Faulty) -> None:
    """The first attempt may be in the log, so a full disk at the second is no reason to give up."""
    topic.faults += ["lost reply", StorageFull("deliveries/0"), StorageFailed("deliveries/0", "EIO")]
    with producer_of(topic) as producer:
        assert producer.send(b"a").result().number == 1
    assert topic.values() == [b"a"]


def test_an_interrupt_in_the_waiting_thread_loses_nothing(topic: Faulty) -> None:
    topic.faults.append(KeyboardInterrupt())
    with producer_of(topic) as producer:
        future = producer.send(b"a")
        with pytest.raises(KeyboardInterrupt):
            future.result()
        assert future.result().number == 1
    assert topic.values() == [b"a"]


def test_without_idempotence_nothing_is_repeated(topic: Faulty) -> None:
    topic.faults.append("lost reply")
    with producer_of(topic, idempotent=False) as producer:
        with pytest.raises(Uncertain):
            producer.send(b"a").result()
        assert producer.send(b"b").result().number == 2
    assert not any(batch.header.has_producer for batch in topic.read(0, 1, 2**20))


def test_without_idempotence_an_interrupt_is_told_to_the_future(topic: Faulty) -> None:
    topic.faults.append(KeyboardInterrupt())
    done: list[object] = []
    with producer_of(topic, idempotent=False) as producer:
        future = producer.send(b"a")
        future.add_done_callback(done.append)
        with pytest.raises(KeyboardInterrupt):
            future.result()
        assert done == [future]
        assert isinstance(future.exception(), Uncertain)


def forget_producers(topic: TopicHandle) -> None:
    """What happens to a producer that was quiet while thousands of others sent."""
    partition = topic.partition(0)
    assert isinstance(partition, MemoryPartition)
    partition._producers = Producers()


def test_a_producer_that_the_log_forgot_starts_over(topic: Faulty) -> None:
    with producer_of(topic) as producer:
        producer.send(b"a").result()
        forget_producers(topic)
        assert producer.send(b"b").result().number == 2
        assert producer.send(b"c").result().number == 3
    assert topic.sequences() == [(0, 0), (1, 0), (1, 1)]


def test_a_forgotten_producer_does_not_guess_about_an_unknown_outcome(topic: Faulty) -> None:
    with producer_of(topic) as producer:
        producer.send(b"a").result()
        topic.faults += ["lost reply", UnknownProducer("x", 1)]
        with pytest.raises(UnknownProducer, match="check whether the last batches arrived"):
            producer.send(b"b").result()
        assert producer.send(b"c").result().number == 3
    assert topic.values() == [b"a", b"b", b"c"]


# Failures


@pytest.mark.parametrize("error", [FULL, StorageFailed("deliveries/0", "EIO"), RuntimeError("bug")], ids=repr)
def test_a_failed_append_reaches_the_future_and_the_next_ones_are_stored(topic: Faulty, error: Exception) -> None:
    topic.faults.append(error)
    with producer_of(topic) as producer:
        with pytest.raises(type(error)) as caught:
            producer.send(b"lost").result()
        assert caught.value is error
        assert producer.send(b"a").result().number == 1
        assert producer.send(b"b").result().number == 2
    assert topic.values() == [b"a", b"b"]


def test_sequences_have_no_gap_after_a_failed_append(topic: Faulty) -> None:
    """Nothing of it is in the log, so the log expects its sequence next."""
    with producer_of(topic) as producer:
        producer.send(b"a").result()
        topic.faults.append(FULL)
        assert producer.send(b"lost").exception() is FULL
        producer.send(b"b").result()
    assert topic.sequences() == [(0, 0), (0, 1)]


def test_what_waits_behind_a_failed_batch_fails_too(topic: Faulty) -> None:
    """Order comes first: a later message is never stored where an earlier one of its partition was not."""
    topic.gate.clear()
    topic.faults.append(FULL)
    with producer_of(topic, linger_ms=0) as producer:
        first = producer.send(b"a")
        assert topic.arrived.wait(30)
        behind: list[SendFuture | SendManyFuture] = [
            producer.send(b"b"),
            producer.send_many([b"c"]),
            producer.send(b"d"),
        ]
        topic.gate.set()
        assert first.exception() is FULL
        assert [future.exception() for future in behind] == [FULL] * 3
        assert producer.send(b"e").result().number == 1
    assert topic.values() == [b"e"]


def test_other_partitions_do_not_suffer() -> None:
    topic = new_topic(partitions=2)
    topic.faults.append(FULL)
    with producer_of(topic) as producer:
        lost, kept = producer.send(b"lost", partition=0), producer.send(b"kept", partition=1)
        assert lost.exception() is FULL
        assert kept.result().number == 1
        assert producer.send_many([b"b"], partition=0).result() == [LandedRange("deliveries", 0, range(1, 2))]


NEXT_CALLS: list[Callable[[Producer], object]] = [
    lambda producer: producer.send(b"b"),
    lambda producer: producer.send(b"b", key=b"k"),
    lambda producer: producer.send_many([b"b"]),
    lambda producer: producer.send_many([b"b"], partition=0),
    lambda producer: producer.flush(),
    lambda producer: producer.close(),
]


@pytest.mark.parametrize("call", NEXT_CALLS)
def test_an_error_that_nobody_saw_is_raised_once_by_the_next_call(
    topic: Faulty, call: Callable[[Producer], object]
) -> None:
    topic.faults.append(FULL)
    failed = threading.Event()
    producer = producer_of(topic, linger_ms=0)
    producer.send(b"lost").add_done_callback(lambda _: failed.set())
    assert failed.wait(30)
    with pytest.raises(StorageFull):
        call(producer)
    producer.close()
    assert topic.values() == []


@pytest.mark.parametrize("look", [lambda future: future.result(), lambda future: future.exception()])
def test_an_error_that_somebody_saw_is_not_raised_again(topic: Faulty, look: Callable[[Any], object]) -> None:
    topic.faults += [FULL, StorageFull("deliveries/0")]
    with producer_of(topic) as producer:
        for send in (producer.send, lambda value: producer.send_many([value])):
            try:
                look(send(b"lost"))
            except StorageFull:
                continue
        assert producer.send(b"a").result().number == 1


def test_flush_raises_an_error_that_nobody_saw(topic: Faulty) -> None:
    topic.faults.append(FULL)
    with producer_of(topic) as producer:
        producer.send(b"lost")
        with pytest.raises(StorageFull):
            producer.flush()
        producer.flush()


def test_leaving_the_block_raises_an_error_that_nobody_saw(topic: Faulty) -> None:
    topic.faults.append(FULL)
    with pytest.raises(StorageFull), producer_of(topic) as producer:
        producer.send(b"lost")


def test_an_error_of_the_block_goes_first_and_mentions_the_producers(topic: Faulty) -> None:
    topic.faults.append(FULL)

    def mistaken() -> None:
        with producer_of(topic) as producer:
            producer.send(b"lost")
            raise KeyError("mistake")

    with pytest.raises(KeyError, match="mistake") as caught:
        mistaken()
    assert "no space left" in caught.value.__notes__[0]


# Bounded memory


def test_a_full_buffer_makes_send_wait_and_then_says_so(topic: Faulty) -> None:
    topic.gate.clear()
    with producer_of(topic, linger_ms=0, max_buffer_bytes=2000, send_timeout=0.05) as producer:
        taken = [producer.send(bytes(400)) for _ in range(4)]
        for call in (
            lambda: producer.send(bytes(400)),
            lambda: producer.send(bytes(400), key=b"k"),
            lambda: producer.send_many([bytes(400)]),
        ):
            with pytest.raises(SendTimeout, match=r"stayed full for 0\.05 s \(1,856 of 2,000 bytes\)"):
                call()
        topic.gate.set()
        assert [future.result().number for future in taken] == [1, 2, 3, 4]
        assert producer.send(b"goes on").result().number == 5
    assert len(topic.values()) == 5


def test_send_goes_on_when_there_is_room_again(topic: Faulty) -> None:
    topic.gate.clear()
    with producer_of(topic, linger_ms=0, max_buffer_bytes=2000) as producer:
        for _ in range(4):
            producer.send(bytes(400))
        opener = threading.Timer(0.02, topic.gate.set)
        opener.start()
        assert producer.send(b"waited").result().number == 5
        opener.join()


def test_a_callback_may_send_although_the_buffer_is_full(topic: Faulty) -> None:
    """It runs in the thread that would have to make room."""
    with producer_of(topic, linger_ms=0, max_buffer_bytes=2000) as producer:
        sent = threading.Event()

        def send_more(_: object) -> None:
            for _again in range(10):
                producer.send(bytes(900))
            sent.set()

        producer.send(b"a").add_done_callback(send_more)
        assert sent.wait(30)
    assert len(topic.values()) == 11


def test_a_list_larger_than_the_buffer_goes_through_it_piece_by_piece(topic: Faulty) -> None:
    many = [b"%05d" % number for number in range(5000)]
    with producer_of(topic, max_buffer_bytes=4096) as producer:
        assert producer.send_many(many).result() == [LandedRange("deliveries", 0, range(1, 5001))]
        for value in many:
            producer.send(value)
            assert producer._outbox.buffered <= 4096
    assert topic.values() == many * 2
    assert max(sum(batch.size for batch in batches) for batches in topic.attempts) < 3 * 4096


def test_a_list_that_gets_stuck_halfway_says_how_far_it_came(topic: Faulty) -> None:
    topic.gate.clear()
    with producer_of(topic, linger_ms=0, max_batch_bytes=1024, max_buffer_bytes=4096, send_timeout=0.05) as producer:
        future = producer.send_many([bytes(500)] * 100)
        topic.gate.set()
        assert isinstance(future.exception(), SendTimeout)
        (landed,) = future.landed()
        assert landed.numbers == range(1, len(topic.values()) + 1)
        assert 0 < len(landed.numbers) <= 8
        producer.flush()


def test_a_stuck_list_that_nobody_looked_at_is_told_by_the_next_call(topic: Faulty) -> None:
    topic.gate.clear()
    with producer_of(topic, linger_ms=0, max_batch_bytes=1024, max_buffer_bytes=4096, send_timeout=0.05) as producer:
        producer.send_many([bytes(500)] * 100)
        topic.gate.set()
        with pytest.raises(SendTimeout):
            producer.send(b"next")


def test_a_message_larger_than_the_buffer_is_refused(topic: Faulty) -> None:
    with producer_of(topic, max_buffer_bytes=2000) as producer:
        for call in (lambda: producer.send(bytes(2000)), lambda: producer.send_many([bytes(2000)])):
            with pytest.raises(MessageTooLarge, match=r"over the limit of 2,000.*max_buffer_bytes"):
                call()


def test_room_is_given_back_by_failures_too(topic: Faulty) -> None:
    with producer_of(topic, max_buffer_bytes=2000) as producer:
        for _ in range(20):
            topic.faults.append(FULL)
            assert producer.send(bytes(1500)).exception() is FULL
        assert producer._outbox.buffered == 0


def test_flush_keeps_its_timeout_and_may_be_repeated(topic: Faulty) -> None:
    topic.gate.clear()
    with producer_of(topic) as producer:
        future = producer.send(b"a")
        with pytest.raises(TimeoutError, match="may still be"):
            producer.flush(timeout=0.02)
        with pytest.raises(TimeoutError):
            future.result(timeout=0.02)
        assert not future.done()
        topic.gate.set()
        producer.flush()
        assert future.done()


# Names


def test_a_newer_producer_of_the_same_name_fences_the_older(topic: Faulty) -> None:
    older = producer_of(topic, name="billing")
    older.send(b"a").result()
    with producer_of(topic, name="billing") as newer:
        newer.send(b"b").result()
        waiting = older.send(b"c")
        with pytest.raises(ProducerFenced, match="epoch 1 took over"):
            waiting.result()
        for _ in range(2):
            with pytest.raises(ProducerFenced):
                older.send(b"d")
        newer.send(b"e").result()
    older.close()
    assert topic.values() == [b"a", b"b", b"e"]
    assert topic.sequences() == [(0, 0), (1, 0), (1, 1)]


def test_a_fenced_producer_fails_in_all_partitions_at_once() -> None:
    topic = new_topic(partitions=2)
    older = producer_of(topic, name="billing")
    with producer_of(topic, name="billing") as newer:
        newer.send(b"a", partition=0).result()
        futures = [older.send(b"b", partition=0), older.send(b"c", partition=1)]
        assert [type(future.exception()) for future in futures] == [ProducerFenced] * 2
    older.close()
    assert topic.values(1) == []


def test_opening_a_named_producer_takes_over_before_it_sends(topic: Faulty) -> None:
    """So an older one that needs a new epoch finds out, even if the newer one has sent nothing."""
    older = producer_of(topic, name="billing", send_timeout=0.05)
    newer = producer_of(topic, name="billing")
    topic.faults += ["lost request"] * 1000
    assert isinstance(older.send(b"a").exception(), Uncertain)
    topic.faults.clear()
    assert isinstance(older.send(b"b").exception(), ProducerFenced)
    older.close()
    newer.close()
    assert topic.values() == []


def test_a_named_producer_goes_on_after_a_lost_outcome(topic: Faulty) -> None:
    topic.faults += ["lost request"] * 1000
    with producer_of(topic, name="billing", send_timeout=0.05) as producer:
        assert isinstance(producer.send(b"lost").exception(), Uncertain)
        topic.faults.clear()
        assert producer.send(b"a").result().number == 1
    assert topic.sequences() == [(1, 0)]


def test_names_are_apart_from_each_other(topic: Faulty) -> None:
    with producer_of(topic, name="billing") as one, producer_of(topic, name="shipping") as other:
        for producer in (one, other, one, other):
            producer.send(b"a").result()
    assert len({batch.header.producer_id for batch in topic.read(0, 1, 2**20)}) == 2


def test_two_openings_at_once_get_different_epochs(topic: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare-and-swap: the one that comes second at the metadata tries again."""
    store = topic.engine.store

    def store_after_another(key: str, data: bytes, version: int) -> int:
        monkeypatch.setattr(topic.engine, "store", store)
        opened.append(producer_of(topic, name="billing"))
        return store(key, data, version)

    opened: list[Producer] = []
    monkeypatch.setattr(topic.engine, "store", store_after_another)
    opened.append(producer_of(topic, name="billing"))
    inner, outer = opened
    outer.send(b"a").result()
    assert isinstance(inner.send(b"b").exception(), ProducerFenced)
    for producer in opened:
        producer.close()


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert {thread for thread in set(threading.enumerate()) - before if thread.is_alive()} == set()


# Odd places


def test_a_callback_may_wait_for_a_message_whose_append_is_being_repeated() -> None:
    """The callback runs in the thread that would repeat it."""
    topic = new_topic(partitions=2)
    landed, called = [], threading.Event()

    def wait_for_the_other(_: "SendFuture") -> None:
        landed.append(repeated.result().number)
        called.set()

    with producer_of(topic) as producer:
        topic.gate.clear()
        topic.faults += ["lost request", None, "lost request", "lost request"]
        repeated = producer.send(b"b", partition=1)
        repeated._pending.lane.hurry()
        producer.send(b"a", partition=0).add_done_callback(wait_for_the_other)
        producer._sender_now().hurry(producer._outbox.lanes[0])
        topic.gate.set()
        assert called.wait(30)
    assert landed == [1]


def test_a_callback_that_exits_does_not_end_sending(topic: Faulty) -> None:
    with producer_of(topic, linger_ms=0) as producer:
        first = producer.send(b"a")
        first.add_done_callback(lambda _: sys.exit())
        stored = threading.Event()
        while not first.done():
            time.sleep(0.001)
        producer.send(b"b").add_done_callback(lambda _: stored.set())
        assert stored.wait(30)
    assert topic.values() == [b"a", b"b"]


def test_closing_again_after_a_timeout_waits_for_what_is_left(topic: Faulty) -> None:
    topic.gate.clear()
    producer = producer_of(topic)
    future = producer.send(b"a")
    with pytest.raises(TimeoutError):
        producer.close(timeout=0)
    topic.gate.set()
    producer.close()
    assert future.done()


def test_stored_messages_are_let_go_while_others_linger_and_futures_are_kept() -> None:
    topic = new_topic(partitions=2)
    with producer_of(topic, max_batch_bytes=1000) as producer:
        producer.send(b"lingers", partition=0)
        futures = [producer.send(bytes(1000), partition=1) for _ in range(50)]
        many = producer.send_many([bytes(1000)] * 50, partition=1)
        many.result()
        assert all(not future._pending.values for future in futures)  # type: ignore[attr-defined]
        assert all(not part.pending.parts for part in many._parts)  # type: ignore[attr-defined]
        assert len(producer._outbox._lingering) == 1
        assert [future.result().number for future in futures] == list(range(1, 51))


@pytest.mark.parametrize("timeout", [-1, "1s", float("nan"), True])
def test_a_timeout_that_is_none_is_refused_with_nothing_changed(topic: Faulty, timeout: Any) -> None:
    with producer_of(topic) as producer:
        future = producer.send(b"a")
        for wait in (producer.flush, producer.close, future.result, producer.send_many([b"b"]).exception):
            with pytest.raises(InvalidValue, match=r"timeout .* is not valid: give seconds, at least 0"):
                wait(timeout)
        assert future.result(10**400).number == 1


def test_an_interrupt_on_the_way_to_an_append_leaves_the_partition_to_others(
    topic: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Sender._attempt

    def interrupted(*_: object) -> None:
        monkeypatch.setattr(Sender, "_attempt", attempt)
        raise KeyboardInterrupt

    monkeypatch.setattr(Sender, "_attempt", interrupted)
    stored = threading.Event()
    with producer_of(topic) as producer:
        future = producer.send(b"a")
        future.add_done_callback(lambda _: stored.set())
        with pytest.raises(KeyboardInterrupt):
            future.result()
        assert stored.wait(30)  # by the background thread
    assert topic.values() == [b"a"]


def test_an_interrupt_after_an_append_repeats_it_and_counts_it_once(
    topic: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = Parcel.settled

    def interrupted(*_: object) -> None:
        monkeypatch.setattr(Parcel, "settled", settled)
        raise KeyboardInterrupt

    monkeypatch.setattr(Parcel, "settled", interrupted)
    with producer_of(topic) as producer:
        future = producer.send(b"a")
        with pytest.raises(KeyboardInterrupt):
            future.result()
        producer.flush()
        assert (future.result().number, producer.send(b"b").result().number) == (1, 2)
        assert producer._outbox.buffered == 0
    assert topic.values() == [b"a", b"b"]
