"""Consumers: positions, polling, waiting, gaps, groups."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.batch import Batch
from ottla.client.consumer import Consumer
from ottla.client.reader import Gap
from ottla.clock import ManualClock
from ottla.errors import Closed, InvalidValue, MessagesLost, TopicRecreated, UnknownPartition
from ottla.log.groups import Groups
from ottla.log.topics import TopicHandle
from ottla.storage import Engine, open_engine
from ottla.testing.samples import batch_of, new_topic

LONG = 30.0
"""Seconds that a test is willing to wait for what must come; never asserted."""


class Bench:
    """A topic on a memory engine, with a hand-moved clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.engine: Engine = open_engine("memory:", clock=self.clock)
        self.groups = Groups(self.engine, self.clock)
        self.handle = TopicHandle(self.engine, new_topic(self.engine))

    def topic(self, **settings: Any) -> TopicHandle:
        self.engine.delete_topic(self.handle.name)
        self.handle = TopicHandle(self.engine, new_topic(self.engine, **settings))
        return self.handle

    def post(self, *values: bytes, partition: int = 0) -> None:
        """One batch for all."""
        self.handle.append(partition, [batch_of(*values)])

    def consumer(self, **options: Any) -> Consumer:
        return Consumer(self.handle, clock=self.clock, groups=self.groups, **options)

    def trim(self, before: int, partition: int = 0) -> None:
        self.handle.partition(partition).trim(before)

    def add_partitions(self, total: int) -> None:
        topic = self.handle.current()
        self.engine.alter_topic(replace(topic, settings=topic.settings.changed(partitions=total)))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def soon(work: Callable[[], object]) -> threading.Timer:
    """Do it when the caller probably waits already; either way the test must hold."""
    timer = threading.Timer(0.02, work)
    timer.start()
    return timer


