"""Removing: by number, by age, by size. Numbers go on, and what is kept is always the youngest."""

import pytest

from ottla.clock import ManualClock
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import ALL_BYTES, batch_of, new_topic, numbers_of, values_of

HOUR_MS = 3_600_000


class RetentionContract(Contract):
    """Trim and expire."""

    @pytest.fixture
    def three(self, partition: PartitionStore) -> PartitionStore:
        """A partition of three batches: 1 and 2, 3 to 5, 6."""
        partition.append([batch_of(b"1", b"2"), batch_of(b"3", b"4", b"5"), batch_of(b"6")])
        return partition

    def test_trim_removes_what_lies_below(self, three: PartitionStore) -> None:
        """Everything below the number goes, nothing else does."""
        assert three.trim(3) == (3, 7)
        assert numbers_of(three) == [3, 4, 5, 6]

    def test_trim_within_a_batch(self, three: PartitionStore) -> None:
        """The lower messages of a batch are gone for readers though the batch is still there."""
        assert three.trim(4) == (4, 7)
        assert three.bounds() == (4, 7)
        assert numbers_of(three) == [4, 5, 6]
        assert three.read(1, ALL_BYTES)[0].next_number == 6

    def test_trim_again_changes_nothing(self, three: PartitionStore) -> None:
        """The same trim again, or one below, is no error and brings nothing back."""
        three.trim(4)
        for before in (4, 3, 1, 0):
            assert three.trim(before) == (4, 7)
        assert numbers_of(three) == [4, 5, 6]

    def test_trim_beyond_next_is_trim_to_next(self, three: PartitionStore) -> None:
        """Numbers that were not given yet cannot be removed."""
        assert three.trim(10**12) == (7, 7)
        assert three.append([batch_of(b"7")])[0].first == 7
        assert numbers_of(three) == [7]

    def test_trim_of_an_empty_partition(self, partition: PartitionStore) -> None:
        """There is nothing to remove, and the first message is number 1 all the same."""
        assert partition.trim(100) == (1, 1)
        assert partition.append([batch_of(b"a")])[0].first == 1

    def test_trim_across_segments(self, engine: Engine) -> None:
        """Every trim point works, from the first to the last, in steps through the segments."""
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB", sync="never"), 0)
        for n in range(1, 61):
            partition.append([batch_of(b"%d" % n * 30)])
        for before in range(1, 62, 4):
            assert partition.trim(before) == (before, 61)
            assert numbers_of(partition) == list(range(before, 61))

    def test_trim_survives_reopening(self, lasting_storage: Storage) -> None:
        """What was removed stays removed, within a batch too."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine), 0)
        partition.append([batch_of(b"1", b"2", b"3")])
        partition.trim(2)
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.bounds() == (2, 4)
        assert values_of(partition) == [b"2", b"3"]

    def test_expire_without_limits_removes_nothing(self, three: PartitionStore) -> None:
        """No limit, no removal."""
        assert three.expire() == (1, 7)
        assert len(numbers_of(three)) == 6

    def test_expire_removes_only_what_is_old(self, engine: Engine, clock: ManualClock) -> None:
        """Age decides, segment by segment: nothing young goes, and what is wholly old does."""
        partition = engine.partition(new_topic(engine, retention="1h", segment_bytes="1KiB"), 0)
        for _ in range(10):
            partition.append([batch_of(b"x" * 400) for _ in range(3)])
            clock.advance(HOUR_MS)
        limit = clock.now_ms() - 5 * HOUR_MS
        bounds = partition.expire(older_than_ms=limit)
        assert bounds == (16, 31)
        assert partition.find(limit) == 16
        assert numbers_of(partition) == list(range(16, 31))

    def test_a_message_of_exactly_the_limit_stays(self, engine: Engine, clock: ManualClock) -> None:
        """Older than the limit is what goes."""
        partition = engine.partition(new_topic(engine, retention="1h"), 0)
        partition.append([batch_of(b"a")])
        assert partition.expire(older_than_ms=clock.now_ms()) == (1, 2)
        assert partition.expire(older_than_ms=clock.now_ms() + 1) == (2, 2)

    def test_expire_everything_survives_reopening(self, lasting_storage: Storage, clock: ManualClock) -> None:
        """A partition that retention emptied goes on with its numbers after a restart."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine, retention="1h"), 0)
        partition.append([batch_of(b"a", b"b")])
        clock.advance(2 * HOUR_MS)
        partition.expire(older_than_ms=clock.now_ms())
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.bounds() == (3, 3)
        assert partition.append([batch_of(b"c")])[0].first == 3
        assert values_of(partition) == [b"c"]

    def test_expire_by_size_keeps_the_youngest(self, engine: Engine) -> None:
        """The oldest segments go while the partition is too large; the youngest messages stay."""
        partition = engine.partition(new_topic(engine, segment_bytes="4KiB", sync="never"), 0)
        for _ in range(100):
            partition.append([batch_of(b"x" * 1000)])
        bounds = partition.expire(max_bytes=50_000)
        assert 50 < bounds.first <= 80
        assert bounds.next == 101
        assert partition.size() <= 50_000
        assert numbers_of(partition) == list(range(bounds.first, 101))

    def test_expire_by_size_of_what_fits_removes_nothing(self, three: PartitionStore) -> None:
        """A partition within its size keeps everything."""
        assert three.expire(max_bytes=1_000_000) == (1, 7)

    def test_a_reader_overtaken_by_expiry_goes_on(self, engine: Engine, clock: ManualClock) -> None:
        """A position that fell behind skips ahead to the oldest message kept."""
        partition = engine.partition(new_topic(engine, retention="1s"), 0)
        partition.append([batch_of(b"a"), batch_of(b"b")])
        clock.advance(5000)
        partition.append([batch_of(b"c")])
        partition.expire(older_than_ms=clock.now_ms() - 1000)
        assert [batch.first_number for batch in partition.read(1, ALL_BYTES)] == [3]
