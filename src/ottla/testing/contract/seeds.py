"""The rows M1 to M6 that every storage behind ottla has kept from the start, by name."""

import pytest

from ottla.clock import ManualClock
from ottla.errors import UnknownTopic
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import ALL_BYTES, batch_of, new_topic, numbers_of, values_of


class SeedsContract(Contract):
    """M1 to M6."""

    def test_m1_messages_are_opaque_bytes_of_any_length(self, partition: PartitionStore) -> None:
        """M1: any bytes come back as they were, also none at all."""
        values = [b"", b"\0", bytes(range(256)), b"\r\n", "grüße".encode(), b"\xff" * 100_000]
        partition.append([batch_of(*values)])
        assert values_of(partition) == values

    def test_m1_order_is_the_order_of_arrival(self, partition: PartitionStore) -> None:
        """M1: messages keep the order in which they were appended, within and across batches."""
        for n in range(0, 30, 3):
            partition.append([batch_of(b"%d" % n, b"%d" % (n + 1)), batch_of(b"%d" % (n + 2))])
        assert values_of(partition) == [b"%d" % n for n in range(30)]

    def test_m2_numbers_start_at_1_in_every_stream(self, engine: Engine) -> None:
        """M2: every partition of every topic counts from 1, by one."""
        for topic in (new_topic(engine, "a", partitions=2), new_topic(engine, "b")):
            for index in range(topic.settings.partitions):
                partition = engine.partition(topic, index)
                assert partition.bounds() == (1, 1)
                assert [appended.first for appended in partition.append([batch_of(b"x", b"y"), batch_of(b"z")])] == [
                    1,
                    3,
                ]
                assert numbers_of(partition) == [1, 2, 3]

    def test_m2_numbers_go_on_after_removal(self, partition: PartitionStore) -> None:
        """M2: removing every message does not restart the numbering."""
        partition.append([batch_of(b"a", b"b", b"c")])
        assert partition.trim(4) == (4, 4)
        assert partition.append([batch_of(b"d")])[0].first == 4
        assert numbers_of(partition) == [4]

    def test_m2_numbers_go_on_after_removal_and_reopening(self, lasting_storage: Storage) -> None:
        """M2: nor does removing every message and starting again."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine), 0)
        partition.append([batch_of(b"a", b"b", b"c")])
        partition.trim(4)
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.bounds() == (4, 4)
        assert partition.append([batch_of(b"d")])[0].first == 4

    def test_m3_poll_from_n(self, partition: PartitionStore) -> None:
        """M3: three messages from 1, and 4; none at the tail; after one more, one."""
        partition.append([batch_of(b"a", b"b", b"c")])
        assert numbers_of(partition, 1) == [1, 2, 3]
        assert partition.read(4, ALL_BYTES) == []
        partition.append([batch_of(b"d")])
        assert numbers_of(partition, 4) == [4]
        assert partition.bounds().next == 5

    def test_m3_an_emptied_topic_gives_nothing(self, partition: PartitionStore) -> None:
        """M3: when retention removed everything, a reader gets nothing and no error, wherever it stands."""
        partition.append([batch_of(b"a", b"b", b"c")])
        partition.trim(4)
        assert [partition.read(start, ALL_BYTES) for start in (1, 3, 4, 9)] == [[], [], [], []]

    def test_m3_an_unknown_topic_is_an_error_that_says_topic(self, engine: Engine) -> None:
        """M3: the sentence names the topic."""
        with pytest.raises(UnknownTopic, match="topic 'nowhere' does not exist"):
            engine.topic("nowhere")

    def test_m4_reading_removes_nothing(self, partition: PartitionStore) -> None:
        """M4: any number of readers at their own pace see the same messages."""
        partition.append([batch_of(b"a", b"b"), batch_of(b"c")])
        assert values_of(partition) == values_of(partition) == [b"a", b"b", b"c"]
        assert values_of(partition, 3) == [b"c"]
        assert values_of(partition, 2) == [b"b", b"c"]

    def test_m5_messages_older_than_the_retention_go(self, engine: Engine, clock: ManualClock) -> None:
        """M5: what is older than the maximum age goes, the rest stays, and numbers go on."""
        partition = engine.partition(new_topic(engine, retention="1h"), 0)
        partition.append([batch_of(b"old", b"old too")])
        clock.advance(2 * 3_600_000)
        partition.append([batch_of(b"young")])
        assert partition.expire(older_than_ms=clock.now_ms() - 3_600_000) == (3, 4)
        assert values_of(partition) == [b"young"]
        assert partition.append([batch_of(b"next")])[0].first == 4

    def test_m5_a_quiet_topic_expires_too(self, engine: Engine, clock: ManualClock) -> None:
        """M5: the youngest messages also go when they are old, though nothing comes after them."""
        partition = engine.partition(new_topic(engine, retention="500ms"), 0)
        partition.append([batch_of(b"a", b"b")])
        clock.advance(501)
        assert partition.expire(older_than_ms=clock.now_ms() - 500) == (3, 3)
        assert values_of(partition) == []
        assert partition.append([batch_of(b"c")])[0].first == 3

    def test_m6_a_store_survives_a_restart(self, lasting_storage: Storage) -> None:
        """M6: store, remove the old, read, open again: what was kept is there, and no more."""
        engine = lasting_storage.open()
        partition = engine.partition(new_topic(engine, segment_bytes="1KiB"), 0)
        for n in range(1, 41):
            partition.append([batch_of(b"%03d" % n * 20)])
        partition.trim(21)
        engine = lasting_storage.reopen()
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert partition.bounds() == (21, 41)
        assert values_of(partition) == [b"%03d" % n * 20 for n in range(21, 41)]

    def test_m6_delete_all(self, engine: Engine) -> None:
        """M6: every topic can be deleted, and then nothing is listed."""
        for name in ("a", "b"):
            engine.partition(new_topic(engine, name), 0).append([batch_of(b"x")])
        for topic in engine.topics():
            engine.delete_topic(topic.name)
        assert engine.topics() == []
