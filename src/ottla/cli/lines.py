"""What `produce` reads: pieces of a stream, cut at the delimiter, as soon as they arrive.

Memory is bounded by the chunk that is read and by the longest message that may be.
"""

from collections.abc import Iterator
from typing import Protocol

from ottla.errors import MessageTooLarge

_READ_BYTES = 2**20


class Stream(Protocol):
    """Standard input, or a file: gives what there is without waiting for more."""

    def read1(self, size: int = -1, /) -> bytes:
        """At least one byte, up to *size*; none at the end."""


def chunks_of_lines(stream: Stream, delimiter: bytes, limit: int) -> Iterator[list[bytes]]:
    """The lines of a stream, many at a time, none held back; the last one may lack its delimiter."""
    held = bytearray()
    while data := stream.read1(_READ_BYTES):
        searched = max(len(held) - len(delimiter) + 1, 0)
        held += data
        if held.find(delimiter, searched) >= 0:
            lines = bytes(held).split(delimiter)
            held = bytearray(lines.pop())
            yield lines
        if len(held) > limit:
            raise MessageTooLarge("a line", len(held), limit, "max_message_bytes of the topic")
    if held:
        yield [bytes(held)]


def whole(stream: Stream, limit: int) -> bytes:
    """All of a stream, as one message."""
    held = bytearray()
    while data := stream.read1(_READ_BYTES):
        held += data
        if len(held) > limit:
            raise MessageTooLarge("a file", len(held), limit, "max_message_bytes of the topic")
    return bytes(held)
