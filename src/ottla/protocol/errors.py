"""Errors over the wire: one table from errors to statuses, and their facts as JSON.

Every error of `ottla.errors` has its row; a test proves it. What is not ours becomes INTERNAL, and the client
gets a sentence without the server's details.
"""

import json
from typing import Any

import grpc

from ottla import errors
from ottla.errors import OttlaError
from ottla.v1 import log_pb2 as pb

ERROR_KEY = "ottla-error-bin"
RETRY_KEY = "retry-after-ms"

STATUS_OF: dict[type[OttlaError], grpc.StatusCode] = {
    errors.OttlaError: grpc.StatusCode.UNKNOWN,
    errors.InvalidValue: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownEngine: grpc.StatusCode.INVALID_ARGUMENT,
    errors.UnknownTopic: grpc.StatusCode.NOT_FOUND,
    errors.TopicExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.TopicRecreated: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnknownPartition: grpc.StatusCode.NOT_FOUND,
    errors.MessageTooLarge: grpc.StatusCode.INVALID_ARGUMENT,
    errors.MessagesLost: grpc.StatusCode.OUT_OF_RANGE,
    errors.UnexpectedNext: grpc.StatusCode.FAILED_PRECONDITION,
    errors.MetadataConflict: grpc.StatusCode.ABORTED,
    errors.ProducerError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ProducerFenced: grpc.StatusCode.FAILED_PRECONDITION,
    errors.UnknownProducer: grpc.StatusCode.FAILED_PRECONDITION,
    errors.OutOfSequence: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DuplicateSequence: grpc.StatusCode.ALREADY_EXISTS,
    errors.StorageError: grpc.StatusCode.INTERNAL,
    errors.CorruptBatch: grpc.StatusCode.DATA_LOSS,
    errors.CorruptLog: grpc.StatusCode.DATA_LOSS,
    errors.StorageFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.StorageFailed: grpc.StatusCode.INTERNAL,
    errors.Uncertain: grpc.StatusCode.UNKNOWN,
    errors.UnsupportedFormat: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ReadOnly: grpc.StatusCode.PERMISSION_DENIED,
    errors.Closed: grpc.StatusCode.UNAVAILABLE,
    errors.ServerError: grpc.StatusCode.UNAVAILABLE,
    errors.ServerBusy: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ServerUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.SendTimeout: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.MissingDependency: grpc.StatusCode.UNIMPLEMENTED,
}


def status_of(error: BaseException) -> grpc.StatusCode:
    """The status of an error; INTERNAL for what is not ours."""
    return STATUS_OF[type(error)] if isinstance(error, OttlaError) else grpc.StatusCode.INTERNAL


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
