"""What a server's answer means: a message, or the error that it tells, as the same class with the same facts."""

import base64
from typing import Final
from urllib.parse import unquote

from ottla.errors import Closed, MessageTooLarge, OttlaError, ServerUnavailable
from ottla.protocol.errors import ERROR_KEY, decode_error
from ottla.protocol.statuses import Status
from ottla.storage.remote.stream import Lost
from ottla.v1 import log_pb2 as pb

_OK: Final = "200"
_GONE: Final = {Status.UNAVAILABLE, Status.CANCELLED, Status.DEADLINE_EXCEEDED}
_TOO_LARGE: Final = "larger than max"
"""What gRPC says of a request above the server's limit."""


def check_answer(trailers: dict[str, str], address: str, size: int) -> None:
    """Raise what the end of a call says, if that is not success; *size* is that of the request.

    `Lost` where the server has gone, or is going, without a word about the call itself.
    """
    if trailers.get(":status") != _OK:
        found = trailers.get(":status", "none at all")
        raise OttlaError(f"what answers at {address} is no ottla server (HTTP status {found}): check the address")
    try:
        status = Status(int(trailers.get("grpc-status", "2")))
    except ValueError:
        status = Status.UNKNOWN
    if status != Status.OK:
        raise _error(status, trailers, address, size)


def _error(status: Status, trailers: dict[str, str], address: str, size: int) -> Exception:
    sentence = unquote(trailers.get("grpc-message", "")) or status.name
    if ERROR_KEY in trailers:
        return not_gone(decode_error(_details(trailers[ERROR_KEY])))
    if status in _GONE:
        return Lost(sentence, reached=True)
    if status == Status.RESOURCE_EXHAUSTED and _TOO_LARGE in sentence:
        limit = sentence.rpartition(" ")[2].rstrip(")")
        return MessageTooLarge("a request", size, int(limit) if limit.isdigit() else 0, "the server's max_call_bytes")
    if status == Status.RESOURCE_EXHAUSTED:
        return Lost(sentence, reached=False)
    if status == Status.UNIMPLEMENTED:
        return OttlaError(f"the server at {address} cannot do this ({sentence}): is it of an older version?")
    return OttlaError(f"the server at {address} failed: {sentence}")


def not_gone(error: OttlaError) -> Exception:
    """The error that a server told; `Lost` if it says that the server itself is going, with nothing done."""
    if isinstance(error, Closed | ServerUnavailable):
        return Lost(str(error), reached=False)
    return error


def _details(encoded: str) -> pb.Error:
    return pb.Error.FromString(base64.b64decode(encoded + "=" * (-len(encoded) % 4)))
