"""Handles on topics: limits, partitions, and the end of a topic."""

from typing import Any

import pytest

from ottla.batch import Batch, Columns, columns_of_lists, columns_of_values
from ottla.clock import ManualClock
from ottla.errors import InvalidValue, MessageTooLarge, TopicRecreated, UnknownPartition
from ottla.log.topics import TopicHandle
from ottla.model import Bounds, Topic
from ottla.storage import Engine, open_engine
from ottla.testing.samples import batch_of, new_topic


@pytest.fixture
def engine() -> Engine:
    return open_engine("memory:", clock=ManualClock())


def handle_on(engine: Engine, **settings: Any) -> TopicHandle:
    return TopicHandle(engine, new_topic(engine, **settings))


def test_appends_are_numbered_and_read_back(engine: Engine) -> None:
    handle = handle_on(engine, partitions=2)
    assert handle.append(1, [batch_of(b"a", b"b")])[0].next == 3
    assert [batch.count for batch in handle.read(1, 1, 1000)] == [2]
    assert handle.bounds(1) == Bounds(1, 3)
    assert handle.bounds(0) == Bounds(1, 1)


def test_one_store_serves_each_partition(engine: Engine) -> None:
    handle = handle_on(engine)
    assert handle.partition(0) is handle.partition(0)


@pytest.mark.parametrize("index", [1, 7])
def test_a_partition_beyond_the_last_is_unknown(engine: Engine, index: int) -> None:
    with pytest.raises(UnknownPartition, match="0 to 0"):
        handle_on(engine).partition(index)


@pytest.mark.parametrize("index", [-1, True, "0", 0.0, None])
def test_a_partition_is_a_whole_number(engine: Engine, index: int) -> None:
    handle = handle_on(engine, partitions=2)
    handle.partition(0)
    handle.partition(1)
    with pytest.raises(InvalidValue, match="partition"):
        handle.partition(index)


def test_a_partition_added_later_is_reached_through_an_old_handle(engine: Engine) -> None:
    handle = handle_on(engine)
    topic = handle.current()
    engine.alter_topic(
        Topic(
            name=topic.name,
            id=topic.id,
            created_ms=0,
            settings=topic.settings.changed(partitions=2),
            version=topic.version,
        )
    )
    assert handle.bounds(1) == Bounds(1, 1)


def test_a_message_over_the_topics_limit_is_refused_and_nothing_is_written(engine: Engine) -> None:
    handle = handle_on(engine, max_message_bytes=10)
    handle.append(0, [batch_of(b"x" * 10)])
    with pytest.raises(MessageTooLarge, match="max_message_bytes") as refused:
        handle.append(0, [batch_of(b"small"), batch_of(b"x" * 11)])
    assert (refused.value.size, refused.value.limit) == (11, 10)
    assert handle.bounds(0).next == 2


def test_key_and_headers_count_as_part_of_a_message(engine: Engine) -> None:
    handle = handle_on(engine, max_message_bytes=10)
    with pytest.raises(MessageTooLarge):
        handle.append(0, [Batch.pack(columns_of_lists([b"12345"], keys=[b"123456"]))])


def test_many_small_messages_may_be_larger_together_than_one_may_be(engine: Engine) -> None:
    handle = handle_on(engine, max_message_bytes=10)
    assert handle.append(0, [batch_of(*[b"x" * 10] * 100)])[0].count == 100


def test_compression_does_not_hide_a_message_that_is_too_large(engine: Engine) -> None:
    handle = handle_on(engine, max_message_bytes=1000)
    squeezed = Batch.pack(columns_of_values([bytes(100_000)]), compression="zstd")
    assert squeezed.size < 1000
    with pytest.raises(MessageTooLarge):
        handle.append(0, [Batch.parse(squeezed.to_bytes())])


def test_a_batch_over_the_largest_is_refused(engine: Engine) -> None:
    handle = handle_on(engine)
    with pytest.raises(MessageTooLarge, match="a batch"):
        handle.append(0, [Batch.pack(_columns(3, 7 * 2**20))])


def test_a_single_message_may_be_larger_than_the_largest_batch_if_its_topic_says_so(engine: Engine) -> None:
    handle = handle_on(engine, max_message_bytes="20MiB")
    assert handle.append(0, [Batch.pack(_columns(1, 20 * 2**20))])[0].first == 1


def _columns(count: int, size: int) -> Columns:
    return columns_of_values([bytes(size)] * count)


def test_appending_nothing_is_an_error(engine: Engine) -> None:
    """K9: writing an empty list is an error, an empty value is not."""
    handle = handle_on(engine)
    with pytest.raises(InvalidValue, match="at least one"):
        handle.append(0, [])
    assert handle.append(0, [batch_of(b"")])[0].first == 1


def test_a_handle_on_a_deleted_topic_says_so(engine: Engine) -> None:
    handle = handle_on(engine)
    handle.append(0, [batch_of(b"old")])
    engine.delete_topic(handle.name)
    for use in (handle.current, lambda: handle.read(0, 1, 100), lambda: handle.append(0, [batch_of(b"x")])):
        with pytest.raises(TopicRecreated):
            use()


def test_a_handle_never_meets_the_topic_that_took_the_name(engine: Engine) -> None:
    handle = handle_on(engine)
    engine.delete_topic(handle.name)
    successor = handle_on(engine)
    with pytest.raises(TopicRecreated, match=handle.id):
        handle.append(0, [batch_of(b"x")])
    assert successor.bounds(0) == Bounds(1, 1)


def test_whoever_watches_is_told_of_the_topic_when_its_settings_are_looked_at(engine: Engine) -> None:
    seen: list[Topic] = []
    handle = TopicHandle(engine, new_topic(engine), seen.append)
    assert not seen
    handle.append(0, [batch_of(b"x")])
    assert {topic.id for topic in seen} == {handle.id}
