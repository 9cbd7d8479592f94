"""The two messages that are mostly batches, AppendRequest and FetchResponse, without copying those. No I/O.

Generated code copies a field's bytes when a message is made, when it is parsed and when the field is looked at. Here
the batches stay where they are, between the few bytes of the other fields. What is sent is the same.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from ottla.batch.header import ALIGNMENT
from ottla.errors import CorruptBatch
from ottla.model import Bounds
from ottla.v1 import log_pb2 as pb

Part: TypeAlias = "bytes | memoryview | pa.Buffer"

_APPENDED: Final = pb.AppendRequest.DESCRIPTOR.fields_by_name["batches"].number
_PADDING: Final = pb.AppendRequest.DESCRIPTOR.fields_by_name["padding"].number
_FETCHED: Final = pb.FetchResponse.DESCRIPTOR.fields_by_name["batches"].number
_VARINT, _EIGHT_BYTES, _COUNTED, _FOUR_BYTES = 0, 1, 2, 5
"""How the fields of a message may be encoded."""


class PackedAppend(NamedTuple):
    """An AppendRequest, with its batches beside it."""

    request: pb.AppendRequest
    batches: pa.Buffer


class PackedFetch(NamedTuple):
    """A FetchResponse, with its batches beside it."""

    bounds: Bounds
    batches: pa.Buffer


def encode_append(request: pb.AppendRequest, batches: Sequence[Part], size: int) -> list[Part]:
    """The request in parts; the batches are *size* bytes together. They begin where no server need move them."""
    head = _head(_APPENDED, size)
    request.padding = bytes(-(request.ByteSize() + _PADDING_HEAD + len(head)) % ALIGNMENT)
    padding = b"" if request.padding else _EMPTY_PADDING
    return [request.SerializeToString() + padding + head, *batches]


def parse_append(data: bytes) -> PackedAppend:
    rest, batches = _apart(pa.py_buffer(data), _APPENDED)
    return PackedAppend(pb.AppendRequest.FromString(rest), batches)


def encode_fetch(bounds: Bounds, batches: Sequence[Part], size: int) -> bytes:
    """The answer in one piece."""
    rest = pb.FetchResponse(bounds=pb.Bounds(first=bounds.first, next=bounds.next)).SerializeToString()
    return b"".join([_head(_FETCHED, size), *batches, rest])


def parse_fetch(data: pa.Buffer) -> PackedFetch:
    rest, batches = _apart(data, _FETCHED)
    bounds = pb.FetchResponse.FromString(rest).bounds
    return PackedFetch(Bounds(bounds.first, bounds.next), batches)


def _head(number: int, size: int) -> bytes:
    """What comes before the bytes of a field."""
    return _varint(number << 3 | _COUNTED) + _varint(size)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004  (7 bits a byte)
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


_EMPTY_PADDING: Final = _head(_PADDING, 0)
_PADDING_HEAD: Final = len(_EMPTY_PADDING)


def _apart(message: pa.Buffer, number: int) -> tuple[bytes, pa.Buffer]:
    """The message without a field of bytes, and that field; empty if it is absent."""
    data = memoryview(message)
    rest, found = [], pa.py_buffer(b"")
    try:
        for field, start, content, end in _fields(data):
            if field == number:
                found = message.slice(content, end - content)
            else:
                rest.append(bytes(data[start:end]))
    except IndexError:
        raise CorruptBatch("a message ends early") from None
    return b"".join(rest), found


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Of each field its number, and where it, its content and what follows begin."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _parse_varint(data, at)
        kind = tag & 7
        content = at
        if kind == _COUNTED:
            size, content = _parse_varint(data, at)
            at = content + size
        elif kind == _VARINT:
            _, at = _parse_varint(data, at)
        elif kind in {_EIGHT_BYTES, _FOUR_BYTES}:
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise CorruptBatch(f"a field of a message is of the unknown kind {kind}")
        if at > len(data):
            raise CorruptBatch("a message ends early")
        yield tag >> 3, start, content, at


def _parse_varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, at
        shift += 7
        if shift > 63:  # noqa: PLR2004  (numbers have 64 bits)
            raise CorruptBatch("a number in a message is too long")
