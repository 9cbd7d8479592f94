"""Every error that ottla raises on purpose.

Each carries its facts as attributes, reads as one sentence that says what to do, and survives
pickling, because Spark and multiprocessing ship errors between processes.

    OttlaError
    ├── InvalidValue (also a ValueError)      a name, duration, number, size, URL or type that breaks a rule
    │   └── UnknownEngine                     no storage engine for a URL
    ├── UnknownTopic · TopicExists · TopicRecreated · UnknownPartition
    ├── MessageTooLarge
    ├── MessagesLost                          retention overtook a position
    ├── UnexpectedNext                        compare-and-append met another next number
    ├── MetadataConflict                      compare-and-swap met another version
    ├── ProducerError
    │   ├── ProducerFenced · UnknownProducer · OutOfSequence · DuplicateSequence
    ├── StorageError
    │   ├── CorruptBatch                      bytes that are no batch
    │   ├── CorruptLog                        damage below the acknowledged end, with file and position
    │   ├── StorageFull · StorageFailed       nothing of the append is in the log
    │   ├── Uncertain                         the outcome of an append is not known
    │   └── UnsupportedFormat                 a folder of another format, engine or version
    ├── ServerError
    │   ├── ServerBusy                        refused before anything was written; repeat it later
    │   └── ServerUnavailable                 nobody answers; nothing was sent
    ├── ReadOnly · Closed · SendTimeout
    └── MissingDependency (also an ImportError)
"""

from typing import Any, Self


class OttlaError(Exception):
    """Base of every error that ottla raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)

    @classmethod
    def revived(cls, args: tuple[Any, ...], facts: dict[str, Any]) -> Self:
        """The same error again, from its sentence and facts; for pickling and for the wire."""
        error = cls.__new__(cls, *args)
        error.args = args
        error.__dict__.update(facts)
        return error


def _rebuild(cls: type[OttlaError], args: tuple[Any, ...], facts: dict[str, Any]) -> OttlaError:
    return cls.revived(args, facts)


class InvalidValue(OttlaError, ValueError):
    """A value breaks a rule; nothing was changed."""

    def __init__(self, what: str, value: object, rule: str) -> None:
        self.what = what
        self.value = _shown(value)
        self.rule = rule
        super().__init__(f"{what} {self.value} is not valid: {rule}")


_LONG = 80


def _shown(value: object) -> str:
    """The value as a person would recognise it: one short line, and text, so that it can be pickled."""
    if isinstance(value, str | bytes | bytearray | list | tuple) and len(value) > _LONG:
        unit = (
            "elements" if isinstance(value, list | tuple) else "bytes" if not isinstance(value, str) else "characters"
        )
        return f"{_clipped(value[: _LONG // 2])}… ({len(value):,} {unit})"
    return _clipped(value)


def _clipped(value: object) -> str:
    text = repr(value).replace("\n", " ")
    return text if len(text) <= _LONG else f"{text[: _LONG - 20]}…"


class UnknownEngine(InvalidValue):
    """No storage engine is registered for the URL's scheme."""


class UnknownTopic(OttlaError):
    """The topic does not exist."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} does not exist: create it with create_topic, or post to it first")


class TopicExists(OttlaError):
    """A topic of that name is already there."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} already exists: choose another name, or use alter_topic to change it")


class TopicRecreated(OttlaError):
    """The handle belongs to a topic that was deleted, and perhaps created again under the same name."""

    def __init__(self, topic: str, topic_id: str) -> None:
        self.topic = topic
        self.topic_id = topic_id
        super().__init__(
            f"topic {topic!r} was deleted since this handle was opened (its id was {topic_id}): open it again"
        )


class UnknownPartition(OttlaError):
    """The topic has no partition of that index."""

    def __init__(self, topic: str, partition: object, partitions: int) -> None:
        self.topic = topic
        self.partition = partition if isinstance(partition, int) else _shown(partition)
        self.partitions = partitions
        super().__init__(f"topic {topic!r} has no partition {self.partition}: it has partitions 0 to {partitions - 1}")


class MessageTooLarge(OttlaError):
    """A message or a batch is larger than the limit; nothing was written."""

    def __init__(self, what: str, size: int, limit: int, setting: str) -> None:
        self.what = what
        self.size = size
        self.limit = limit
        self.setting = setting
        super().__init__(f"{what} of {size:,} bytes is over the limit of {limit:,}: split it, or raise {setting}")


class MessagesLost(OttlaError):
    """Retention removed messages before this position read them."""

    def __init__(self, topic: str, partition: int, start: int, first: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = start
        self.first = first
        super().__init__(
            f"messages {start} to {first - 1} of {topic}/{partition} were removed before they were read: "
            f"the oldest message kept is {first}; seek there, or open the consumer with on_gap='skip'"
        )


class UnexpectedNext(OttlaError):
    """Compare-and-append: another message took the expected number; nothing was written."""

    def __init__(self, topic: str, partition: int, expected: int, actual: int) -> None:
        self.topic = topic
        self.partition = partition
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"the next number of {topic}/{partition} is {actual}, not the expected {expected}: read what came between, "
            "then append again with the new number"
        )


