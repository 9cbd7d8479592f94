"""HTTP/2 frames (RFC 9113), as far as a gRPC client needs them. No I/O.

length (3 bytes) · type (1) · flags (1) · stream (4) · payload
"""

import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES: Final = 9

DATA: Final = 0
HEADERS: Final = 1
RST_STREAM: Final = 3
SETTINGS: Final = 4
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

HEADER_TABLE_SIZE: Final = 1
ENABLE_PUSH: Final = 2
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5

REFUSED_STREAM: Final = 7
CANCEL: Final = 8

DEFAULT_WINDOW: Final = 2**16 - 1
LARGEST_WINDOW: Final = 2**31 - 1
DEFAULT_FRAME: Final = 2**14
LARGEST_FRAME: Final = 2**24 - 1

_HEAD = struct.Struct(">HBBBI")
_NUMBER = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_STREAM_BITS = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return frame_head(kind, flags, stream, len(payload)) + payload


def frame_head(kind: int, flags: int, stream: int, length: int) -> bytes:
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def parse_head(buffer: bytearray, at: int) -> tuple[int, int, int, int]:
    """Length, type, flags and stream of the frame that begins there."""
    high, low, kind, flags, stream = _HEAD.unpack_from(buffer, at)
    return high << 8 | low, kind, flags, stream & _STREAM_BITS


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*setting) for setting in values.items()))


def parse_settings(payload: bytes) -> dict[int, int]:
    return dict(_SETTING.iter_unpack(payload))


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(size))


def reset(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def number(payload: bytes) -> int:
    """The number that a payload begins with: a window's growth, an error code, the last stream of a GOAWAY."""
    (found,) = _NUMBER.unpack_from(payload)
    return int(found) & _STREAM_BITS


def header_block(flags: int, payload: bytes) -> bytes:
    """The block in the payload of a HEADERS frame, without padding and priority."""
    start, end = 0, len(payload)
    if flags & PADDED:
        start, end = 1, end - payload[0]
    return payload[start + (5 if flags & PRIORITY else 0) : end]
