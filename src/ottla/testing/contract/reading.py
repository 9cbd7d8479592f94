"""Reading: where a read starts, how much it gives, and finding by time."""

import itertools

from ottla.clock import ManualClock
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract
from ottla.testing.samples import ALL_BYTES, batch_of, new_topic, numbers_of, values_of


class ReadingContract(Contract):
    """Read, bounds, find, size."""

    def test_reading_from_the_middle_of_a_batch_gives_the_batch(self, partition: PartitionStore) -> None:
        """Batches are whole: the first one may begin before the number asked for."""
        partition.append([batch_of(b"a", b"b", b"c"), batch_of(b"d")])
        batches = partition.read(2, ALL_BYTES)
        assert [(batch.first_number, batch.count) for batch in batches] == [(1, 3), (4, 1)]
        assert values_of(partition, 2) == [b"b", b"c", b"d"]

    def test_reading_below_first_skips_ahead(self, partition: PartitionStore) -> None:
        """A reader that retention overtook goes on at the oldest message kept."""
        partition.append([batch_of(b"a"), batch_of(b"b"), batch_of(b"c")])
        partition.trim(3)
        assert [batch.first_number for batch in partition.read(1, ALL_BYTES)] == [3]

    def test_reading_at_and_beyond_the_tail_gives_nothing(self, partition: PartitionStore) -> None:
        """At the tail there is nothing yet, and beyond it neither."""
        assert partition.read(1, ALL_BYTES) == []
        partition.append([batch_of(b"a")])
        assert partition.read(2, ALL_BYTES) == []
        assert partition.read(3, ALL_BYTES) == []
        assert partition.read(2**62, ALL_BYTES) == []

    def test_a_read_gives_at_least_one_batch(self, partition: PartitionStore) -> None:
        """However small the limit and however large the batch, a reader gets on."""
        partition.append([batch_of(b"x" * 300_000), batch_of(b"y")])
        assert [batch.first_number for batch in partition.read(1, 1)] == [1]
        assert [batch.first_number for batch in partition.read(2, 1)] == [2]

    def test_a_read_keeps_to_its_limit(self, partition: PartitionStore) -> None:
        """More than one batch is given only as far as the limit allows."""
        partition.append([batch_of(b"x" * 1000) for _ in range(20)])
        size = partition.read(1, 1)[0].size
        for count in (1, 2, 7):
            batches = partition.read(1, size * count)
            assert 1 <= len(batches) <= count
            assert sum(batch.size for batch in batches) <= size * count

    def test_small_reads_add_up_to_everything(self, engine: Engine) -> None:
        """Call after call, each going on where the last ended, gives every message once."""
        partition = engine.partition(new_topic(engine, segment_bytes="2KiB", sync="never"), 0)
        values = [b"%d" % n * (n % 40) for n in range(300)]
        for n in range(0, 300, 3):
            partition.append([batch_of(*values[n : n + 3])])
        for max_bytes in (1, 700, 5000, ALL_BYTES):
            assert values_of(partition, 1, max_bytes) == values

    def test_reading_from_every_number(self, engine: Engine) -> None:
        """Any number is a place to start, in any segment."""
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB", sync="never"), 0)
        for n in range(0, 60, 4):
            partition.append([batch_of(*(b"%d" % m for m in range(n, n + 4)))])
        for start in range(1, 62):
            assert values_of(partition, start) == [b"%d" % n for n in range(start - 1, 60)]

    def test_batches_say_their_numbers(self, partition: PartitionStore) -> None:
        """A batch that was read carries its numbers, each batch going on where the last ended."""
        partition.append([batch_of(b"a", b"b"), batch_of(b"c")])
        partition.append([batch_of(b"d")])
        batches = partition.read(1, ALL_BYTES)
        assert batches[0].first_number == 1
        assert all(b.first_number == a.next_number for a, b in itertools.pairwise(batches))
        assert batches[-1].next_number == partition.bounds().next

    def test_what_was_read_stays_readable(self, engine: Engine) -> None:
        """Batches in a reader's hands are its own, whatever happens to the log."""
        topic = new_topic(engine)
        partition = engine.partition(topic, 0)
        partition.append([batch_of(b"a" * 10_000, b"b")])
        (batch,) = partition.read(1, ALL_BYTES)
        partition.trim(3)
        engine.delete_topic(topic.name)
        assert batch.columns().values.to_pylist() == [b"a" * 10_000, b"b"]

    def test_find_by_time(self, partition: PartitionStore, clock: ManualClock) -> None:
        """The first message appended at or after a time; next if there is none."""
        start = clock.now_ms()
        for values in ([b"a", b"b"], [b"c"], [b"d", b"e"]):
            partition.append([batch_of(*values)])
            clock.advance(1000)
        asked = [0, start, start + 1, start + 1000, start + 1001, start + 2000, start + 2001, start + 10**9]
        assert [partition.find(time) for time in asked] == [1, 1, 3, 3, 4, 4, 6, 6]

    def test_find_in_an_empty_partition(self, partition: PartitionStore) -> None:
        """Nothing was appended at any time, so it is the next number."""
        assert partition.find(0) == 1
        partition.append([batch_of(b"a", b"b")])
        partition.trim(3)
        assert partition.find(0) == 3

    def test_find_across_segments(self, engine: Engine, clock: ManualClock) -> None:
        """Every append is found at its own time, in whichever segment it is."""
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB", sync="never"), 0)
        times = []
        for _ in range(60):
            times.append(clock.now_ms())
            partition.append([batch_of(b"x" * 50)])
            clock.advance(10)
        assert [partition.find(time) for time in times] == list(range(1, 61))

    def test_find_does_not_go_below_first(self, partition: PartitionStore, clock: ManualClock) -> None:
        """What was removed is not found, not even within a batch that is still there in part."""
        partition.append([batch_of(b"a", b"b", b"c")])
        partition.trim(2)
        assert partition.find(clock.now_ms()) == 2

    def test_find_with_a_clock_that_was_set_back(self, partition: PartitionStore, clock: ManualClock) -> None:
        """Append times never fall, so a search by time stays exact."""
        start = clock.now_ms()
        partition.append([batch_of(b"a")])
        clock.advance(-10_000)
        partition.append([batch_of(b"b")])
        clock.advance(10_001)
        partition.append([batch_of(b"c")])
        assert partition.find(start - 10_000) == 1
        assert partition.find(start) == 1
        assert partition.find(start + 1) == 3

    def test_size_follows_what_is_kept(self, engine: Engine) -> None:
        """The size grows by about what is appended, and shrinks when segments go."""
        partition = engine.partition(new_topic(engine, segment_bytes="4KiB", sync="never"), 0)
        empty = partition.size()
        for _ in range(20):
            partition.append([batch_of(b"x" * 1000)])
        full = partition.size()
        assert full - empty >= 20_000
        partition.trim(19)
        assert partition.size() < full
        assert numbers_of(partition) == [19, 20]