class MetadataConflict(OttlaError):
    """Compare-and-swap: somebody else changed this first; nothing was written."""

    def __init__(self, key: str, expected: int, actual: int) -> None:
        self.key = key
        self.expected = expected
        self.actual = actual
        super().__init__(f"{key!r} is at version {actual}, not {expected}: read it again and repeat the change")


class ProducerError(OttlaError):
    """Base of what can be wrong with a producer's id, epoch and sequence; nothing was written."""


class ProducerFenced(ProducerError):
    """A newer producer of the same name took over."""

    def __init__(self, producer: str, epoch: int, current: int) -> None:
        self.producer = producer
        self.epoch = epoch
        self.current = current
        super().__init__(
            f"producer {producer} with epoch {epoch} is fenced: epoch {current} took over; stop this producer"
        )


class UnknownProducer(ProducerError):
    """The log no longer knows a producer that says it has sent before."""

    def __init__(self, producer: str, sequence: int) -> None:
        self.producer = producer
        self.sequence = sequence
        super().__init__(
            f"producer {producer} continues at sequence {sequence} but the log does not know it (any more): "
            "open a new producer, and check whether the last batches arrived"
        )


class OutOfSequence(ProducerError):
    """A batch of this producer is missing before this one."""

    def __init__(self, producer: str, sequence: int, expected: int) -> None:
        self.producer = producer
        self.sequence = sequence
        self.expected = expected
        super().__init__(
            f"producer {producer} sent sequence {sequence} where {expected} is next: resend what lies between, in order"
        )


class DuplicateSequence(ProducerError):
    """The batch is in the log already, so long ago that its numbers are no longer remembered."""

    def __init__(self, producer: str, sequence: int, last: int) -> None:
        self.producer = producer
        self.sequence = sequence
        self.last = last
        super().__init__(
            f"sequence {sequence} of producer {producer} is already in the log (the last is {last}): "
            "do not send it again"
        )


class StorageError(OttlaError):
    """Base of what can be wrong with stored bytes and the device that holds them."""


class CorruptBatch(StorageError):
    """Bytes that are no valid batch."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not a valid batch: {reason}")


class CorruptLog(StorageError):
    """Damage below the acknowledged end of a log. It is reported, never cut."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        self.path = path
        self.position = position
        self.reason = reason
        super().__init__(
            f"{path} is damaged at byte {position}: {reason}; "
            "run ottla.verify to see all damage, ottla.repair to set it aside"
        )


class StorageFull(StorageError):
    """No space: nothing of this append was stored. Appending works again when there is space."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"no space left for {path}: nothing was stored; free some space or shorten retention, then retry"
        )


class StorageFailed(StorageError):
    """The device refused to read, or to make an append durable; what it held of that was cut and is not in the log."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} could not be made durable, or read ({reason}): nothing was acknowledged; "
            "check the disk, then retry"
        )


class Uncertain(StorageError):
    """An append may or may not be in the log. Retrying with the same producer and sequence is safe."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"it is not known whether {what} was stored ({reason}): retry with the same producer")


class UnsupportedFormat(StorageError):
    """A folder that this version, or this engine, must not touch."""

    def __init__(self, path: str, found: str, supported: str) -> None:
        self.path = path
        self.found = found
        self.supported = supported
        super().__init__(f"{path} holds {found}, and this reads {supported}: use the matching URL or a newer ottla")


class ServerError(OttlaError):
    """Base of what can be wrong between a client and its server."""


class ServerBusy(ServerError):
    """The server holds as much as it may; nothing of the call was written."""

    def __init__(
        self,
        used: int,
        limit: int,
        retry_after_ms: int,
        what: str = "bytes for producers",
        setting: str = "max_in_flight",
    ) -> None:
        self.used = used
        self.limit = limit
        self.retry_after_ms = retry_after_ms
        self.what = what
        self.setting = setting
        super().__init__(
            f"the server holds {used:,} of {limit:,} {what}: nothing was written; "
            f"repeat the call after {retry_after_ms} ms, or raise the server's {setting}"
        )


class ServerUnavailable(ServerError):
    """Nobody answers at the server's address."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(
            f"no server answers at {address} ({reason}): check the address, or start one with `ottla serve`"
        )


class ReadOnly(OttlaError):
    """The log was opened read-only."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"cannot {what}: the log was opened read-only; open it without read_only=True")


class Closed(OttlaError):
    """The log, producer or consumer was closed."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"this {what} is closed: open a new one")


class SendTimeout(OttlaError):
    """Back pressure: the producer's buffer stayed full for too long; the record was not taken."""

    def __init__(self, waited_s: float, buffered: int, limit: int) -> None:
        self.waited_s = waited_s
        self.buffered = buffered
        self.limit = limit
        super().__init__(
            f"the producer's buffer stayed full for {waited_s:g} s ({buffered:,} of {limit:,} bytes): "
            "send more slowly, or raise max_buffer_bytes or send_timeout"
        )


class MissingDependency(OttlaError, ImportError):
    """An optional package is not installed."""

    def __init__(self, what: str, package: str, install: str) -> None:
        self.what = what
        self.package = package
        self.install = install
        super().__init__(f"{what} needs the package {package!r}: pip install {install}")
