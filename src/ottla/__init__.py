"""ottla: a Kafka-style message log for Python and Spark that needs no cluster. Start with `ottla.open`."""

from ottla.batch import Messages
from ottla.client.consumer import Consumer, Lag
from ottla.client.damage import repair, verify
from ottla.client.log import Log
from ottla.client.log import open_log as open  # noqa: A004  (ottla.open reads as it should; this module opens no files)
from ottla.client.producer import Producer
from ottla.client.reader import Gap
from ottla.clock import Clock, ManualClock, SystemClock
from ottla.errors import (
    Closed,
    CorruptBatch,
    CorruptLog,
    DuplicateSequence,
    InvalidValue,
    MessagesLost,
    MessageTooLarge,
    MetadataConflict,
    MissingDependency,
    OttlaError,
    OutOfSequence,
    ProducerError,
    ProducerFenced,
    ReadOnly,
    SendTimeout,
    ServerBusy,
    ServerError,
    ServerUnavailable,
    StorageError,
    StorageFailed,
    StorageFull,
    TopicExists,
    TopicRecreated,
    Uncertain,
    UnexpectedNext,
    UnknownEngine,
    UnknownPartition,
    UnknownProducer,
    UnknownTopic,
    UnsupportedFormat,
)
from ottla.log.catalog import PartitionDescription, TopicDescription
from ottla.log.groups import GroupPositions
from ottla.log.partitioners import Partitioner
from ottla.model import Bounds, Damage, Landed, LandedRange, Message, Record, Topic
from ottla.settings import TopicSettings

__version__ = "0.1.0.dev0"

__all__ = [
    "Bounds",
    "Clock",
    "Closed",
    "Consumer",
    "CorruptBatch",
    "CorruptLog",
    "Damage",
    "DuplicateSequence",
    "Gap",
    "GroupPositions",
    "InvalidValue",
    "Lag",
    "Landed",
    "LandedRange",
    "Log",
    "ManualClock",
    "Message",
    "MessageTooLarge",
    "Messages",
    "MessagesLost",
    "MetadataConflict",
    "MissingDependency",
    "OttlaError",
    "OutOfSequence",
    "PartitionDescription",
    "Partitioner",
    "Producer",
    "ProducerError",
    "ProducerFenced",
    "ReadOnly",
    "Record",
    "SendTimeout",
    "ServerBusy",
    "ServerError",
    "ServerUnavailable",
    "StorageError",
    "StorageFailed",
    "StorageFull",
    "SystemClock",
    "Topic",
    "TopicDescription",
    "TopicExists",
    "TopicRecreated",
    "TopicSettings",
    "Uncertain",
    "UnexpectedNext",
    "UnknownEngine",
    "UnknownPartition",
    "UnknownProducer",
    "UnknownTopic",
    "UnsupportedFormat",
    "__version__",
    "open",
    "repair",
    "verify",
]
