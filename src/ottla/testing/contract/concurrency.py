"""Many threads at once: appenders, readers of a growing log, and waiting."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

from ottla.batch import Batch
from ottla.errors import MetadataConflict, TopicExists, UnexpectedNext
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import Sender, batch_of, is_dense, messages_of, new_topic, numbers_of, values_of

LONG_S = 60.0
"""A time that no wait in these tests should take: they end by what they wait for."""


class ConcurrencyContract(Contract):
    """Safe from many threads; readers see a prefix; waiting ends when it should."""

    def test_concurrent_appenders_get_dense_numbers(self, partition: PartitionStore) -> None:
        """Every thread's batches are whole, in its own order, at the numbers that it was told."""
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda writer: _append_many(partition, writer, 25), range(8)))
        messages = messages_of(partition)
        assert [message.number for message in messages] == list(range(1, 8 * 25 * 3 + 1))
        for writer, numbers in enumerate(told):
            own = [message for message in messages if message.value and message.value.startswith(b"%d:" % writer)]
            assert [message.value for message in own] == [
                b"%d:%d:%d" % (writer, n, i) for n in range(25) for i in range(3)
            ]
            assert [message.number for message in own[::3]] == numbers

    def test_concurrent_appenders_through_several_engines(self, shared_storage: Storage) -> None:
        """So it is when each thread has an engine of its own on the same storage."""
        new_topic(shared_storage.open())
        engines = [shared_storage.open() for _ in range(4)]
        partitions = [engine.partition(engine.topic("deliveries"), 0) for engine in engines]
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(lambda writer: _append_many(partitions[writer], writer, 25), range(4)))
        assert sorted(number for numbers in told for number in numbers) == list(range(1, 301, 3))
        for partition in partitions:
            assert numbers_of(partition) == list(range(1, 301))

    def test_concurrent_retries_are_stored_once(self, partition: PartitionStore) -> None:
        """The same stamped batches from many threads at once are in the log once, at the same numbers."""
        batches = [Sender.number(n).batch(0, b"%d" % n) for n in range(20)]
        with ThreadPoolExecutor(6) as pool:
            told = list(pool.map(lambda _: [partition.append([batch])[0].first for batch in batches], range(6)))
        assert all(numbers == told[0] for numbers in told)
        assert partition.bounds() == (1, 21)

    def test_compare_and_append_has_one_winner(self, partition: PartitionStore) -> None:
        """Of many that expect the same number, one gets it and the others are told."""
        with ThreadPoolExecutor(8) as pool:
            for expected in range(1, 11):
                claims = [b"%d" % n for n in range(8)]
                won = list(pool.map(lambda claim, number=expected: _claim(partition, number, claim), claims))
                assert sum(won) == 1
                assert values_of(partition, expected) == [claims[won.index(True)]]

    def test_readers_see_a_growing_prefix(self, engine: Engine) -> None:
        """While others append, every read is dense from where it started, and nothing changes once seen."""
        partition = engine.partition(new_topic(engine, segment_bytes="4KiB", sync="never"), 0)
        with (
            _running(lambda: [_append_many(partition, 0, 10), _append_many(partition, 1, 10)]),
            ThreadPoolExecutor(2) as pool,
        ):
            seen = list(pool.map(lambda max_bytes: _follow(partition, 60, max_bytes), (1, 2000)))
        final = [(message.number, message.value) for message in messages_of(partition)]
        for follower in seen:
            assert is_dense(number for number, _ in follower)
            assert follower == final[: len(follower)]

    def test_bounds_never_go_back(self, engine: Engine) -> None:
        """While others append and trim, first and next only rise, and first never passes next."""
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB", sync="never"), 0)

        def churn() -> None:
            for n in range(60):
                partition.append([batch_of(b"x" * 50, b"y" * 50)])
                if n % 3 == 0:
                    partition.trim(n)

        last = partition.bounds()
        with _running(churn):
            while last.next < 121:
                bounds = partition.bounds()
                assert last.first <= bounds.first <= bounds.next
                assert last.next <= bounds.next
                last = bounds

    def test_a_reader_beside_a_trimmer(self, engine: Engine) -> None:
        """A reader whose segments are removed under it gets later batches, never wrong ones and no error."""
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB", sync="never"), 0)
        for n in range(1, 201):
            partition.append([batch_of(b"%d" % n * 20)])
        with _running(lambda: [partition.trim(before) for before in range(1, 202)]):
            while batches := partition.read(1, 2000):
                numbers = [batch.first_number for batch in batches]
                assert is_dense(numbers)
                assert all(_value(batch) == b"%d" % batch.first_number * 20 for batch in batches)
        assert partition.bounds() == (201, 201)

    def test_one_creator_wins(self, engine: Engine) -> None:
        """Of many that create the same topic, one does and the others are told; all use the same topic."""
        for name in ("a", "b", "c"):
            with ThreadPoolExecutor(6) as pool:
                created = list(pool.map(lambda _, name=name: _try_create(engine, name), range(6)))
            assert sum(created) == 1

    def test_concurrent_alterations_lose_none(self, engine: Engine) -> None:
        """Four threads add a partition each, five times, repeating on a conflict."""
        new_topic(engine)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: _add_partitions(engine, 5), range(4)))
        assert engine.topic("deliveries").settings.partitions == 21

    def test_waiting_for_what_is_there(self, engine: Engine, partition: PartitionStore) -> None:
        """When there is something to read at or above the number, a wait is over at once."""
        partition.append([batch_of(b"a", b"b")])
        assert engine.wait({partition: 1}, LONG_S)
        assert engine.wait({partition: 2}, LONG_S)

    def test_waiting_times_out(self, engine: Engine, partition: PartitionStore) -> None:
        """When nothing comes, the answer is False."""
        assert not engine.wait({partition: 1}, 0.01)
        partition.append([batch_of(b"a")])
        assert not engine.wait({partition: 2}, 0)

    def test_an_append_ends_the_wait(self, engine: Engine, partition: PartitionStore) -> None:
        """A reader at the tail is woken by an append from another thread."""
        with _waiting(lambda: engine.wait({partition: 1}, LONG_S)):
            partition.append([batch_of(b"a")])

    def test_an_append_to_any_partition_ends_the_wait(self, engine: Engine) -> None:
        """One wait watches many partitions."""
        topic = new_topic(engine, partitions=5)
        partitions = [engine.partition(topic, index) for index in range(5)]
        with _waiting(lambda: engine.wait(dict.fromkeys(partitions, 1), LONG_S)):
            partitions[3].append([batch_of(b"a")])

    def test_an_append_below_the_number_does_not(self, engine: Engine, partition: PartitionStore) -> None:
        """A wait for number 3 sleeps through 1 and 2."""
        with _waiting(lambda: engine.wait({partition: 3}, LONG_S) and partition.bounds().next):
            partition.append([batch_of(b"a")])
            partition.append([batch_of(b"b")])
            assert not engine.wait({partition: 3}, 0.02)
            partition.append([batch_of(b"c")])

    def test_an_append_through_another_engine_ends_the_wait(self, shared_storage: Storage) -> None:
        """A reader is woken by whoever appends to the same storage."""
        one, other = shared_storage.open(), shared_storage.open()
        topic = new_topic(one)
        partition = one.partition(topic, 0)
        with _waiting(lambda: one.wait({partition: 1}, LONG_S)):
            other.partition(topic, 0).append([batch_of(b"a")])

    def test_deleting_the_topic_ends_the_wait(self, engine: Engine, partition: PartitionStore) -> None:
        """A reader of a deleted topic is woken, and its next read says why."""
        with _waiting(lambda: engine.wait({partition: 1}, LONG_S)):
            engine.delete_topic("deliveries")

    def test_closing_the_engine_ends_the_wait(self, engine: Engine, partition: PartitionStore) -> None:
        """Nobody waits on a closed engine."""
        with _waiting(lambda: engine.wait({partition: 1}, LONG_S)):
            engine.close()

    def test_waiters_do_not_hold_up_appenders(self, engine: Engine, partition: PartitionStore) -> None:
        """Many waiting readers at once, and appends go through."""
        with ThreadPoolExecutor(10) as pool:
            waits = [pool.submit(engine.wait, {partition: 20}, LONG_S) for _ in range(10)]
            for _ in range(20):
                partition.append([batch_of(b"x")])
            assert all(wait.result() for wait in waits)


