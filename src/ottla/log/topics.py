"""One opened topic: the way from a name to its partitions, with the topic's limits checked before anything is written.

A handle belongs to one topic id for good. When that topic is deleted, every call raises `TopicRecreated`, also
when another topic has its name by then. Safe from many threads and after a fork.
"""

from collections.abc import Callable, Sequence

from ottla.batch import Batch
from ottla.errors import InvalidValue, MessageTooLarge, TopicRecreated, UnknownPartition, UnknownTopic
from ottla.model import Appended, Bounds, Topic
from ottla.settings import MAX_BATCH_BYTES, TopicSettings, check_number
from ottla.storage import Engine, PartitionStore, Served


class TopicHandle:
    """A topic of an engine, by its id. *seen* is told of the topic whenever its settings are looked at."""

    def __init__(self, engine: Engine, topic: Topic, seen: Callable[[Topic], None] | None = None) -> None:
        self.engine = engine
        self._served = isinstance(engine, Served)
        self._seen = seen
        self._topic = topic
        self._partitions: dict[int, PartitionStore] = {}

    @property
    def name(self) -> str:
        return self._topic.name

    @property
    def id(self) -> str:
        return self._topic.id

    def current(self) -> Topic:
        """The topic with its settings of this moment; or `TopicRecreated`."""
        try:
            topic = self.engine.topic(self.name)
        except UnknownTopic:
            raise TopicRecreated(self.name, self.id) from None
        if topic.id != self.id:
            raise TopicRecreated(self.name, self.id)
        self._topic = topic
        if self._seen is not None:
            self._seen(topic)
        return topic

    def partition(self, index: int) -> PartitionStore:
        """The store of one partition, opened at first use."""
        store = self._partitions.get(index) if type(index) is int else None
        if store is None:
            topic = self.current()
            if check_number(index, "partition", least=0) >= topic.settings.partitions:
                raise UnknownPartition(self.name, index, topic.settings.partitions)
            store = self._partitions.setdefault(index, self.engine.partition(topic, index))
        return store

    def append(self, partition: int, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        """Append to one partition as `PartitionStore.append` does, after checking the topic's limits."""
        if not batches:
            raise InvalidValue("batches", "an empty list", "give at least one message")
        store = self.partition(partition)
        if not self._served:
            settings = self.current().settings
            for batch in batches:
                check_limits(batch, settings)
        return store.append(batches, expected_next=expected_next)

    def read(self, partition: int, start: int, max_bytes: int) -> list[Batch]:
        """Whole batches of one partition, as `PartitionStore.read` gives them."""
        return self.partition(partition).read(start, max_bytes)

    def bounds(self, partition: int) -> Bounds:
        """The oldest number that one partition keeps and the next that it gives."""
        return self.partition(partition).bounds()

    def __repr__(self) -> str:
        return f"TopicHandle({self.name!r}, id {self.id})"


def check_limits(batch: Batch, settings: TopicSettings) -> None:
    """Refuse what the topic does not take; sizes count uncompressed, since readers must hold them so."""
    size, limit = batch.header.raw_bytes, settings.max_message_bytes
    if size <= limit:  # no message is larger than its batch, so the columns need not be decoded
        return
    if (largest := batch.columns().largest()) > limit:
        raise MessageTooLarge("a message", largest, limit, "max_message_bytes")
    if batch.count > 1 and size > (most := max(MAX_BATCH_BYTES, limit)):
        raise MessageTooLarge("a batch", size, most, "max_message_bytes")
