"""Positions of named groups, kept in the engine's metadata: bookmarks, and nothing more.

A group assigns no partitions and reads nothing; it remembers where its readers were. One document for each
group and topic id, at the key `groups/<group>/<topic id>`, so that a topic that was deleted and created again
starts without positions:

    {"topic": "deliveries", "positions": {"0": 5, "3": 17}, "updated_ms": 1700000000000}

Commits are merged by partition with compare-and-swap: readers of different partitions never undo each other.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.clock import Clock
from ottla.errors import MetadataConflict, UnknownPartition
from ottla.model import Topic
from ottla.settings import check_name, check_number
from ottla.storage import Engine, Versioned

_PREFIX = "groups"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositions:
    """What one group has committed for one topic."""

    group: str
    topic: str
    positions: Mapping[int, int]
    """The number that the group reads next, by partition; a partition without a commit is absent."""
    updated_ms: int


class Groups:
    """The groups of one log. Safe from many threads and processes."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def committed(self, group: str, topic: Topic) -> dict[int, int]:
        """The group's positions in the topic; empty where it committed nothing."""
        return _positions(self._engine.load(_key(group, topic)))

    def commit(self, group: str, topic: Topic, positions: Mapping[int, int]) -> None:
        """Store positions, durably; those of other partitions stay as they are. A position may go back."""
        for partition, number in positions.items():
            if check_number(partition, "partition", least=0) >= topic.settings.partitions:
                raise UnknownPartition(topic.name, partition, topic.settings.partitions)
            check_number(number, "position")
        if positions:
            self._swap(_key(group, topic), topic, positions)

    def _swap(self, key: str, topic: Topic, positions: Mapping[int, int]) -> None:
        while True:
            stored = self._engine.load(key)
            merged = {**_positions(stored), **positions}
            document = {
                "topic": topic.name,
                "positions": {str(partition): merged[partition] for partition in sorted(merged)},
                "updated_ms": self._clock.now_ms(),
            }
            try:
                self._engine.store(key, json.dumps(document).encode(), stored.version if stored else 0)
            except MetadataConflict:
                continue  # somebody else's commit came first, so there is progress: merge into theirs
            return

    def all(self) -> list[GroupPositions]:
        """What every group committed for every topic that exists, by group and topic."""
        topics = {topic.id: topic for topic in self._engine.topics()}
        found = [self._read(key, topics) for key in self._engine.keys(_PREFIX)]
        return sorted((f for f in found if f is not None), key=lambda f: (f.group, f.topic))

    def _read(self, key: str, topics: Mapping[str, Topic]) -> GroupPositions | None:
        _, group, topic_id = key.split("/")
        stored = self._engine.load(key)
        if stored is None or topic_id not in topics:
            return None
        return GroupPositions(
            group=group,
            topic=topics[topic_id].name,
            positions=_positions(stored),
            updated_ms=json.loads(stored.data)["updated_ms"],
        )

    def delete(self, group: str, topic: Topic | None = None) -> None:
        """Forget a group's positions, in one topic or in all; nothing happens if there are none."""
        check_name(group, "group name")
        keys = [_key(group, topic)] if topic else self._engine.keys(f"{_PREFIX}/{group}")
        for key in keys:
            self._engine.discard(key)

    def forget_topic(self, topic_id: str) -> None:
        """Discard what all groups committed for a topic that is gone."""
        for key in self._keys_of(topic_id):
            self._engine.discard(key)

    def _keys_of(self, topic_id: str) -> Iterator[str]:
        return (key for key in self._engine.keys(_PREFIX) if key.endswith(f"/{topic_id}"))


def _key(group: str, topic: Topic) -> str:
    return f"{_PREFIX}/{check_name(group, 'group name')}/{topic.id}"


def _positions(stored: Versioned | None) -> dict[int, int]:
    if stored is None:
        return {}
    return {int(partition): number for partition, number in json.loads(stored.data)["positions"].items()}