class TestPolling:
    def test_a_poll_gives_what_is_there_and_the_position_after_it(self, bench: Bench) -> None:
        """M3: three and 4; at the tail none and 4; after one more one and 5; emptied by retention none and 5."""
        bench.post(b"a", b"b", b"c")
        consumer = bench.consumer(start=1)
        messages, position = consumer.poll()
        assert (messages.values(), position) == ([b"a", b"b", b"c"], 4)
        messages, position = consumer.poll()
        assert (list(messages), position) == ([], 4)
        bench.post(b"d")
        messages, position = consumer.poll()
        assert (messages.values(), position) == ([b"d"], 5)
        bench.trim(5)
        messages, position = consumer.poll()
        assert (list(messages), position) == ([], 5)

    def test_messages_say_where_they_are(self, bench: Bench) -> None:
        bench.post(b"a", b"b")
        messages, _ = bench.consumer(start=2).poll()
        (message,) = messages
        assert (message.topic, message.partition, message.number) == ("deliveries", 0, 2)
        assert message.timestamp_ms == bench.clock.now_ms()

    def test_consuming_removes_nothing_and_consumers_go_at_their_own_pace(self, bench: Bench) -> None:
        """M4: the position is the consumer's own."""
        bench.post(b"a", b"b")
        fast, slow = bench.consumer(), bench.consumer()
        assert fast.poll()[1] == 3
        assert slow.poll(max_messages=1)[1] == 2
        assert (fast.position, slow.position) == (3, 2)
        assert bench.consumer().poll()[0].values() == [b"a", b"b"]

    def test_a_batch_larger_than_the_poll_is_handed_over_in_pieces(self, bench: Bench) -> None:
        bench.post(*(b"%d" % n for n in range(10)))
        consumer = bench.consumer()
        pieces = [consumer.poll(max_messages=3) for _ in range(4)]
        assert [position for _, position in pieces] == [4, 7, 10, 11]
        assert [v for messages, _ in pieces for v in messages.values()] == [b"%d" % n for n in range(10)]

    def test_the_rest_of_a_batch_is_not_read_again(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.post(*(b"%d" % n for n in range(10)))
        consumer = bench.consumer()
        reads = []
        store = bench.handle.partition(0)
        read = store.read

        def counted(*args: int) -> list[Batch]:
            reads.append(args)
            return read(*args)

        monkeypatch.setattr(store, "read", counted)
        assert [consumer.poll(max_messages=1)[1] for _ in range(10)] == list(range(2, 12))
        assert len(reads) == 1

    def test_bytes_are_limited_to_whole_batches_and_at_least_one(self, bench: Bench) -> None:
        for _ in range(4):
            bench.post(b"x" * 1000)
        size = batch_of(b"x" * 1000).size
        consumer = bench.consumer()
        assert len(consumer.poll(max_bytes=1)[0]) == 1
        assert len(consumer.poll(max_bytes=2 * size)[0]) == 2
        assert len(consumer.poll(max_bytes="1MiB")[0]) == 1

    def test_limits_of_the_consumer_count_where_the_poll_gives_none(self, bench: Bench) -> None:
        bench.post(b"a", b"b", b"c")
        assert len(bench.consumer(max_messages=2).poll()[0]) == 2

    def test_a_poll_waits_for_what_comes(self, bench: Bench) -> None:
        consumer = bench.consumer()
        poster = soon(lambda: bench.post(b"late"))
        messages, position = consumer.poll(timeout=LONG)
        assert (messages.values(), position) == ([b"late"], 2)
        poster.join()

    def test_a_poll_without_a_timeout_waits_for_ever(self, bench: Bench) -> None:
        consumer = bench.consumer()
        poster = soon(lambda: bench.post(b"late"))
        assert len(consumer.poll(timeout=None)[0]) == 1
        poster.join()

    def test_a_poll_gives_up_when_the_time_is_over(self, bench: Bench) -> None:
        messages, position = bench.consumer().poll(timeout=0.01)
        assert (list(messages), position) == ([], 1)

    def test_a_position_beyond_the_end_waits_for_that_number(self, bench: Bench) -> None:
        bench.post(b"a")
        consumer = bench.consumer(start=3)
        assert consumer.poll()[1] == 3
        bench.post(b"b")
        assert list(consumer.poll(timeout=0.01)[0]) == []
        bench.post(b"c", b"d")
        assert consumer.poll()[0].values() == [b"c", b"d"]

    def test_a_topic_that_is_deleted_is_an_error_also_for_one_who_waits(self, bench: Bench) -> None:
        consumer = bench.consumer()
        deleter = soon(lambda: bench.engine.delete_topic("deliveries"))
        with pytest.raises(TopicRecreated):
            consumer.poll(timeout=LONG)
        deleter.join()

    def test_a_topic_that_is_created_again_is_not_read(self, bench: Bench) -> None:
        bench.post(b"old")
        consumer = bench.consumer()
        bench.topic()
        bench.post(b"new")
        with pytest.raises(TopicRecreated):
            consumer.poll()

    @pytest.mark.parametrize("wrong", [-1, -0.1, float("nan"), "1s", True, [1]])
    def test_a_timeout_is_seconds(self, bench: Bench, wrong: Any) -> None:
        with pytest.raises(InvalidValue, match="timeout"):
            bench.consumer().poll(wrong)

    @pytest.mark.parametrize(
        "limits", [{"max_messages": 0}, {"max_messages": 1.5}, {"max_bytes": 0}, {"max_bytes": "many"}]
    )
    def test_limits_are_checked(self, bench: Bench, limits: dict[str, Any]) -> None:
        with pytest.raises(InvalidValue, match="max_"):
            bench.consumer().poll(**limits)
        with pytest.raises(InvalidValue, match="max_"):
            bench.consumer(**limits)


class TestStarting:
    """K1: consumers choose where to start."""

    @pytest.fixture(autouse=True)
    def five(self, bench: Bench) -> None:
        for value in (b"1", b"2", b"3", b"4", b"5"):
            bench.post(value)
            bench.clock.advance(1000)
        bench.trim(2)

    @pytest.mark.parametrize(
        ("start", "position"),
        [
            (None, 2),
            ("earliest", 2),
            ("latest", 6),
            (4, 4),
            ("2s ago", 4),
            ("1970-01-01T00:16:42Z", 3),
            (datetime.fromtimestamp(1_002.5, UTC), 4),
            ({0: 3}, 3),
            ({0: "latest"}, 6),
            ({}, 2),
        ],
    )
    def test_a_start_is_a_word_a_number_or_a_time(self, bench: Bench, start: Any, position: int) -> None:
        assert bench.consumer(start=start).position == position

    @pytest.mark.parametrize("start", [0, -1, "now", 1.5, False, {1: 5}, {0: 0}, {0: "now"}])
    def test_anything_else_is_refused(self, bench: Bench, start: Any) -> None:
        with pytest.raises(InvalidValue):
            bench.consumer(start=start)

    def test_latest_sees_what_comes_after_the_consumer_was_made(self, bench: Bench) -> None:
        consumer = bench.consumer(start="latest")
        bench.post(b"new")
        assert consumer.poll()[0].values() == [b"new"]

    def test_seek_moves_there_and_back(self, bench: Bench) -> None:
        consumer = bench.consumer()
        consumer.poll()
        consumer.seek(3)
        assert consumer.poll()[0].values() == [b"3", b"4", b"5"]
        for start, position in (("earliest", 2), ("latest", 6), ("1s ago", 5), ({0: 4}, 4)):
            consumer.seek(start)
            assert consumer.position == position

    @pytest.mark.parametrize("wrong", [0, "now", {1: 3}, {0: -3}])
    def test_a_wrong_seek_moves_nothing(self, bench: Bench, wrong: Any) -> None:
        consumer = bench.consumer(start=4)
        with pytest.raises(InvalidValue):
            consumer.seek(wrong)
        assert consumer.position == 4

    def test_lag_counts_what_is_kept_and_not_read(self, bench: Bench) -> None:
        consumer = bench.consumer(start=1)
        assert consumer.lag() == (4, {0: 4})
        consumer.seek(5)
        assert consumer.lag().total == 1
        consumer.seek(100)
        assert consumer.lag().total == 0


class TestPartitions:
    @pytest.fixture(autouse=True)
    def three(self, bench: Bench) -> None:
        bench.topic(partitions=3)

    def test_the_position_of_several_partitions_is_a_mapping(self, bench: Bench) -> None:
        bench.post(b"a", b"b", partition=0)
        bench.post(b"c", partition=2)
        consumer = bench.consumer()
        assert consumer.position == {0: 1, 1: 1, 2: 1}
        messages, position = consumer.poll()
        assert sorted(m.value for m in messages if m.value) == [b"a", b"b", b"c"]
        assert position == {0: 3, 1: 1, 2: 2}

    def test_a_consumer_may_read_one_or_some(self, bench: Bench) -> None:
        for partition in range(3):
            bench.post(b"%d" % partition, partition=partition)
        one, some = bench.consumer(partition=1), bench.consumer(partitions=[2, 0])
        assert (one.poll()[0].values(), one.position) == ([b"1"], 2)
        assert (set(some.poll()[0].values()), some.position) == ({b"0", b"2"}, {2: 2, 0: 2})

    def test_a_busy_partition_does_not_starve_the_others(self, bench: Bench) -> None:
        bench.post(*[b"busy"] * 100, partition=0)
        for partition in (1, 2):
            bench.post(b"quiet", partition=partition)
        consumer = bench.consumer()
        seen = [consumer.poll(max_messages=1)[0][0].partition for _ in range(3)]
        assert sorted(seen) == [0, 1, 2]

    def test_small_polls_over_many_partitions_keep_little_in_memory(self, bench: Bench) -> None:
        for partition in range(3):
            for _ in range(50):
                bench.post(*[b"x" * 100] * 10, partition=partition)
        consumer = bench.consumer(max_bytes=5000)
        for _ in range(9):
            consumer.poll(max_messages=1)
        assert sum(reader.bytes_ahead for reader in consumer._readers.values()) <= 4 * 5000
        assert consumer.position == {0: 4, 1: 4, 2: 4}

    def test_each_partition_comes_whole_and_in_order(self, bench: Bench) -> None:
        for number in range(1, 41):
            for partition in range(3):
                bench.post(b"%d" % number, partition=partition)
        consumer = bench.consumer()
        seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
        while messages := consumer.poll(max_messages=7)[0]:
            for message in messages:
                seen[message.partition].append(message.number)
        assert list(seen.values()) == [list(range(1, 41))] * 3

    def test_partitions_added_while_running_are_found_and_read_from_1(self, bench: Bench) -> None:
        """K4, and even by one that started at latest."""
        bench.post(b"old", partition=0)
        consumer = bench.consumer(start="latest")
        bench.add_partitions(5)
        bench.post(b"new", partition=4)
        messages, position = consumer.poll(timeout=LONG)
        assert messages.values() == [b"new"]
        assert position == {0: 2, 1: 1, 2: 1, 3: 1, 4: 2}

    def test_chosen_partitions_stay_the_chosen_ones(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ottla.client.consumer._LOOK_AGAIN_S", 0.0)
        consumer = bench.consumer(partitions=[0, 1, 2])
        bench.add_partitions(4)
        bench.post(b"new", partition=3)
        assert not consumer.poll()[0]

    def test_seek_and_lag_by_partition(self, bench: Bench) -> None:
        bench.post(b"a", b"b", partition=0)
        bench.post(b"c", partition=1)
        consumer = bench.consumer()
        consumer.seek({0: 2})
        assert consumer.position == {0: 2, 1: 1, 2: 1}
        assert consumer.lag() == (2, {0: 1, 1: 1, 2: 0})
        consumer.seek("latest")
        assert consumer.position == {0: 3, 1: 2, 2: 1}

    def test_a_position_is_a_start(self, bench: Bench) -> None:
        for partition in range(3):
            bench.post(b"a", b"b", partition=partition)
        first = bench.consumer()
        first.poll(max_messages=3)
        second = bench.consumer(start=first.position)
        assert second.position == first.position
        assert len(second.poll()[0]) == 3

    def test_an_error_in_one_partition_does_not_lose_what_was_found_in_another(self, bench: Bench) -> None:
        for partition in range(3):
            bench.post(b"a", b"b", partition=partition)
        consumer = bench.consumer(start=1)
        bench.trim(2, partition=1)
        messages, position = consumer.poll()
        assert (len(messages), position) == (2, {0: 3, 1: 1, 2: 1})
        with pytest.raises(MessagesLost):
            consumer.poll()
        assert consumer.position == position

    @pytest.mark.parametrize(
        "choice",
        [
            {"partition": -1},
            {"partition": "0"},
            {"partition": True},
            {"partition": 0, "partitions": [1]},
            {"partitions": []},
            {"partitions": "01"},
            {"partitions": 1},
            {"partitions": [0, -1]},
        ],
    )
    def test_a_wrong_choice_is_refused(self, bench: Bench, choice: dict[str, Any]) -> None:
        with pytest.raises(InvalidValue, match="partition"):
            bench.consumer(**choice)

    @pytest.mark.parametrize("choice", [{"partition": 3}, {"partitions": [0, 7]}])
    def test_an_unknown_partition_is_refused(self, bench: Bench, choice: dict[str, Any]) -> None:
        with pytest.raises(UnknownPartition):
            bench.consumer(**choice)


class TestGaps:
    """When retention overtook the position, a consumer says so."""

    @pytest.fixture(autouse=True)
    def ten(self, bench: Bench) -> None:
        for number in range(1, 11):
            bench.post(b"%d" % number)

    def test_by_default_it_is_an_error_that_names_what_was_lost(self, bench: Bench) -> None:
        consumer = bench.consumer()
        consumer.poll(max_messages=2)
        bench.trim(7)
        for _ in range(2):
            with pytest.raises(MessagesLost, match="messages 3 to 6 of deliveries/0") as lost:
                consumer.poll()
        assert consumer.position == 3
        consumer.seek(lost.value.first)
        assert consumer.poll()[0][0].number == 7

    def test_messages_kept_from_an_earlier_poll_do_not_hide_it(self, bench: Bench) -> None:
        bench.topic()
        bench.post(*(b"%d" % n for n in range(10)))
        consumer = bench.consumer()
        consumer.poll(max_messages=2)
        bench.trim(6)
        with pytest.raises(MessagesLost):
            consumer.poll(max_messages=2)
        consumer.seek("earliest")
        assert [m.number for m in consumer.poll()[0]] == [6, 7, 8, 9, 10]

    def test_everything_lost_is_a_gap_too(self, bench: Bench) -> None:
        consumer = bench.consumer()
        bench.trim(11)
        with pytest.raises(MessagesLost) as lost:
            consumer.poll()
        assert (lost.value.start, lost.value.first) == (1, 11)

    def test_retention_that_comes_between_looking_and_reading_is_noticed(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        consumer = bench.consumer()
        store = bench.handle.partition(0)
        read = store.read
        monkeypatch.setattr(store, "read", lambda *args: (store.trim(4), read(*args))[1])
        with pytest.raises(MessagesLost, match="1 to 3"):
            consumer.poll()

    def test_skip_goes_on_and_reports_it(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        consumer = bench.consumer(on_gap="skip")
        consumer.poll(max_messages=2)
        bench.trim(7)
        with caplog.at_level(logging.WARNING, "ottla"):
            messages, position = consumer.poll()
        assert ([message.number for message in messages], position) == ([7, 8, 9, 10], 11)
        assert list(consumer.gaps) == [Gap("deliveries", 0, 3, 7)]
        assert consumer.gaps[0].messages == 4
        assert "messages 3 to 6" in caplog.text

    def test_skip_over_everything_waits_at_the_end(self, bench: Bench) -> None:
        consumer = bench.consumer(start=1, on_gap="skip")
        bench.trim(11)
        messages, position = consumer.poll()
        assert (list(messages), position) == ([], 11)
        assert consumer.gaps[0].messages == 10

    def test_without_a_gap_nothing_is_reported(self, bench: Bench) -> None:
        consumer = bench.consumer(on_gap="skip")
        consumer.poll()
        bench.trim(11)
        consumer.poll()
        assert not consumer.gaps

    @pytest.mark.parametrize("wrong", ["ignore", None, True])
    def test_there_are_two_ways(self, bench: Bench, wrong: Any) -> None:
        with pytest.raises(InvalidValue, match="on_gap"):
            bench.consumer(on_gap=wrong)


class TestIteration:
    def test_messages_come_one_by_one_and_follow_the_tail_until_closed(self, bench: Bench) -> None:
        bench.post(b"1", b"2")
        consumer = bench.consumer()
        seen = []
        for message in consumer:
            seen.append(message.value)
            if len(seen) == 2:
                bench.post(b"3")
            if len(seen) == 3:
                consumer.close()
        assert seen == [b"1", b"2", b"3"]

    def test_another_thread_may_end_it(self, bench: Bench) -> None:
        consumer = bench.consumer()
        seen: list[object] = []
        follower = in_background(lambda: seen.extend(consumer))
        consumer.close()
        follower.join(LONG)
        assert not follower.is_alive()
        assert seen == []

    def test_the_position_moves_with_each_message(self, bench: Bench) -> None:
        bench.post(b"1", b"2", b"3")
        consumer = bench.consumer()
        assert [consumer.position for _ in consumer.follow(idle_timeout=0)] == [2, 3, 4]

    def test_after_a_break_it_goes_on_behind_the_last_message(self, bench: Bench) -> None:
        bench.post(b"1", b"2", b"3")
        consumer = bench.consumer()
        for _ in consumer:
            break
        assert consumer.poll()[0].values() == [b"2", b"3"]

    def test_it_stops_when_nothing_comes_for_a_while(self, bench: Bench) -> None:
        bench.post(b"1")
        assert [m.value for m in bench.consumer().follow(idle_timeout=0.01)] == [b"1"]

    def test_a_seek_inside_the_loop_counts(self, bench: Bench) -> None:
        bench.post(b"1", b"2", b"3", b"4")
        consumer = bench.consumer()
        seen = []
        for message in consumer.follow(idle_timeout=0):
            seen.append(message.number)
            if seen == [1]:
                consumer.seek(4)
        assert seen == [1, 4]

    def test_a_poll_inside_the_loop_takes_its_messages_out_of_it(self, bench: Bench) -> None:
        bench.post(b"1", b"2", b"3", b"4")
        consumer = bench.consumer()
        seen = []
        for message in consumer.follow(idle_timeout=0):
            seen.append(message.number)
            if seen == [1]:
                seen += [m.number for m in consumer.poll(max_messages=2)[0]]
        assert seen == [1, 2, 3, 4]

    def test_batches_stay_columns(self, bench: Bench) -> None:
        for value in (b"1", b"2", b"3"):
            bench.post(value)
        consumer = bench.consumer(max_messages=2)
        tables = [messages.to_arrow() for messages in consumer.batches(idle_timeout=0)]
        assert [table["number"].to_pylist() for table in tables] == [[1, 2], [3]]
        assert consumer.position == 4


class TestGroups:
    @pytest.fixture(autouse=True)
    def five(self, bench: Bench) -> None:
        for value in (b"1", b"2", b"3", b"4", b"5"):
            bench.post(value)

    def test_a_group_resumes_where_it_committed(self, bench: Bench) -> None:
        consumer = bench.consumer(group="billing")
        assert consumer.committed() is None
        consumer.poll(max_messages=2)
        consumer.commit()
        consumer.poll(max_messages=1)
        assert consumer.committed() == 3
        assert bench.consumer(group="billing").position == 3
        assert bench.consumer(group="shipping").position == 1

    def test_a_start_that_is_given_counts_more_than_what_was_committed(self, bench: Bench) -> None:
        """M4: the start position is the caller's."""
        bench.groups.commit("billing", bench.handle.current(), {0: 3})
        assert bench.consumer(group="billing", start="latest").position == 6

    def test_a_committed_position_that_retention_overtook_is_a_gap(self, bench: Bench) -> None:
        bench.groups.commit("billing", bench.handle.current(), {0: 2})
        bench.trim(4)
        with pytest.raises(MessagesLost, match="2 to 3"):
            bench.consumer(group="billing").poll()

    def test_automatic_commits_store_what_the_poll_before_returned(self, bench: Bench) -> None:
        consumer = bench.consumer(group="billing", auto_commit=True)
        consumer.poll(max_messages=2)
        assert consumer.committed() is None
        consumer.poll(max_messages=2)
        assert consumer.committed() == 3
        consumer.close()
        assert bench.groups.committed("billing", bench.handle.current()) == {0: 5}

    def test_automatic_commits_never_count_the_message_in_hand(self, bench: Bench) -> None:
        """A loop that fails in the middle of a message gets that message again: at least once."""
        with bench.consumer(group="billing", auto_commit=True) as consumer:
            for message in consumer:
                if message.number == 3:
                    break
        assert bench.consumer(group="billing").poll()[0][0].number == 3

    def test_a_with_block_that_fails_does_not_commit_what_was_in_hand(self, bench: Bench) -> None:
        def work() -> None:
            with bench.consumer(group="billing", auto_commit=True) as consumer:
                consumer.poll(max_messages=2)
                consumer.poll(max_messages=2)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        assert bench.consumer(group="billing").position == 3

    def test_without_automatic_commits_nothing_is_stored(self, bench: Bench) -> None:
        with bench.consumer(group="billing") as consumer:
            consumer.poll()
            consumer.poll()
        assert bench.groups.all() == []

    def test_automatic_commits_leave_partitions_alone_that_did_not_move(self, bench: Bench) -> None:
        bench.topic(partitions=2)
        bench.post(b"a", partition=0)
        bench.post(b"b", partition=1)
        topic = bench.handle.current()
        consumer = bench.consumer(group="billing", auto_commit=True)
        consumer.poll(max_messages=1)
        bench.groups.commit("billing", topic, {1: 2})
        consumer.close()
        assert bench.groups.committed("billing", topic) == {0: 2, 1: 2}

    def test_consumers_of_different_partitions_share_a_group(self, bench: Bench) -> None:
        bench.topic(partitions=2)
        for partition in range(2):
            bench.post(b"a", partition=partition)
            with bench.consumer(group="billing", partition=partition, auto_commit=True) as consumer:
                consumer.poll()
        assert bench.consumer(group="billing").committed() == {0: 2, 1: 2}

    def test_positions_without_a_group_cannot_be_stored(self, bench: Bench) -> None:
        consumer = bench.consumer()
        for use in (consumer.commit, consumer.committed):
            with pytest.raises(InvalidValue, match="group"):
                use()
        with pytest.raises(InvalidValue, match="group"):
            bench.consumer(auto_commit=True)

    @pytest.mark.parametrize("name", ["", "a/b", "..", 5])
    def test_a_group_needs_a_proper_name(self, bench: Bench, name: Any) -> None:
        with pytest.raises(InvalidValue, match="group name"):
            bench.consumer(group=name)


class TestClosing:
    def test_iteration_ends_when_the_consumer_is_closed_on_the_way_to_a_look(self, bench: Bench) -> None:
        consumer = bench.consumer()

        class ClosedMeanwhile:
            def __enter__(self) -> None:
                consumer.stop()

            def __exit__(self, *_: object) -> None: ...

        consumer._lock = ClosedMeanwhile()  # type: ignore[assignment]
        assert list(consumer) == []

    def test_closing_asks_nothing_of_a_deleted_topic_if_there_is_nothing_to_store(self, bench: Bench) -> None:
        consumer = bench.consumer(group="billing", auto_commit=True)
        bench.engine.delete_topic(bench.handle.name)
        consumer.close()

    def test_a_closed_consumer_says_so(self, bench: Bench) -> None:
        with bench.consumer(group="billing") as consumer:
            pass
        consumer.close()
        for use in (consumer.poll, consumer.lag, consumer.commit, consumer.committed, lambda: consumer.seek(1)):
            with pytest.raises(Closed, match="consumer"):
                use()
        assert list(consumer) == []

    def test_a_poll_that_waits_in_another_thread_returns(self, bench: Bench) -> None:
        consumer = bench.consumer()
        results: list[Any] = []

        def wait() -> None:
            try:
                results.append(consumer.poll(timeout=None))
            except Closed:
                results.append(None)  # it was closed before the poll began

        waiter = in_background(wait)
        consumer.close()
        waiter.join(LONG)
        assert len(results) == 1

    def test_its_name_shows_where_it_is(self, bench: Bench) -> None:
        assert repr(bench.consumer()) == "Consumer('deliveries', position 1)"
