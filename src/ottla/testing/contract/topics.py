"""Topics: created once, listed, changed, deleted; a handle on a deleted one never shows the new one's data."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import (
    InvalidValue,
    MetadataConflict,
    OttlaError,
    TopicExists,
    TopicRecreated,
    UnknownPartition,
    UnknownTopic,
)
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import ALL_BYTES, batch_of, new_topic, values_of

USES: dict[str, Callable[[PartitionStore], Any]] = {
    "append": lambda partition: partition.append([batch_of(b"x")]),
    "read": lambda partition: partition.read(1, ALL_BYTES),
    "bounds": lambda partition: partition.bounds(),
    "find": lambda partition: partition.find(0),
    "size": lambda partition: partition.size(),
    "trim": lambda partition: partition.trim(2),
    "expire": lambda partition: partition.expire(older_than_ms=1),
}
"""Everything that can be done with a partition."""


class TopicsContract(Contract):
    """Create, list, alter, delete, recreate."""

    def test_a_created_topic_is_found(self, engine: Engine) -> None:
        """What was created is what is found, settings and all."""
        topic = new_topic(engine, "deliveries", partitions=3, retention="7d", partitioner="key-hash", sync="never")
        assert engine.topic("deliveries") == topic
        assert engine.topics() == [topic]

    def test_a_topic_is_created_once(self, engine: Engine) -> None:
        """A second topic of the same name is refused, and the first is as it was."""
        topic = new_topic(engine)
        with pytest.raises(TopicExists):
            new_topic(engine, partitions=5)
        assert engine.topic("deliveries") == topic

    def test_topics_are_listed_by_name(self, engine: Engine) -> None:
        """The list is sorted."""
        for name in ("b", "a-1", "c.d", "B", "_x", "0"):
            new_topic(engine, name)
        assert [topic.name for topic in engine.topics()] == ["0", "B", "_x", "a-1", "b", "c.d"]

    def test_an_empty_log_has_no_topics(self, engine: Engine) -> None:
        """And none is made up."""
        assert engine.topics() == []

    def test_every_valid_name_is_a_topic(self, engine: Engine) -> None:
        """Names that look like files, options or paths are just names; case counts."""
        names = [".hidden", "...", "-rf", "topic.json", "CON", "a" * 249, "deliveries", "Deliveries", "x.log", "tmp"]
        for name in names:
            engine.partition(new_topic(engine, name), 0).append([batch_of(name.encode())])
        assert [topic.name for topic in engine.topics()] == sorted(names)
        for name in names:
            assert values_of(engine.partition(engine.topic(name), 0)) == [name.encode()]

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../deliveries", "/etc", "a\0b", "a\n", "*"])
    def test_a_bad_name_finds_nothing(self, engine: Engine, name: str) -> None:
        """A name that no topic can have is an error like any unknown one, never a look elsewhere."""
        new_topic(engine)
        with pytest.raises((UnknownTopic, InvalidValue)):
            engine.topic(name)

    def test_an_unknown_topic_is_neither_deleted_nor_changed(self, engine: Engine) -> None:
        """The error names it."""
        gone = new_topic(engine, "gone")
        engine.delete_topic("gone")
        with pytest.raises(UnknownTopic):
            engine.delete_topic("gone")
        with pytest.raises((UnknownTopic, TopicRecreated)):
            engine.alter_topic(gone)

    def test_altering_changes_settings(self, engine: Engine) -> None:
        """New settings are there at once, with a higher version, and everything else is as before."""
        topic = new_topic(engine)
        changed = engine.alter_topic(replace(topic, settings=topic.settings.changed(retention="2h")))
        assert changed == replace(topic, settings=topic.settings.changed(retention="2h"), version=changed.version)
        assert changed.version > topic.version
        assert engine.topic("deliveries") == changed

    def test_altering_what_changed_meanwhile_is_a_conflict(self, engine: Engine) -> None:
        """Compare-and-swap: the second of two changes that started from the same version is refused."""
        topic = new_topic(engine)
        changed = engine.alter_topic(replace(topic, settings=topic.settings.changed(retention="2h")))
        with pytest.raises(MetadataConflict):
            engine.alter_topic(replace(topic, settings=topic.settings.changed(retention="3h")))
        assert engine.topic("deliveries") == changed

    def test_partitions_are_added(self, engine: Engine) -> None:
        """New partitions start at 1, and the old ones keep their messages."""
        topic = new_topic(engine)
        old = engine.partition(topic, 0)
        old.append([batch_of(b"a")])
        topic = engine.alter_topic(replace(topic, settings=topic.settings.changed(partitions=3)))
        assert [engine.partition(topic, index).bounds() for index in range(3)] == [(1, 2), (1, 1), (1, 1)]
        assert engine.partition(topic, 2).append([batch_of(b"b")])[0].first == 1
        assert old.append([batch_of(b"c")])[0].first == 2

    def test_partitions_are_never_removed(self, engine: Engine) -> None:
        """Fewer partitions are refused, and nothing changes."""
        topic = new_topic(engine, partitions=3)
        with pytest.raises(InvalidValue, match="partitions"):
            engine.alter_topic(replace(topic, settings=topic.settings.changed(partitions=2)))
        assert engine.topic("deliveries") == topic

    @pytest.mark.parametrize("index", [-1, 2, 10_000])
    def test_a_partition_out_of_range_is_an_error(self, engine: Engine, index: int) -> None:
        """The sentence says which there are."""
        topic = new_topic(engine, partitions=2)
        with pytest.raises(UnknownPartition, match="it has partitions 0 to 1"):
            engine.partition(topic, index).bounds()

    def test_partitions_are_apart(self, engine: Engine) -> None:
        """What is appended to one partition is in no other."""
        topic = new_topic(engine, partitions=3)
        for index in range(3):
            engine.partition(topic, index).append([batch_of(b"%d" % index)] * (index + 1))
        for index in range(3):
            assert values_of(engine.partition(topic, index)) == [b"%d" % index] * (index + 1)

    def test_two_handles_are_the_same_partition(self, engine: Engine) -> None:
        """A handle holds no messages of its own."""
        topic = new_topic(engine)
        one, other = engine.partition(topic, 0), engine.partition(topic, 0)
        one.append([batch_of(b"a")])
        other.append([batch_of(b"b")])
        assert values_of(one) == values_of(other) == [b"a", b"b"]

    @pytest.mark.parametrize("use", USES)
    @pytest.mark.parametrize("recreated", [False, True], ids=["deleted", "recreated"])
    def test_an_old_handle_says_that_its_topic_is_gone(self, engine: Engine, use: str, recreated: bool) -> None:
        """A handle of a deleted topic never shows or touches a new topic of the same name."""
        partition = engine.partition(new_topic(engine), 0)
        partition.append([batch_of(b"old")])
        engine.delete_topic("deliveries")
        if recreated:
            new = engine.partition(new_topic(engine), 0)
            new.append([batch_of(b"new")])
        with pytest.raises(TopicRecreated):
            USES[use](partition)
        if recreated:
            assert values_of(new) == [b"new"]

    def test_a_handle_that_was_never_used_is_no_better(self, engine: Engine) -> None:
        """The same goes for handles opened late, or with the old topic in hand."""
        topic = new_topic(engine)
        unused = engine.partition(topic, 0)
        engine.delete_topic("deliveries")
        new_topic(engine)
        with pytest.raises(TopicRecreated):
            unused.read(1, ALL_BYTES)
        with pytest.raises(TopicRecreated):
            engine.partition(topic, 0).read(1, ALL_BYTES)
        with pytest.raises((TopicRecreated, MetadataConflict)):
            engine.alter_topic(topic)

    def test_a_recreated_topic_starts_anew(self, engine: Engine) -> None:
        """Numbers from 1, no messages, no producers."""
        engine.partition(new_topic(engine), 0).append([batch_of(b"old", b"old")])
        engine.delete_topic("deliveries")
        partition = engine.partition(new_topic(engine, partitions=2), 0)
        assert partition.bounds() == (1, 1)
        assert partition.append([batch_of(b"new")])[0].first == 1
        assert values_of(partition) == [b"new"]

    def test_topics_survive_reopening(self, lasting_storage: Storage) -> None:
        """Created, changed and deleted topics are as they were, and the deleted one stays so."""
        engine = lasting_storage.open()
        kept = new_topic(engine, "kept", partitions=2, retention="7d")
        kept = engine.alter_topic(replace(kept, settings=kept.settings.changed(partitions=4)))
        new_topic(engine, "deleted")
        engine.delete_topic("deleted")
        engine = lasting_storage.reopen()
        assert engine.topics() == [kept]

    def test_another_engine_sees_topics_at_once(self, shared_storage: Storage) -> None:
        """Create, change and delete are seen by every engine on the same storage."""
        one, other = shared_storage.open(), shared_storage.open()
        topic = new_topic(one)
        assert other.topic("deliveries") == topic
        changed = other.alter_topic(replace(topic, settings=topic.settings.changed(partitions=2)))
        assert one.topic("deliveries") == changed
        assert one.partition(changed, 1).append([batch_of(b"a")])[0].first == 1
        assert values_of(other.partition(changed, 1)) == [b"a"]
        one.delete_topic("deliveries")
        with pytest.raises(UnknownTopic):
            other.topic("deliveries")

    @pytest.mark.parametrize("use", USES)
    def test_another_engine_recreates_the_topic(self, shared_storage: Storage, use: str) -> None:
        """A handle notices a deletion by another engine on the same storage just the same."""
        one, other = shared_storage.open(), shared_storage.open()
        partition = one.partition(new_topic(one), 0)
        partition.append([batch_of(b"old")])
        other.delete_topic("deliveries")
        new = other.partition(new_topic(other), 0)
        new.append([batch_of(b"new")])
        with pytest.raises(TopicRecreated):
            USES[use](partition)
        assert values_of(new) == [b"new"]

    def test_errors_are_ottla_errors(self, engine: Engine) -> None:
        """Whatever is wrong with a topic is one sentence of ottla's own."""
        new_topic(engine)
        for wrong in (lambda: engine.topic("no"), lambda: engine.delete_topic("no"), lambda: new_topic(engine)):
            with pytest.raises(OttlaError):
                wrong()
