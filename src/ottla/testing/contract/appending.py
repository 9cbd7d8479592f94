"""Appending: what is stored, what numbers say, and when a call is refused whole."""

import pytest

from ottla.batch import Batch, Messages, columns_of_lists
from ottla.clock import ManualClock
from ottla.errors import OutOfSequence, UnexpectedNext
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, messages_of, new_topic, numbers_of, values_of


class AppendingContract(Contract):
    """Numbers, contents, compare-and-append."""

    def test_each_batch_gets_its_numbers(self, partition: PartitionStore) -> None:
        """One call with several batches returns each one's first number and count, in order."""
        appended = partition.append([batch_of(b"a", b"b"), batch_of(b"c"), batch_of(b"d", b"e")])
        assert [(each.first, each.count, each.duplicate) for each in appended] == [
            (1, 2, False),
            (3, 1, False),
            (4, 2, False),
        ]
        assert partition.bounds() == (1, 6)

    def test_null_is_not_empty(self, partition: PartitionStore) -> None:
        """A null value and an empty one are different, and stay so."""
        partition.append([batch_of(None, b"", None), batch_of(b"")])
        assert values_of(partition) == [None, b"", None, b""]

    def test_keys_headers_and_timestamps_are_kept(self, partition: PartitionStore) -> None:
        """All that a record carries comes back: keys, headers in their order, timestamps of any time."""
        keys = [b"melbourne", None, b""]
        headers = [(("a", b"1"), ("a", None)), (), (("ü", b"\xff\x00"),)]
        timestamps = [0, -1, 1_700_000_000_123]
        partition.append([Batch.pack(columns_of_lists([b"x", None, b"z"], keys, headers, timestamps))])
        messages = messages_of(partition)
        assert [message.key for message in messages] == keys
        assert [message.headers for message in messages] == headers
        assert [message.timestamp_ms for message in messages] == timestamps

    @pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
    def test_compressed_batches_read_like_others(self, partition: PartitionStore, compression: str) -> None:
        """Compression is the producer's choice and nobody else's business."""
        values = [b"%d" % n * 50 for n in range(200)]
        packed = Batch.pack(columns_of_lists(values), compression=compression)  # type: ignore[arg-type]
        partition.append([packed, batch_of(b"plain")])
        assert values_of(partition) == [*values, b"plain"]

    def test_large_values(self, partition: PartitionStore) -> None:
        """A value of several MiB is one message like any other, and so are its neighbours."""
        large = bytes(range(256)) * (5 * 2**20 // 256)
        partition.append([batch_of(b"before"), batch_of(large, b"beside"), batch_of(b"after")])
        assert values_of(partition) == [b"before", large, b"beside", b"after"]

    def test_many_tiny_batches(self, engine: Engine) -> None:
        """A thousand batches of one message are dense and in order, across segments."""
        partition = engine.partition(new_topic(engine, segment_bytes="16KiB", sync="never"), 0)
        for n in range(0, 1000, 50):
            partition.append([batch_of(b"%d" % m) for m in range(n, n + 50)])
        assert values_of(partition) == [b"%d" % n for n in range(1000)]
        assert numbers_of(partition) == list(range(1, 1001))

    def test_the_batch_given_is_not_changed(self, partition: PartitionStore) -> None:
        """The same batch object may be appended twice; it is a value."""
        batch = batch_of(b"a")
        assert [partition.append([batch])[0].first for _ in range(2)] == [1, 2]
        assert batch.first_number == 0
        assert values_of(partition) == [b"a", b"a"]

    def test_appending_nothing_changes_nothing(self, partition: PartitionStore) -> None:
        """No batches, no numbers."""
        assert partition.append([]) == []
        assert partition.bounds() == (1, 1)

    def test_every_sync_setting_reads_what_it_acknowledged(self, engine: Engine) -> None:
        """Whatever `sync` says about machines that stop, a reader sees what was acknowledged."""
        for sync in ("always", "interval", "never"):
            partition = engine.partition(new_topic(engine, sync, sync=sync), 0)
            partition.append([batch_of(b"a")])
            partition.append([batch_of(b"b")])
            assert values_of(partition) == [b"a", b"b"]

    def test_append_times_never_go_back(self, partition: PartitionStore, clock: ManualClock) -> None:
        """A clock that is set back does not make a later message look older."""
        times = []
        for step in (0, 1000, -5000, 10, 6000):
            clock.advance(step)
            partition.append([batch_of(b"x")])
            times.append(partition.read(partition.bounds().next - 1, 1)[0].header.append_ms)
        assert times == sorted(times)
        assert times[4] == clock.now_ms()

    def test_messages_without_a_timestamp_have_the_append_time(
        self, partition: PartitionStore, clock: ManualClock
    ) -> None:
        """The log's clock stamps what the producer did not."""
        partition.append([batch_of(b"a")])
        clock.advance(7)
        partition.append([batch_of(b"b")])
        messages = Messages.of("deliveries", 0, partition.read(1, ALL_BYTES), 1)
        assert [message.timestamp_ms for message in messages] == [clock.now_ms() - 7, clock.now_ms()]

    def test_compare_and_append(self, partition: PartitionStore) -> None:
        """With the right expectation an append goes through."""
        assert partition.append([batch_of(b"a", b"b")], expected_next=1)[0].first == 1
        assert partition.append([batch_of(b"c")], expected_next=3)[0].first == 3

    @pytest.mark.parametrize("expected", [1, 2, 4, 99])
    def test_compare_and_append_refused_writes_nothing(self, partition: PartitionStore, expected: int) -> None:
        """With a wrong expectation the whole call is refused, says both numbers, and writes nothing."""
        partition.append([batch_of(b"a", b"b")])
        with pytest.raises(UnexpectedNext) as refused:
            partition.append([batch_of(b"c"), batch_of(b"d")], expected_next=expected)
        assert (refused.value.expected, refused.value.actual) == (expected, 3)
        assert (refused.value.topic, refused.value.partition) == ("deliveries", 0)
        assert values_of(partition) == [b"a", b"b"]
        assert partition.bounds() == (1, 3)

    def test_compare_and_append_after_removal(self, partition: PartitionStore) -> None:
        """Removal does not move the next number, and so not the expectation."""
        partition.append([batch_of(b"a", b"b")])
        partition.trim(3)
        assert partition.append([batch_of(b"c")], expected_next=3)[0].first == 3

    def test_compare_and_append_of_a_stored_duplicate(self, partition: PartitionStore) -> None:
        """A retry of what was stored gets its first numbers, though the next number has moved on."""
        sender = Sender.number(1)
        partition.append([sender.batch(0)], expected_next=1)
        partition.append([batch_of(b"another's")])
        (again,) = partition.append([sender.batch(0)], expected_next=1)
        assert (again.first, again.count, again.duplicate) == (1, 1, True)
        assert partition.bounds() == (1, 3)

    def test_a_call_is_refused_whole(self, partition: PartitionStore) -> None:
        """When one batch is refused, none of the call's batches is stored, before it or after it."""
        sender = Sender.number(1)
        with pytest.raises(OutOfSequence):
            partition.append([batch_of(b"plain"), sender.batch(0), sender.batch(2), batch_of(b"plain too")])
        assert partition.bounds() == (1, 1)
        assert values_of(partition) == []
        assert partition.append([sender.batch(0)])[0].duplicate is False
