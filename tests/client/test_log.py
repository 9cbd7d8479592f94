"""The log that a URL opens: topics, appends, reads, trimming, groups and the end."""

import gc
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ottla
from ottla import Bounds, LandedRange, ManualClock, Record, TopicSettings
from ottla.storage.contract import EngineOptions
from ottla.storage.memory import MemoryEngine, MemoryPartition


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(clock: ManualClock) -> Iterator[ottla.Log]:
    with ottla.open("memory:", clock=clock) as log:
        yield log


class TestTopics:
    def test_a_topic_is_created_with_words(self, log: ottla.Log) -> None:
        topic = log.create_topic(
            "deliveries", partitions=4, retention="7d", partitioner="key-hash", retention_bytes="1GiB", sync="never"
        )
        assert topic.settings == TopicSettings(
            partitions=4,
            retention_ms=604_800_000,
            partitioner="key-hash",
            retention_bytes=2**30,
            sync="never",
        )
        assert log.topic("deliveries") == topic
        assert log.topics() == [topic]

    def test_a_topic_that_is_there_is_not_created_again(self, log: ottla.Log) -> None:
        topic = log.create_topic("deliveries", partitions=2)
        with pytest.raises(ottla.TopicExists, match="alter_topic"):
            log.create_topic("deliveries")
        assert log.create_topic("deliveries", partitions=5, exist_ok=True) == topic

    def test_the_logs_defaults_count_where_nothing_else_is_said(self) -> None:
        """M5: a retention for all topics, and one of their own for some."""
        with ottla.open("memory:", defaults={"retention": "2h", "partitions": 3}, culler=False) as log:
            log.append("posted", [b"x"])
            log.create_topic("kept", retention="forever")
            assert [(t.name, t.settings.retention_ms, t.settings.partitions) for t in log.topics()] == [
                ("kept", None, 3),
                ("posted", 7_200_000, 3),
            ]

    def test_settings_are_changed_while_it_is_in_use(self, log: ottla.Log) -> None:
        created = log.create_topic("deliveries", retention="7d")
        changed = log.alter_topic("deliveries", max_message_bytes="1KiB")
        assert changed.settings.retention_ms == created.settings.retention_ms
        assert changed.version == created.version + 1
        assert log.alter_topic("deliveries", max_message_bytes=1024) == changed
        with pytest.raises(ottla.MessageTooLarge):
            log.append("deliveries", [bytes(1025)])

    def test_a_change_that_another_one_overtakes_is_applied_to_it(
        self, log: ottla.Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.create_topic("deliveries")
        alter = log.engine.alter_topic
        first = [True]

        def overtaken(topic: ottla.Topic) -> ottla.Topic:
            if first.pop() if first else False:
                log.alter_topic("deliveries", retention="1d")
            return alter(topic)

        monkeypatch.setattr(log.engine, "alter_topic", overtaken)
        settings = log.alter_topic("deliveries", partitions=2).settings
        assert (settings.partitions, settings.retention_ms) == (2, 86_400_000)

    def test_partitions_are_added_never_removed(self, log: ottla.Log) -> None:
        """K4: later adding partitions while running."""
        log.create_topic("deliveries", partitions=2)
        assert log.add_partitions("deliveries", 4).settings.partitions == 4
        for fewer in (3, 0, "5", None):
            with pytest.raises(ottla.InvalidValue, match="partitions"):
                log.add_partitions("deliveries", fewer)  # type: ignore[arg-type]  # some of them are the point
        assert log.topic("deliveries").settings.partitions == 4

    def test_a_description_says_what_the_partitions_hold(self, log: ottla.Log) -> None:
        log.create_topic("deliveries", partitions=2)
        log.append("deliveries", [b"a", b"b", b"c"], partition=1)
        log.trim("deliveries", 1, before=2)
        description = log.describe("deliveries")
        assert [(p.index, p.bounds) for p in description.partitions] == [(0, (1, 1)), (1, (2, 4))]
        assert description.messages == 2
        assert description.bytes == sum(p.bytes for p in description.partitions) > 0
        assert description.topic == log.topic("deliveries")

    def test_a_deleted_topic_takes_messages_positions_and_producers_along(self, log: ottla.Log) -> None:
        log.append("deliveries", [b"x"])
        log.append("orders", [b"x"])
        for topic in ("deliveries", "orders"):
            log.commit("billing", topic, {0: 2})
        with log.producer("deliveries", name="importer") as producer:
            producer.send(b"y").result()
        log.delete_topic("deliveries")
        assert [g.topic for g in log.groups()] == ["orders"]
        assert len(log.engine.keys("groups")) == 1
        assert log.engine.keys("producers") == []
        with pytest.raises(ottla.UnknownTopic):
            log.read("deliveries")
        log.append("deliveries", [b"new"])
        assert log.read("deliveries").values() == [b"new"]
        assert log.committed("billing", "deliveries") == {}

    @pytest.mark.parametrize(
        "use",
        [
            lambda log: log.topic("nope"),
            lambda log: log.describe("nope"),
            lambda log: log.read("nope"),
            lambda log: log.consumer("nope").poll(),
            lambda log: log.bounds("nope"),
            lambda log: log.find("nope", 0, "1h ago"),
            lambda log: log.trim("nope", before="latest"),
            lambda log: log.compact("nope"),
            lambda log: log.alter_topic("nope", retention="1d"),
            lambda log: log.add_partitions("nope", 5),
            lambda log: log.delete_topic("nope"),
            lambda log: log.committed("billing", "nope"),
            lambda log: log.commit("billing", "nope", {0: 1}),
        ],
    )
    def test_an_unknown_topic_is_an_error_that_says_topic(
        self, log: ottla.Log, use: Callable[[ottla.Log], object]
    ) -> None:
        """M3: unknown topic: an error that says "topic"."""
        with pytest.raises(ottla.UnknownTopic, match="topic 'nope'"):
            use(log)
        assert log.topics() == []


class TestAppending:
    """K5: the write API."""

    def test_messages_are_opaque_bytes_in_the_order_received(self, log: ottla.Log) -> None:
        """M1: bytes of any length, 0 too; an unknown topic is created; strict order."""
        values = [b"", b"\x00", bytes(range(256)), b"x" * 2**20, b""]
        for value in values:
            log.append("deliveries", [value])
        assert log.read("deliveries").values() == values

    def test_numbers_start_at_1_and_go_on_after_removals(self, log: ottla.Log) -> None:
        """M2: remove all, and the next is n + 1."""
        assert log.append("deliveries", [b"a", b"b"]) == [LandedRange("deliveries", 0, range(1, 3))]
        assert log.trim("deliveries", before="latest") == {0: Bounds(3, 3)}
        assert log.append("deliveries", [b"c"])[0].numbers == range(3, 4)

    def test_keys_headers_and_timestamps_come_along(self, log: ottla.Log) -> None:
        log.append("deliveries", [b"v", None], keys=[None, b"k"], headers=[(("h", b"1"),), ()], timestamps=[5, 6])
        first, second = log.read("deliveries")
        assert (first.value, first.key, first.headers, first.timestamp_ms) == (b"v", None, (("h", b"1"),), 5)
        assert (second.value, second.key, second.headers, second.timestamp_ms) == (None, b"k", (), 6)

    def test_records_and_arrow_data_are_taken_too(self, log: ottla.Log) -> None:
        log.append("deliveries", [Record(value=b"1", key=b"k")])
        log.append("deliveries", pa.array([b"2", b"3"], pa.binary()))
        log.append("deliveries", pa.table({"value": [b"4"], "key": [b"k"]}))
        assert [(m.value, m.key) for m in log.read("deliveries")] == [
            (b"1", b"k"),
            (b"2", None),
            (b"3", None),
            (b"4", b"k"),
        ]

    def test_messages_without_a_preference_are_spread_evenly(self, log: ottla.Log) -> None:
        """W2: round robin by default, also over many small appends."""
        log.create_topic("deliveries", partitions=4)
        for _ in range(10):
            log.append("deliveries", [b"x", b"y"])
        assert [p.bounds.next - 1 for p in log.describe("deliveries").partitions] == [5, 5, 5, 5]

    def test_a_key_always_goes_to_the_same_partition(self, log: ottla.Log) -> None:
        """K4: FIFO per partition key."""
        log.create_topic("deliveries", partitions=4, partitioner="key-hash")
        for number in range(20):
            log.append("deliveries", [b"%d" % number] * 3, keys=[b"a", b"b", b"c"])
        for key in (b"a", b"b", b"c"):
            found = [m for m in log.read("deliveries") if m.key == key]
            assert len({m.partition for m in found}) == 1
            assert [m.value for m in found] == [b"%d" % number for number in range(20)]

    def test_a_large_append_becomes_several_batches_with_numbers_in_a_row(self, log: ottla.Log) -> None:
        landed = log.append("deliveries", [b"x" * 1000] * 5000)
        assert landed == [LandedRange("deliveries", 0, range(1, 5001))]
        assert len(log.read("deliveries")) == 5000

    def test_compare_and_append_writes_only_at_the_expected_number(self, log: ottla.Log) -> None:
        log.append("deliveries", [b"a"], expected_next=1)
        with pytest.raises(ottla.UnexpectedNext) as refused:
            log.append("deliveries", [b"b"], expected_next=1)
        assert refused.value.actual == 2
        log.append("deliveries", [b"b"], expected_next=refused.value.actual)
        assert log.read("deliveries").values() == [b"a", b"b"]

    def test_an_expected_number_needs_a_partition_where_there_are_several(self, log: ottla.Log) -> None:
        log.create_topic("deliveries", partitions=2)
        with pytest.raises(ottla.InvalidValue, match="expected_next"):
            log.append("deliveries", [b"a"], expected_next=1)
        assert log.append("deliveries", [b"a"], partition=1, expected_next=1)[0].partition == 1

    def test_many_threads_that_post_first_make_one_topic(self) -> None:
        """M1: produce to an unknown topic creates it, once, whoever comes first."""
        with ottla.open("memory:") as log:
            start = threading.Barrier(8)

            def post() -> None:
                start.wait()
                log.append("deliveries", [b"x"])

            threads = [threading.Thread(target=post) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert log.bounds("deliveries") == (1, 9)

    def test_a_topic_that_another_process_creates_meanwhile_is_used(
        self, log: ottla.Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        create = log.engine.create_topic

        def overtaken(topic: ottla.Topic) -> ottla.Topic:
            monkeypatch.undo()
            log.create_topic(topic.name, retention="7d")
            return create(topic)

        monkeypatch.setattr(log.engine, "create_topic", overtaken)
        log.append("deliveries", [b"x"])
        assert log.topic("deliveries").settings.retention_ms == 604_800_000

    def test_topics_are_not_made_by_posting_where_that_is_turned_off(self) -> None:
        with ottla.open("memory:", auto_create=False) as log:
            with pytest.raises(ottla.UnknownTopic):
                log.append("deliveries", [b"x"])
            with log.producer("deliveries") as producer, pytest.raises(ottla.UnknownTopic):
                producer.send(b"x")
            assert log.topics() == []


class TestReading:
    """K5: the read API."""

    @pytest.fixture(autouse=True)
    def ten(self, log: ottla.Log, clock: ManualClock) -> None:
        log.create_topic("deliveries", partitions=2)
        for number in range(1, 6):
            for partition in range(2):
                log.append("deliveries", [b"%d/%d" % (partition, number)], partition=partition)
            clock.advance(1000)

    def test_everything_is_read_partition_by_partition(self, log: ottla.Log) -> None:
        messages = log.read("deliveries")
        assert [(m.partition, m.number) for m in messages] == [(p, n) for p in range(2) for n in range(1, 6)]
        assert messages.to_arrow().num_rows == 10

    def test_one_partition_from_a_start(self, log: ottla.Log) -> None:
        assert [m.number for m in log.read("deliveries", partition=1, start=4)] == [4, 5]
        assert [m.number for m in log.read("deliveries", 1, "2s ago")] == [4, 5]
        assert not log.read("deliveries", 1, "latest")
        assert not log.read("deliveries", 1, 100)

    @pytest.mark.parametrize(("limit", "found"), [(1, 1), (5, 5), (7, 7), (10, 10), (99, 10)])
    def test_messages_are_limited_over_all_partitions(self, log: ottla.Log, limit: int, found: int) -> None:
        assert len(log.read("deliveries", max_messages=limit)) == found

    def test_bytes_are_limited_to_whole_batches_and_at_least_one(self, log: ottla.Log) -> None:
        assert len(log.read("deliveries", max_bytes=1)) == 1
        assert 1 < len(log.read("deliveries", max_bytes=300)) < 10
        assert len(log.read("deliveries", max_bytes="1GiB")) == 10

    def test_more_than_one_step_of_the_engine_is_one_read(
        self, log: ottla.Log, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ottla.client.log._READ_BYTES", 1)
        assert len(log.read("deliveries")) == 10

    def test_below_the_oldest_kept_it_skips_ahead(self, log: ottla.Log) -> None:
        log.trim("deliveries", 0, before=4)
        assert [m.number for m in log.read("deliveries", 0, start=1)] == [4, 5]

    def test_bounds_and_times_are_found(self, log: ottla.Log, clock: ManualClock) -> None:
        assert log.bounds("deliveries", 1) == (1, 6)
        assert log.find("deliveries", 0, "3s ago") == 3
        assert log.find("deliveries", 0, datetime.fromtimestamp(clock.now_ms() / 1000, UTC)) == 6
        with pytest.raises(ottla.InvalidValue, match="time"):
            log.find("deliveries", 0, "earliest")

    def test_trimming_by_number_time_and_all(self, log: ottla.Log) -> None:
        assert log.trim("deliveries", 1, before=3) == {1: (3, 6)}
        assert log.trim("deliveries", before="2s ago") == {0: (4, 6), 1: (4, 6)}
        assert log.trim("deliveries", before="latest") == {0: (6, 6), 1: (6, 6)}
        assert not log.read("deliveries")

    def test_a_number_is_not_trimmed_from_several_partitions_at_once(self, log: ottla.Log) -> None:
        with pytest.raises(ottla.InvalidValue, match="say which one"):
            log.trim("deliveries", before=3)
        assert len(log.read("deliveries")) == 10

    def test_compaction_is_refused_where_the_engine_has_none(self, log: ottla.Log) -> None:
        with pytest.raises(ottla.InvalidValue, match="nothing to compact"):
            log.compact("deliveries")


class TestGroups:
    def test_positions_are_set_listed_and_forgotten(self, log: ottla.Log) -> None:
        log.create_topic("deliveries", partitions=2)
        log.commit("billing", "deliveries", {1: 7})
        assert log.committed("billing", "deliveries") == {1: 7}
        assert [(g.group, g.topic) for g in log.groups()] == [("billing", "deliveries")]
        log.delete_group("billing", "deliveries")
        log.delete_group("billing")
        assert log.groups() == []


class TestRetention:
    """M5, through the log."""

    def test_a_pass_by_hand_follows_the_clock(self, log: ottla.Log, clock: ManualClock) -> None:
        log.create_topic("deliveries", retention="10s")
        log.append("deliveries", [b"x"])
        clock.advance(11_000)
        log.cull()
        assert log.bounds("deliveries") == (2, 2)
        assert log.culler_errors == {}

    def test_the_thread_of_the_log_does_it_by_itself(self) -> None:
        with ottla.open("memory:") as log:
            log.create_topic("deliveries", retention="10ms")
            log.append("deliveries", [b"x"])
            until(lambda: log.bounds("deliveries").first == 2)

    def test_a_retention_that_a_topic_gets_later_counts(self) -> None:
        with ottla.open("memory:") as log:
            log.append("deliveries", [b"x"])
            log.alter_topic("deliveries", retention="10ms")
            until(lambda: log.bounds("deliveries").first == 2)

    def test_a_retention_that_another_process_sets_counts_once_the_topic_is_used(self) -> None:
        with ottla.open("memory:", clock=ManualClock()) as log:
            log.append("deliveries", [b"x"])
            other = ottla.Log(log.engine, "memory:", culler=False)  # as another process would see it
            other.alter_topic("deliveries", retention="10ms")
            before = len(cullers())
            log.append("deliveries", [b"y"])
            assert len(cullers()) == before + 1

    def test_it_can_be_turned_off(self) -> None:
        before = len(cullers())
        with ottla.open("memory:", culler=False) as log:
            log.create_topic("deliveries", retention="10ms")
            log.append("deliveries", [b"x"])
            assert len(cullers()) == before

    def test_a_failed_pass_by_hand_says_so(self, log: ottla.Log, monkeypatch: pytest.MonkeyPatch) -> None:
        log.create_topic("deliveries", retention="10s")

        def fail(*_: object, **__: object) -> Bounds:
            raise ottla.StorageFailed("deliveries/0", "the disk is on fire")

        monkeypatch.setattr(MemoryPartition, "expire", fail)
        with pytest.raises(ottla.StorageFailed, match="on fire"):
            log.cull()


def cullers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ottla-culler"]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.005)


class TestTheEnd:
    def test_closing_sends_what_producers_hold_and_stores_what_consumers_did(self) -> None:
        engine = MemoryEngine(EngineOptions())
        log = ottla.Log(engine, "memory:")
        producer = log.producer("deliveries", linger_ms=60_000)
        future = producer.send(b"x")
        log.append("orders", [b"x"])
        consumer = log.consumer("orders", group="billing", auto_commit=True)
        consumer.poll()
        log.close()
        assert future.result().number == 1
        engine._closed = False  # what is stored is still there, to be looked at
        assert ottla.Log(engine, "memory:").committed("billing", "orders") == {0: 2}

    def test_what_is_closed_says_so(self, log: ottla.Log) -> None:
        log.append("deliveries", [b"x"])
        producer, consumer = log.producer("deliveries"), log.consumer("deliveries")
        log.close()
        log.close()
        for use in (
            log.topics,
            lambda: log.append("deliveries", [b"y"]),
            lambda: log.read("deliveries"),
            lambda: producer.send(b"y"),
            consumer.poll,
        ):
            with pytest.raises(ottla.Closed):
                use()

    def test_the_engine_is_closed_even_if_a_producer_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = ottla.open("memory:")
        producer = log.producer("deliveries", linger_ms=60_000)
        producer.send(b"x")

        def fail(*_: object, **__: object) -> None:
            raise ottla.StorageFull("deliveries/0")

        monkeypatch.setattr(MemoryPartition, "append", fail)
        with pytest.raises(ottla.StorageFull):
            log.close()
        with pytest.raises(ottla.Closed):
            log.topics()

    def test_everything_is_closed_whatever_error_a_producer_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log = ottla.open("memory:")
        log.producer("deliveries", linger_ms=60_000).send(b"x")

        def fail(*_: object, **__: object) -> None:
            raise OSError("of an engine of another package")

        monkeypatch.setattr(MemoryPartition, "append", fail)
        with pytest.raises(OSError, match="another package"):
            log.close()
        with pytest.raises(ottla.Closed):
            log.topics()

    def test_an_error_in_the_block_stores_no_position_of_what_may_not_be_done(self) -> None:
        engine = MemoryEngine(EngineOptions())

        def fail() -> None:
            with ottla.Log(engine, "memory:") as log:
                log.append("deliveries", [b"x"])
                consumer = log.consumer("deliveries", group="billing", auto_commit=True)
                consumer.poll()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        engine._closed = False  # what is stored is still there, to be looked at
        assert ottla.Log(engine, "memory:").committed("billing", "deliveries") == {}

    def test_a_log_opened_read_only_refuses_every_change(self) -> None:
        engine = MemoryEngine(EngineOptions())
        ottla.Log(engine, "memory:").append("deliveries", [b"x"])
        engine._read_only = True
        log = ottla.Log(engine, "memory:", culler=False)
        assert log.read("deliveries").values() == [b"x"]
        for use in (
            lambda: log.create_topic("orders"),
            lambda: log.append("deliveries", [b"y"]),
            lambda: log.append("orders", [b"y"]),
            lambda: log.trim("deliveries", before="latest"),
            lambda: log.alter_topic("deliveries", retention="1d"),
            lambda: log.delete_topic("deliveries"),
            lambda: log.commit("billing", "deliveries", {0: 1}),
            lambda: log.producer("deliveries").send(b"y").result(),
        ):
            with pytest.raises(ottla.ReadOnly):
                use()
        assert log.consumer("deliveries").poll()[0].values() == [b"x"]


class TestUrls:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("memory:", "memory:"),
            ("file:///data/log", "file:///data/log"),
            ("file:///data/log?sync=never&password=hush", "file:///data/log"),
            ("s3://key:hush@bucket/prefix?token=hush", "s3://bucket/prefix"),
            ("grpc://user:hush@host:9999", "grpc://host:9999"),
        ],
    )
    def test_a_log_shows_its_address_without_secrets(self, url: str, shown: str) -> None:
        log = ottla.Log(MemoryEngine(EngineOptions()), url)
        assert log.url == shown
        assert repr(log) == f"Log({shown!r})"
        assert "hush" not in repr(log)

    @pytest.mark.parametrize("url", ["", "memory", "memory:x", "memory:?x=1", "ftp://x", None, 5])
    def test_a_wrong_url_is_refused(self, url: Any) -> None:
        with pytest.raises(ottla.InvalidValue, match="URL"):
            ottla.open(url)

    def test_verify_and_repair_need_an_engine_that_stores_something(self) -> None:
        for use in (ottla.verify, ottla.repair):
            with pytest.raises(ottla.InvalidValue, match="repaired"):
                use("memory:")


class TestForks:
    """Spark forks its workers: parent and child both go on with an open log."""

    @pytest.fixture(params=["memory", "file"])
    def url(self, request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return "memory:" if request.param == "memory" else f"file://{tmp_path}/log"

    def test_parent_and_child_append_read_and_cull(self, url: str) -> None:
        with ottla.open(url) as log:
            log.create_topic("deliveries", retention="7d")  # so a culler runs
            producer = log.producer("deliveries")
            producer.send(b"before").result()
            consumer = log.consumer("deliveries")
            consumer.poll()

            def child() -> bool:
                number = producer.send(b"child").result().number
                found = consumer.poll(timeout=30)[0]
                return found[0].number == 2 == number and len(cullers()) == 1 and len(log.read("deliveries")) == 2

            assert in_child(child)
            shared = not url.startswith("memory")
            assert producer.send(b"parent").result().number == (3 if shared else 2)
            assert consumer.poll(timeout=30)[0].values() == ([b"child"] if shared else []) + [b"parent"]
            log.append("deliveries", [b"again"])
            assert log.read("deliveries")[-1].value == b"again"

    def test_a_child_that_closes_the_log_leaves_the_parents_open(self, url: str) -> None:
        with ottla.open(url) as log:
            log.append("deliveries", [b"x"])

            def child() -> bool:
                log.close()
                return True

            assert in_child(child)
            log.append("deliveries", [b"y"])
            assert log.read("deliveries").values() == [b"x", b"y"]


def in_child(work: Callable[[], bool]) -> bool:
    """Whether *work* returned true in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 2
        except BaseException:
            logging.getLogger("tests").exception("in the forked child")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_closing_the_log_sends_what_a_dropped_producer_holds() -> None:
    log = ottla.open("memory:")
    future = log.producer("deliveries", linger_ms=600_000).send(b"a")
    gc.collect()
    log.close()
    assert future.result().number == 1
