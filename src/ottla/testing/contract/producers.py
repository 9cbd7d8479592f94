"""Producers: a retry is recognised, an old epoch is fenced, a gap is refused."""

import pytest

from ottla.clock import ManualClock
from ottla.errors import DuplicateSequence, OutOfSequence, ProducerError, ProducerFenced, UnknownProducer
from ottla.storage import Engine, PartitionStore
from ottla.storage.producers import MAX_PRODUCERS, REMEMBERED_BATCHES
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import Sender, batch_of, new_topic, values_of

ALICE = Sender.number(1)
BOB = Sender.number(2)


class ProducersContract(Contract):
    """Idempotence and fencing."""

    def test_a_retry_gets_the_first_numbers(self, partition: PartitionStore) -> None:
        """The same call again returns what it returned first, says so, and stores nothing."""
        partition.append([batch_of(b"before")])
        batches = [ALICE.batch(0, b"a", b"b"), ALICE.batch(1, b"c")]
        first = partition.append(batches)
        assert partition.append(batches) == [each._replace(duplicate=True) for each in first]
        assert values_of(partition) == [b"before", b"a", b"b", b"c"]

    def test_a_retry_after_others_wrote(self, partition: PartitionStore) -> None:
        """What others append meanwhile does not matter."""
        partition.append([ALICE.batch(0)])
        partition.append([BOB.batch(0), batch_of(b"plain"), BOB.batch(1)])
        assert partition.append([ALICE.batch(0)]) == [(1, 1, True)]
        assert partition.append([ALICE.batch(1)]) == [(5, 1, False)]

    def test_a_retry_with_something_new(self, partition: PartitionStore) -> None:
        """A call of stored and new batches stores the new ones, each with its own numbers."""
        partition.append([ALICE.batch(0, b"a", b"b")])
        assert partition.append([ALICE.batch(0, b"a", b"b"), ALICE.batch(1, b"c")]) == [(1, 2, True), (3, 1, False)]
        assert values_of(partition) == [b"a", b"b", b"c"]

    def test_the_same_batch_twice_in_one_call(self, partition: PartitionStore) -> None:
        """It is stored once, and both get its numbers."""
        assert partition.append([ALICE.batch(0), ALICE.batch(0)]) == [(1, 1, False), (1, 1, True)]
        assert partition.bounds() == (1, 2)

    def test_a_retry_after_reopening(self, lasting_storage: Storage) -> None:
        """What the log knows of producers is as durable as its messages."""
        engine = lasting_storage.open()
        new_topic(engine, segment_bytes="1KiB")
        partition = engine.partition(engine.topic("deliveries"), 0)
        for sequence in range(30):
            partition.append([ALICE.batch(sequence, b"x" * 100)])
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.append([ALICE.batch(29)]) == [(30, 1, True)]
        assert partition.append([ALICE.batch(25)]) == [(26, 1, True)]
        with pytest.raises(OutOfSequence):
            partition.append([ALICE.batch(31)])
        assert partition.append([ALICE.batch(30)]) == [(31, 1, False)]

    def test_a_retry_after_everything_was_removed(self, lasting_storage: Storage) -> None:
        """Removing the messages removes no producer, and neither does opening again."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB"), 0)
        for sequence in range(30):
            partition.append([ALICE.batch(sequence, b"x" * 100)])
        partition.trim(31)
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.append([ALICE.batch(29)]) == [(30, 1, True)]
        assert partition.append([ALICE.batch(30)]) == [(31, 1, False)]

    def test_a_retry_after_trimming(self, partition: PartitionStore) -> None:
        """A message that is gone keeps its number: the retry learns it and stores nothing."""
        partition.append([ALICE.batch(0, b"a", b"b")])
        partition.trim(3)
        assert partition.append([ALICE.batch(0, b"a", b"b")]) == [(1, 2, True)]
        assert partition.bounds() == (3, 3)

    def test_a_retry_after_expiry(self, engine: Engine, clock: ManualClock) -> None:
        """Retention removes messages, not what is known of producers."""
        partition = engine.partition(new_topic(engine, retention="1s"), 0)
        partition.append([ALICE.batch(0)])
        clock.advance(10_000)
        partition.expire(older_than_ms=clock.now_ms())
        assert partition.append([ALICE.batch(0)]) == [(1, 1, True)]
        assert partition.append([ALICE.batch(1)]) == [(2, 1, False)]

    def test_a_retry_after_many_other_producers(self, partition: PartitionStore) -> None:
        """Hundreds of producers in between are no reason to forget."""
        partition.append([ALICE.batch(0)])
        partition.append([Sender.number(n).batch(0) for n in range(100, 600)])
        assert partition.append([ALICE.batch(0)]) == [(1, 1, True)]

    def test_a_forgotten_producer_is_told(self, partition: PartitionStore) -> None:
        """The least recently used producer is forgotten in the end, and then never accepted in silence."""
        partition.append([ALICE.batch(0)])
        partition.append([Sender.number(n).batch(0) for n in range(100, 100 + MAX_PRODUCERS)])
        with pytest.raises(UnknownProducer):
            partition.append([ALICE.batch(1)])

    def test_the_last_batches_are_remembered(self, partition: PartitionStore) -> None:
        """Each of a producer's last 8 batches is recognised with its own numbers."""
        partition.append([ALICE.batch(n, *[b"x"] * (n + 1)) for n in range(REMEMBERED_BATCHES)])
        first = 1
        for n in range(REMEMBERED_BATCHES):
            assert partition.append([ALICE.batch(n, *[b"x"] * (n + 1))]) == [(first, n + 1, True)]
            first += n + 1

    def test_an_older_batch_is_a_duplicate_without_numbers(self, partition: PartitionStore) -> None:
        """Beyond the last 8 the log knows that it has the batch, and says just that."""
        for n in range(REMEMBERED_BATCHES + 2):
            partition.append([ALICE.batch(n)])
        with pytest.raises(DuplicateSequence) as refused:
            partition.append([ALICE.batch(1)])
        assert (refused.value.sequence, refused.value.last) == (1, REMEMBERED_BATCHES + 1)
        assert partition.append([ALICE.batch(2)]) == [(3, 1, True)]

    def test_a_gap_in_the_sequence_is_refused(self, partition: PartitionStore) -> None:
        """A missing batch is noticed before the next one is stored."""
        partition.append([ALICE.batch(0)])
        with pytest.raises(OutOfSequence) as refused:
            partition.append([ALICE.batch(2)])
        assert (refused.value.sequence, refused.value.expected) == (2, 1)
        assert partition.bounds() == (1, 2)

    def test_an_unknown_producer_must_start_at_0(self, partition: PartitionStore) -> None:
        """A producer that says it has sent before, and that the log does not know, is refused."""
        with pytest.raises(UnknownProducer) as refused:
            partition.append([ALICE.batch(3)])
        assert refused.value.sequence == 3
        assert partition.bounds() == (1, 1)

    def test_an_old_epoch_is_fenced(self, partition: PartitionStore) -> None:
        """Once a newer epoch has written, the older one never does, not even a retry."""
        old, new = Sender.number(1, epoch=3), Sender.number(1, epoch=4)
        partition.append([old.batch(0), old.batch(1)])
        partition.append([new.batch(0)])
        for sequence in (1, 2):
            with pytest.raises(ProducerFenced) as refused:
                partition.append([old.batch(sequence)])
            assert (refused.value.epoch, refused.value.current) == (3, 4)
        assert partition.bounds() == (1, 4)

    def test_a_new_epoch_starts_at_0(self, partition: PartitionStore) -> None:
        """A newer epoch counts from 0 again, and must."""
        partition.append([ALICE.batch(0), ALICE.batch(1)])
        with pytest.raises(OutOfSequence):
            partition.append([Sender.number(1, epoch=1).batch(2)])
        assert partition.append([Sender.number(1, epoch=1).batch(0)]) == [(3, 1, False)]
        assert partition.append([Sender.number(1, epoch=1).batch(0)]) == [(3, 1, True)]

    def test_fencing_survives_reopening(self, lasting_storage: Storage) -> None:
        """An old epoch is fenced for good."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine), 0)
        partition.append([ALICE.batch(0)])
        partition.append([Sender.number(1, epoch=1).batch(0)])
        engine = lasting_storage.reopen()
        with pytest.raises(ProducerFenced):
            engine.partition(engine.topic("deliveries"), 0).append([ALICE.batch(1)])

    def test_sequences_that_may_skip(self, partition: PartitionStore) -> None:
        """A producer may say that its sequences rise with gaps; at or below the last is still a duplicate."""
        assert partition.append([ALICE.batch(4, sparse=True)]) == [(1, 1, False)]
        assert partition.append([ALICE.batch(9, sparse=True)]) == [(2, 1, False)]
        assert partition.append([ALICE.batch(4, sparse=True)]) == [(1, 1, True)]
        with pytest.raises(DuplicateSequence):
            partition.append([ALICE.batch(7, sparse=True)])
        assert partition.bounds() == (1, 3)

    def test_partitions_know_their_producers_apart(self, engine: Engine) -> None:
        """Sequences count the batches of one partition."""
        topic = new_topic(engine, partitions=2)
        engine.partition(topic, 0).append([ALICE.batch(0), ALICE.batch(1)])
        assert engine.partition(topic, 1).append([ALICE.batch(0)]) == [(1, 1, False)]
        with pytest.raises(OutOfSequence):
            engine.partition(topic, 1).append([ALICE.batch(2)])

    def test_a_refused_batch_is_not_remembered(self, partition: PartitionStore) -> None:
        """What was refused leaves no trace: the right batch is accepted afterwards."""
        for wrong in ([ALICE.batch(0), ALICE.batch(5)], [ALICE.batch(1)], [ALICE.batch(0), BOB.batch(1)]):
            with pytest.raises(ProducerError):
                partition.append(wrong)
        assert partition.append([ALICE.batch(0), BOB.batch(0)]) == [(1, 1, False), (2, 1, False)]
