"""The topics of a log, by name: what the log's own tests do not show."""

import pytest

from ottla.clock import ManualClock
from ottla.errors import InvalidValue, TopicRecreated, UnknownTopic
from ottla.log.catalog import Catalog
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage import Engine, open_engine


@pytest.fixture
def engine() -> Engine:
    return open_engine("memory:", clock=ManualClock())


def catalog_of(engine: Engine, *, auto_create: bool = True, seen: list[Topic] | None = None) -> Catalog:
    return Catalog(
        engine,
        ManualClock(),
        defaults=TopicSettings(partitions=3),
        auto_create=auto_create,
        seen=None if seen is None else seen.append,
    )


def test_one_handle_serves_everybody_while_the_topic_is_the_same(engine: Engine) -> None:
    catalog = catalog_of(engine)
    catalog.create("deliveries", {})
    assert catalog.open("deliveries") is catalog.open("deliveries")


def test_after_a_topic_was_created_again_a_new_handle_is_opened(engine: Engine) -> None:
    catalog = catalog_of(engine)
    catalog.create("deliveries", {})
    old = catalog.open("deliveries")
    engine.delete_topic("deliveries")
    catalog.create("deliveries", {})
    assert catalog.open("deliveries").id != old.id
    with pytest.raises(TopicRecreated):
        old.current()


def test_a_change_that_meets_a_topic_just_created_again_applies_to_that_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_of(engine)
    catalog.create("deliveries", {})
    alter = engine.alter_topic

    def overtaken(topic: Topic) -> Topic:
        monkeypatch.undo()
        engine.delete_topic("deliveries")
        catalog.create("deliveries", {})
        return alter(topic)

    monkeypatch.setattr(engine, "alter_topic", overtaken)
    assert catalog.alter("deliveries", {"partitions": 5}).id == engine.topic("deliveries").id
    assert engine.topic("deliveries").settings.partitions == 5


def test_a_post_makes_the_topic_again_that_somebody_deletes_in_between(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_of(engine)
    create = engine.create_topic

    def undone(topic: Topic) -> Topic:
        monkeypatch.undo()
        made = create(topic)
        engine.delete_topic(topic.name)
        return made

    monkeypatch.setattr(engine, "create_topic", undone)
    handle = catalog.open_or_create("deliveries", {"partitions": 1})
    assert handle.id == engine.topic("deliveries").id
    assert handle.current().settings.partitions == 1


def test_a_post_meets_the_topics_own_settings_or_the_defaults(engine: Engine) -> None:
    catalog = catalog_of(engine)
    assert catalog.settings_for_post("deliveries").partitions == 3
    catalog.create("deliveries", {"partitions": 2})
    assert catalog.settings_for_post("deliveries").partitions == 2
    with pytest.raises(UnknownTopic):
        catalog_of(engine, auto_create=False).settings_for_post("orders")


def test_every_look_at_a_topic_is_told(engine: Engine) -> None:
    seen: list[Topic] = []
    catalog = catalog_of(engine, seen=seen)
    catalog.create("deliveries", {})
    catalog.topic("deliveries")
    catalog.topics()
    catalog.alter("deliveries", {"retention": "7d"})
    assert len(seen) >= 4
    assert seen[-1].settings.retention_ms == 604_800_000


def test_a_partitioner_that_is_not_there_is_refused_when_it_is_set(engine: Engine) -> None:
    catalog = catalog_of(engine)
    catalog.create("deliveries", {})
    with pytest.raises(InvalidValue, match="partitioner"):
        catalog.alter("deliveries", {"partitioner": "by-weather"})
    assert engine.topic("deliveries").version == 1
