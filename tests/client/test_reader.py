"""Reading one partition: what is kept between reads, and never past a limit."""

import pytest

from ottla.batch import Batch
from ottla.client.reader import PartitionReader
from ottla.clock import ManualClock
from ottla.errors import MessagesLost
from ottla.log.topics import TopicHandle
from ottla.storage import open_engine
from ottla.testing.samples import batch_of, new_topic


@pytest.fixture
def handle() -> TopicHandle:
    engine = open_engine("memory:", clock=ManualClock())
    handle = TopicHandle(engine, new_topic(engine))
    for first in (1, 4, 7):
        handle.append(0, [batch_of(*(b"%d" % number for number in range(first, first + 3)))])
    return handle


def test_reading_does_not_move(handle: TopicHandle) -> None:
    reader = PartitionReader(handle, 0, 2)
    for _ in range(2):
        assert [m.number for m in reader.read(4, 2**20)[0]] == [2, 3, 4, 5]


def test_what_was_read_and_not_used_is_kept(handle: TopicHandle) -> None:
    reader = PartitionReader(handle, 0, 1)
    reader.read(4, 2**20)
    size = batch_of(b"1", b"2", b"3").size
    assert reader.bytes_ahead == 2 * size
    reader.position = 5
    assert [m.number for m in reader.read(100, 2**20)[0]] == [5, 6, 7, 8, 9]
    assert reader.bytes_ahead == 0


def test_what_is_kept_respects_the_bytes_of_the_next_read(handle: TopicHandle) -> None:
    reader = PartitionReader(handle, 0, 1)
    reader.read(1, 2**20)
    reader.position = 2
    messages, size = reader.read(100, 1)
    assert [m.number for m in messages] == [2, 3]
    assert size == batch_of(b"1", b"2", b"3").size


def test_a_position_that_moved_elsewhere_is_read_anew(handle: TopicHandle) -> None:
    reader = PartitionReader(handle, 0, 5)
    reader.read(1, 2**20)
    for position in (1, 8, 6):
        reader.position = position
        assert reader.read(1, 2**20)[0][0].number == position


def test_part_of_a_batch_that_was_trimmed_is_lost_like_a_whole_one(handle: TopicHandle) -> None:
    handle.partition(0).trim(3)
    reader = PartitionReader(handle, 0, 2)
    with pytest.raises(MessagesLost) as lost:
        reader.read(100, 2**20)
    assert (lost.value.start, lost.value.first) == (2, 3)
    reader.position = 3
    assert reader.read(1, 2**20)[0][0].number == 3


def test_at_the_tail_and_beyond_there_is_nothing(handle: TopicHandle) -> None:
    for position in (10, 99):
        reader = PartitionReader(handle, 0, position)
        assert len(reader.read(1, 1)[0]) == 0
        assert reader.lag() == 0


def test_a_hole_is_reported_and_what_lies_behind_it_is_read_once(
    handle: TopicHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a repair leaves it: batches before and after, and nothing between."""
    reader = PartitionReader(handle, 0, 1)
    read = reader.store.read

    def with_a_hole(start: int, max_bytes: int) -> list[Batch]:
        return [batch for batch in read(start, max_bytes) if batch.first_number != 4]

    monkeypatch.setattr(reader.store, "read", with_a_hole)
    assert [m.number for m in reader.read(100, 2**20)[0]] == [1, 2, 3]
    reader.position = 4
    with pytest.raises(MessagesLost) as lost:
        reader.read(100, 2**20)
    assert (lost.value.start, lost.value.first) == (4, 7)
    reader.position = 7
    assert [m.number for m in reader.read(100, 2**20)[0]] == [7, 8, 9]


def test_a_hole_at_the_end_leads_to_the_end(handle: TopicHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = PartitionReader(handle, 0, 7)
    monkeypatch.setattr(reader.store, "read", lambda *_: [])
    with pytest.raises(MessagesLost) as lost:
        reader.read(100, 2**20)
    assert (lost.value.start, lost.value.first) == (7, 10)
