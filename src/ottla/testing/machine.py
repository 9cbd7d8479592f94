"""A state machine that drives a log through its public API and compares it with plain lists, step by step.

    class MyMachine(LogMachine):
        def url(self, folder):
            return f"mine://{folder}"

    TestMyLog = MyMachine.TestCase

Hypothesis chooses the steps: topics come and go, messages are appended in every way, retried, removed by number and
by age, read from everywhere; the log is closed and opened again and compacted where that is possible.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import ottla
from ottla.clock import ManualClock
from ottla.errors import TopicExists, TopicRecreated, UnexpectedNext, UnknownTopic
from ottla.model import Record
from ottla.storage import Compactable, PartitionStore
from ottla.testing.model_log import ModelMessage, ModelPartition, ModelTopic
from ottla.testing.samples import Sender, batch_of, messages_of

NAMES = ("deliveries", "Deliveries", "x.log")
VALUES = st.one_of(st.none(), st.binary(max_size=8), st.just(b"a large value" * 25))
RECORDS = st.builds(
    Record,
    value=VALUES,
    key=st.none() | st.binary(max_size=8),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
    timestamp_ms=st.integers(-(2**40), 2**43),
)
PICK = st.integers(0, 1_000_000)
"""Which of what there is, whatever the number of them."""


class LogMachine(RuleBasedStateMachine):
    """Override `url`, and `survives_reopen` where the log keeps nothing."""

    survives_reopen = True

    def url(self, folder: Path) -> str:
        """The URL of an empty log; *folder* is empty and goes away by itself."""
        raise NotImplementedError(f"{type(self).__name__} must say which URL it tests: override url()")

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-machine-")
        self._clock = ManualClock()
        self._topics: dict[str, ModelTopic] = {}
        self._stale: list[PartitionStore] = []
        self._log = self._open()

    def _open(self) -> ottla.Log:
        return ottla.open(self.url(Path(self._folder.name) / "log"), clock=self._clock, culler=False)

    def teardown(self) -> None:
        try:
            self.everything_is_as_in_the_model()
        finally:
            self._log.close()
            self._folder.cleanup()

    def _any(self, pick: int) -> tuple[str, int, ModelPartition]:
        """One of the partitions that there are."""
        every = [(name, index) for name, topic in self._topics.items() for index in range(len(topic.partitions))]
        name, index = every[pick % len(every)]
        return name, index, self._topics[name].partitions[index]

    def _store(self, name: str, index: int) -> PartitionStore:
        return self._log.engine.partition(self._log.engine.topic(name), index)

    def _took_at(self, name: str, index: int) -> int:
        """The append time of the newest batch: now, unless the clock was set back since the topic last took one."""
        store = self._store(name, index)
        newest = store.read(store.bounds().next - 1, 1)
        assert newest, "what was just appended cannot be read"
        took_ms = newest[-1].header.append_ms
        model, now_ms = self._topics[name], self._clock.now_ms()
        assert max(now_ms, model.partitions[index].last_ms) <= took_ms <= max(now_ms, model.last_ms)
        return took_ms

    # Topics

    @initialize(partitions=st.integers(1, 2))
    def begin(self, partitions: int) -> None:
        self._create(NAMES[0], partitions, 1024)

    def _create(self, name: str, partitions: int, segment_bytes: int) -> None:
        self._log.create_topic(name, partitions=partitions, segment_bytes=segment_bytes, sync="never")
        self._topics[name] = ModelTopic(partitions)

    @rule(name=st.sampled_from(NAMES), partitions=st.integers(1, 3), segment_bytes=st.sampled_from([1, 1024, 2**20]))
    def create(self, name: str, partitions: int, segment_bytes: int) -> None:
        if name in self._topics:
            with pytest.raises(TopicExists):
                self._log.create_topic(name)
        else:
            self._create(name, partitions, segment_bytes)

    @precondition(lambda self: len(self._topics) > 1)
    @rule(pick=PICK)
    def delete(self, pick: int) -> None:
        name, index, _ = self._any(pick)
        self._stale.append(self._store(name, index))
        self._log.delete_topic(name)
        del self._topics[name]
        with pytest.raises(UnknownTopic):
            self._log.read(name)

    @precondition(lambda self: self._stale)
    @rule(pick=PICK)
    def use_a_stale_handle(self, pick: int) -> None:
        with pytest.raises(TopicRecreated):
            self._stale[pick % len(self._stale)].append([batch_of(b"never to be seen")])

    @precondition(lambda self: self._topics)
    @rule(pick=PICK)
    def add_a_partition(self, pick: int) -> None:
        name, _, _ = self._any(pick)
        topic = self._topics[name]
        if len(topic.partitions) < 4:
            topic.partitions.append(ModelPartition())
            self._log.add_partitions(name, len(topic.partitions))

    # Appending

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, values=st.lists(VALUES, min_size=1, max_size=20))
    def append(self, pick: int, values: list[bytes | None]) -> None:
        name, index, model = self._any(pick)
        landed = self._log.append(name, values, partition=index)
        expected = model.append(values, self._took_at(name, index))
        assert [number for part in landed for number in part.numbers] == expected

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, records=st.lists(RECORDS, min_size=1, max_size=6))
    def append_records(self, pick: int, records: list[Record]) -> None:
        name, index, model = self._any(pick)
        landed = self._log.append(name, records, partition=index)
        expected = model.extend(records, self._took_at(name, index))
        assert [number for part in landed for number in part.numbers] == expected

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, batches=st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=4))
    def append_batches(self, pick: int, batches: list[list[bytes | None]]) -> None:
        """Several batches in one call of the engine."""
        name, index, model = self._any(pick)
        appended = self._store(name, index).append([batch_of(*values) for values in batches])
        expected = [model.append(values, self._took_at(name, index)) for values in batches]
        assert [(each.first, each.count) for each in appended] == [(numbers[0], len(numbers)) for numbers in expected]

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, producer=st.integers(1, 3), values=st.lists(VALUES, min_size=1, max_size=4))
    def append_stamped(self, pick: int, producer: int, values: list[bytes | None]) -> None:
        name, index, model = self._any(pick)
        sequence = len(model.stamped.setdefault(producer, []))
        (appended,) = self._store(name, index).append([Sender.number(producer).batch(sequence, *values)])
        numbers = model.append(values, self._took_at(name, index))
        model.stamped[producer].append((numbers[0], values))
        assert (appended.first, appended.count, appended.duplicate) == (numbers[0], len(values), False)

    @precondition(lambda self: any(part.stamped for topic in self._topics.values() for part in topic.partitions))
    @rule(pick=PICK, back=st.integers(1, 8))
    def retry_stamped(self, pick: int, back: int) -> None:
        """One of the last eight batches of a producer again: nothing happens, and it learns its first numbers."""
        known = [
            (name, index, producer, batches)
            for name, topic in self._topics.items()
            for index, part in enumerate(topic.partitions)
            for producer, batches in part.stamped.items()
        ]
        name, index, producer, batches = known[pick % len(known)]
        sequence = max(0, len(batches) - back)
        first, values = batches[sequence]
        (appended,) = self._store(name, index).append([Sender.number(producer).batch(sequence, *values)])
        assert (appended.first, appended.count, appended.duplicate) == (first, len(values), True)

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, off=st.integers(-3, 3), values=st.lists(VALUES, min_size=1, max_size=3))
    def compare_and_append(self, pick: int, off: int, values: list[bytes | None]) -> None:
        name, index, model = self._any(pick)
        expected = max(1, model.next + off)
        if expected == model.next:
            self._log.append(name, values, partition=index, expected_next=expected)
            model.append(values, self._took_at(name, index))
        else:
            with pytest.raises(UnexpectedNext):
                self._log.append(name, values, partition=index, expected_next=expected)

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, values=st.lists(VALUES, min_size=1, max_size=5))
    def produce(self, pick: int, values: list[bytes | None]) -> None:
        """Through a producer, which batches as it likes."""
        name, index, model = self._any(pick)
        with self._log.producer(name) as producer:
            futures = [producer.send(value, partition=index) for value in values]
            numbers = [future.result().number for future in futures]
        assert numbers == model.append(values, self._took_at(name, index))

    # Reading

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK, most=st.integers(1, 30))
    def read(self, pick: int, at: int, most: int) -> None:
        """From any number, also one below the first or beyond the last."""
        name, index, model = self._any(pick)
        start = 1 + at % (model.next + 1)
        messages = self._log.read(name, index, start, max_messages=most)
        assert list(map(ModelMessage.of, messages)) == model.kept(start)[:most]

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK, max_bytes=st.sampled_from([1, 500, 5000]))
    def read_batches(self, pick: int, at: int, max_bytes: int) -> None:
        """As the engine gives them, call after call."""
        name, index, model = self._any(pick)
        start = 1 + at % (model.next + 1)
        messages = messages_of(self._store(name, index), start, max_bytes)
        assert list(map(ModelMessage.of, messages)) == model.kept(start)

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK, most=st.integers(1, 30))
    def consume(self, pick: int, at: int, most: int) -> None:
        """Through a consumer that starts at a kept number."""
        name, index, model = self._any(pick)
        start = model.first + at % (model.next - model.first + 1)
        with self._log.consumer(name, start=start, partitions=[index]) as consumer:
            messages, position = consumer.poll(timeout=0, max_messages=most)
        assert list(map(ModelMessage.of, messages)) == model.kept(start)[: len(messages)]
        assert bool(messages) == (start < model.next)
        assert position == start + len(messages)

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK)
    def find(self, pick: int, at: int) -> None:
        """By a time at, just before and just after an append."""
        name, index, model = self._any(pick)
        times = [message.append_ms + off for message in model.messages for off in (-1, 0, 1)] or [0]
        time_ms = times[at % len(times)]
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
        assert self._log.find(name, index, time) == model.find(time_ms)

    @invariant()
    def bounds_are_as_in_the_model(self) -> None:
        for name, topic in self._topics.items():
            for index, model in enumerate(topic.partitions):
                assert self._log.bounds(name, index) == (model.first, model.next)

    @rule()
    def everything_is_as_in_the_model(self) -> None:
        assert [topic.name for topic in self._log.topics()] == sorted(self._topics)
        for name, topic in self._topics.items():
            for index, model in enumerate(topic.partitions):
                assert list(map(ModelMessage.of, self._log.read(name, index))) == model.kept(1)

    # Removing

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK)
    def trim(self, pick: int, at: int) -> None:
        name, index, model = self._any(pick)
        before = 1 + at % (model.next + 2)
        model.first = max(model.first, min(before, model.next))
        assert self._log.trim(name, index, before=before) == {index: (model.first, model.next)}

    @precondition(lambda self: self._topics)
    @rule(pick=PICK, at=PICK)
    def expire(self, pick: int, at: int) -> None:
        """Whole segments go: nothing young among them, and all of it if all is old."""
        name, index, model = self._any(pick)
        limit = self._clock.now_ms() + 1 - at % 5000
        bounds = self._store(name, index).expire(older_than_ms=limit)
        assert model.first <= bounds.first <= model.find(limit)
        if model.find(limit) == model.next:
            assert bounds.first == model.next
        model.first = bounds.first

    @rule(milliseconds=st.integers(-1000, 4000))
    def time_goes_by(self, milliseconds: int) -> None:
        """Or is set back."""
        self._clock.advance(milliseconds)

    # Life

    @precondition(lambda self: self.survives_reopen)
    @rule()
    def reopen(self) -> None:
        self._log.close()
        self._log = self._open()
        self._stale.clear()

    @precondition(lambda self: self._topics)
    @rule(pick=PICK)
    def compact(self, pick: int) -> None:
        name, index, _ = self._any(pick)
        if isinstance(self._store(name, index), Compactable):
            self._log.compact(name)
