"""One call on a connection: the messages that have come so far, and how it ended.

gRPC puts five bytes before each message: whether it is compressed (never, here), and its length.
"""

import struct
from collections import deque
from typing import Final

import pyarrow as pa

from ottla.storage.remote.frames import LARGEST_WINDOW

_HEAD: Final = struct.Struct(">BI")
HEAD_BYTES: Final = _HEAD.size


class Lost(Exception):
    """A call ended without an answer. *reached* is False if the server certainly did nothing of it."""

    def __init__(self, reason: str, *, reached: bool) -> None:
        self.reason = reason
        self.reached = reached
        super().__init__(reason)


def message_head(size: int) -> bytes:
    """What comes before a message of that size."""
    return _HEAD.pack(0, size)


class Stream:
    """What is known of one call. The connection's lock guards it, except for a message that is still coming in."""

    __slots__ = (
        "_filled", "_head", "_view", "failure", "headers", "id", "messages", "received", "trailers", "waiters", "window"
    )  # fmt: skip

    def __init__(self, number: int, window: int) -> None:
        self.id = number
        self.window = window
        """How many bytes the server takes from this call now."""
        self.received = 0
        """Bytes since the server was last told that it may send more."""
        self.headers: dict[str, str] | None = None
        self.trailers: dict[str, str] | None = None
        self.failure: Lost | None = None
        self.messages: deque[pa.Buffer] = deque()
        self.waiters: list[object] = []
        self._head = bytearray()
        self._view: memoryview | None = None
        self._filled = 0

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self.trailers is not None or self.failure is not None

    def room(self, most: int) -> memoryview | None:
        """Where the next bytes of a message go, at most so many; `None` where its length is not known yet."""
        if self._view is None:
            return None
        return self._view[self._filled : self._filled + most]

    def filled(self, size: int) -> bool:
        """So many bytes are there now; whether a message is complete with them."""
        assert self._view is not None
        self._filled += size
        if self._filled < len(self._view):
            return False
        self._complete()
        return True

    def feed(self, data: memoryview) -> bool:
        """Take bytes as they come; whether a message is complete with them."""
        complete = False
        while len(data):
            if self._view is None:
                missing = HEAD_BYTES - len(self._head)
                self._head += data[:missing]
                data = data[missing:]
                if len(self._head) < HEAD_BYTES:
                    break
                complete |= self._begin()
            else:
                room = self._view[self._filled : self._filled + len(data)]
                room[:] = data[: len(room)]
                data = data[len(room) :]
                complete |= self.filled(len(room))
        return complete

    def _begin(self) -> bool:
        compressed, size = _HEAD.unpack(self._head)
        if compressed or size > LARGEST_WINDOW:
            raise ValueError("a compressed message" if compressed else f"a message of {size:,} bytes")
        self._head.clear()
        offset = -_field_head(size) % 8
        self._view = memoryview(bytearray(size + offset))[offset:]  # Arrow's own memory takes four times as long
        self._filled = 0
        if not size:
            self._complete()
        return not size

    def _complete(self) -> None:
        self.messages.append(pa.py_buffer(self._view))
        self._view = None


def _field_head(size: int) -> int:
    """How long the tag and length of a field are that fills a message of that size.

    A message that is one large field is placed so that the field's content is aligned: batches need no copy then.
    """
    return 1 + max(-(-size.bit_length() // 7), 1)