def _append_many(partition: PartitionStore, writer: int, times: int) -> list[int]:
    """Append batches of three that say who wrote them; returns their first numbers."""
    return [
        partition.append([batch_of(*(b"%d:%d:%d" % (writer, n, i) for i in range(3)))])[0].first for n in range(times)
    ]


def _follow(partition: PartitionStore, until: int, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """Read from 1 until as many messages were seen, as they come."""
    seen: list[tuple[int, bytes | None]] = []
    while len(seen) < until:
        for batch in partition.read(len(seen) + 1, max_bytes):
            values = batch.columns().values.to_pylist()
            seen += list(enumerate(values, batch.first_number))
    return seen


def _claim(partition: PartitionStore, number: int, value: bytes) -> bool:
    try:
        partition.append([batch_of(value)], expected_next=number)
    except UnexpectedNext:
        return False
    return True


def _try_create(engine: Engine, name: str) -> bool:
    try:
        new_topic(engine, name)
    except TopicExists:
        return False
    return True


def _add_partitions(engine: Engine, times: int) -> None:
    done = 0
    while done < times:
        topic = engine.topic("deliveries")
        settings = topic.settings.changed(partitions=topic.settings.partitions + 1)
        try:
            engine.alter_topic(replace(topic, settings=settings))
        except MetadataConflict:
            continue
        done += 1


def _value(batch: Batch) -> object:
    return batch.columns().values[0].as_py()


@contextmanager
def _running(work: Callable[[], object]) -> Iterator[None]:
    """Do *work* in a thread beside the block; what it raises is raised at the end."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield
        future.result(LONG_S)


@contextmanager
def _waiting(wait: Callable[[], object]) -> Iterator[None]:
    """Run the block while a thread waits (most likely already); the wait must then end, and say True."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(wait)
        time.sleep(0.02)
        yield
        assert future.result(LONG_S)
