"""Named groups: positions that are merged, never mixed up, and gone with their topic."""

import threading
from collections.abc import Mapping

import pytest

from ottla.clock import ManualClock
from ottla.errors import InvalidValue, MetadataConflict, UnknownPartition
from ottla.log.groups import Groups
from ottla.storage import Engine, open_engine
from ottla.testing.samples import new_topic


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(clock: ManualClock) -> Engine:
    return open_engine("memory:", clock=clock)


@pytest.fixture
def groups(engine: Engine, clock: ManualClock) -> Groups:
    return Groups(engine, clock)


def test_what_is_committed_is_read_back(engine: Engine, groups: Groups) -> None:
    topic = new_topic(engine, partitions=4)
    assert groups.committed("billing", topic) == {}
    groups.commit("billing", topic, {0: 5, 3: 17})
    assert groups.committed("billing", topic) == {0: 5, 3: 17}
    assert groups.committed("shipping", topic) == {}


def test_commits_of_different_partitions_are_merged(engine: Engine, groups: Groups) -> None:
    topic = new_topic(engine, partitions=4)
    groups.commit("billing", topic, {0: 5})
    groups.commit("billing", topic, {1: 6})
    groups.commit("billing", topic, {0: 2})
    assert groups.committed("billing", topic) == {0: 2, 1: 6}


def test_a_commit_that_another_one_overtakes_is_merged_into_it(
    engine: Engine, groups: Groups, clock: ManualClock
) -> None:
    """Compare-and-swap: between this commit's read and its write, the other one is stored."""
    topic = new_topic(engine, partitions=2)

    class Overtaken:
        def __init__(self) -> None:
            self.conflicts = 0

        def load(self, key: str) -> object:
            found = engine.load(key)
            if not self.conflicts:
                groups.commit("billing", topic, {1: 9})
            return found

        def store(self, key: str, data: bytes, version: int) -> int:
            try:
                return engine.store(key, data, version)
            except MetadataConflict:
                self.conflicts += 1
                raise

    overtaken = Overtaken()
    Groups(overtaken, clock).commit("billing", topic, {0: 3})  # type: ignore[arg-type]  # the two methods that it uses
    assert overtaken.conflicts == 1
    assert groups.committed("billing", topic) == {0: 3, 1: 9}


def test_many_threads_commit_their_own_partitions(engine: Engine, groups: Groups) -> None:
    topic = new_topic(engine, partitions=8)

    def count(partition: int) -> None:
        for number in range(1, 51):
            groups.commit("billing", topic, {partition: number})

    threads = [threading.Thread(target=count, args=(partition,)) for partition in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert groups.committed("billing", topic) == dict.fromkeys(range(8), 50)


def test_positions_never_apply_to_a_topic_that_took_the_name(engine: Engine, groups: Groups) -> None:
    topic = new_topic(engine)
    groups.commit("billing", topic, {0: 5})
    engine.delete_topic(topic.name)
    assert groups.committed("billing", new_topic(engine)) == {}
    assert groups.all() == []


def test_every_group_is_listed_with_its_topics(engine: Engine, groups: Groups, clock: ManualClock) -> None:
    for name in ("orders", "deliveries"):
        groups.commit("billing", new_topic(engine, name), {0: 2})
    clock.advance(5)
    groups.commit("audit", engine.topic("orders"), {0: 3})
    assert [(found.group, found.topic, dict(found.positions)) for found in groups.all()] == [
        ("audit", "orders", {0: 3}),
        ("billing", "deliveries", {0: 2}),
        ("billing", "orders", {0: 2}),
    ]
    assert groups.all()[0].updated_ms == clock.now_ms()


def test_a_group_is_forgotten_in_one_topic_or_in_all(engine: Engine, groups: Groups) -> None:
    orders, deliveries = new_topic(engine, "orders"), new_topic(engine, "deliveries")
    for topic in (orders, deliveries):
        groups.commit("billing", topic, {0: 2})
        groups.commit("billing.eu", topic, {0: 4})
    groups.delete("billing", orders)
    assert (groups.committed("billing", orders), groups.committed("billing", deliveries)) == ({}, {0: 2})
    groups.delete("billing")
    groups.delete("unheard-of")
    assert {found.group for found in groups.all()} == {"billing.eu"}


def test_forgetting_a_topic_leaves_no_document_behind(engine: Engine, groups: Groups) -> None:
    topic, other = new_topic(engine, "orders"), new_topic(engine, "deliveries")
    for group in ("billing", "audit"):
        groups.commit(group, topic, {0: 2})
    groups.commit("audit", other, {0: 2})
    groups.forget_topic(topic.id)
    assert engine.keys("groups") == [f"groups/audit/{other.id}"]


@pytest.mark.parametrize("positions", [{0: 0}, {0: -1}, {0: "5"}, {0: True}, {-1: 5}, {"0": 5}, {0: 1.5}])
def test_a_wrong_position_is_refused(engine: Engine, groups: Groups, positions: Mapping[int, int]) -> None:
    with pytest.raises(InvalidValue):
        groups.commit("billing", new_topic(engine), positions)
    assert engine.keys("groups") == []


def test_a_position_in_a_partition_that_is_not_there_is_refused(engine: Engine, groups: Groups) -> None:
    with pytest.raises(UnknownPartition):
        groups.commit("billing", new_topic(engine), {0: 1, 1: 5})
    assert engine.keys("groups") == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, None, 5])
def test_a_group_needs_a_proper_name(engine: Engine, groups: Groups, name: str) -> None:
    topic = new_topic(engine)
    for use in (groups.committed, lambda n, t: groups.commit(n, t, {0: 1}), groups.delete):
        with pytest.raises(InvalidValue, match="group name"):
            use(name, topic)
