"""The rules of changing a topic, the same for every engine."""

from dataclasses import replace

from ottla.errors import InvalidValue, MetadataConflict, TopicRecreated
from ottla.model import Topic


def altered(current: Topic | None, wanted: Topic) -> Topic:
    """*wanted* as the next version of *current*, or the error that refuses the change."""
    if current is None or current.id != wanted.id:
        raise TopicRecreated(wanted.name, wanted.id)
    if current.version != wanted.version:
        raise MetadataConflict(f"topics/{wanted.name}", wanted.version, current.version)
    if wanted.settings.partitions < current.settings.partitions:
        rule = f"topic {wanted.name!r} has {current.settings.partitions}: partitions are added, never removed"
        raise InvalidValue("partitions", wanted.settings.partitions, rule)
    return replace(wanted, version=wanted.version + 1)
