"""Errors over the wire: one table from errors to statuses, and their facts as JSON.

Every error of `ottla.errors` has its row; a test proves it. What is not ours becomes INTERNAL, and the client
gets a sentence without the server's details.
"""

import json
from typing import Any

from ottla import errors
from ottla.errors import OttlaError
from ottla.protocol.statuses import Status
from ottla.v1 import log_pb2 as pb

ERROR_KEY = "ottla-error-bin"
RETRY_KEY = "retry-after-ms"

STATUS_OF: dict[type[OttlaError], Status] = {
    errors.OttlaError: Status.UNKNOWN,
    errors.InvalidValue: Status.INVALID_ARGUMENT,
    errors.UnknownEngine: Status.INVALID_ARGUMENT,
    errors.UnknownTopic: Status.NOT_FOUND,
    errors.TopicExists: Status.ALREADY_EXISTS,
    errors.TopicRecreated: Status.FAILED_PRECONDITION,
    errors.UnknownPartition: Status.NOT_FOUND,
    errors.MessageTooLarge: Status.INVALID_ARGUMENT,
    errors.MessagesLost: Status.OUT_OF_RANGE,
    errors.UnexpectedNext: Status.FAILED_PRECONDITION,
    errors.MetadataConflict: Status.ABORTED,
    errors.ProducerError: Status.FAILED_PRECONDITION,
    errors.ProducerFenced: Status.FAILED_PRECONDITION,
    errors.UnknownProducer: Status.FAILED_PRECONDITION,
    errors.OutOfSequence: Status.FAILED_PRECONDITION,
    errors.DuplicateSequence: Status.ALREADY_EXISTS,
    errors.StorageError: Status.INTERNAL,
    errors.CorruptBatch: Status.DATA_LOSS,
    errors.CorruptLog: Status.DATA_LOSS,
    errors.StorageFull: Status.RESOURCE_EXHAUSTED,
    errors.StorageFailed: Status.INTERNAL,
    errors.Uncertain: Status.UNKNOWN,
    errors.UnsupportedFormat: Status.FAILED_PRECONDITION,
    errors.ReadOnly: Status.PERMISSION_DENIED,
    errors.Closed: Status.UNAVAILABLE,
    errors.ServerError: Status.UNAVAILABLE,
    errors.ServerBusy: Status.RESOURCE_EXHAUSTED,
    errors.ServerUnavailable: Status.UNAVAILABLE,
    errors.SendTimeout: Status.DEADLINE_EXCEEDED,
    errors.MissingDependency: Status.UNIMPLEMENTED,
}


def status_of(error: BaseException) -> Status:
    """The status of an error; INTERNAL for what is not ours."""
    return STATUS_OF[type(error)] if isinstance(error, OttlaError) else Status.INTERNAL


def encode_error(error: BaseException) -> pb.Error:
    """An error as it travels. Of errors that are not ours only the kind is told."""
    if not isinstance(error, OttlaError):
        return pb.Error(name="", message=f"the server failed ({type(error).__name__}): see its log", facts="{}")
    facts = {name: fact for name, fact in vars(error).items() if _plain(fact)}
    return pb.Error(name=type(error).__name__, message=str(error), facts=json.dumps(facts))


def decode_error(sent: pb.Error) -> OttlaError:
    """The same error at the other end; one of a newer server becomes a plain `OttlaError`."""
    kind: Any = getattr(errors, sent.name, None)
    if not (isinstance(kind, type) and issubclass(kind, OttlaError)):
        return OttlaError(sent.message)
    return kind.revived((sent.message,), json.loads(sent.facts or "{}"))


def _plain(fact: object) -> bool:
    return fact is None or isinstance(fact, str | int | float | bool)
