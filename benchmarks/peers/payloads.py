"""The messages that all peers get: random bytes, stamped with their time where that is measured, packed by hand."""

import random
import time
from array import array
from collections.abc import Iterable, Iterator
from itertools import cycle, islice

PACKED = 1_000
"""Messages in a record that was packed by hand."""
_DISTINCT = 10_000
_STAMP_BYTES = 8
_LENGTH_BYTES = 4


def distinct(size: int) -> list[bytes]:
    """Ten thousand messages, the same in every run."""
    source = random.Random(size)
    return [source.randbytes(size) for _ in range(_DISTINCT)]


def repeated(values: list[bytes], count: int) -> Iterator[bytes]:
    return islice(cycle(values), count)


def in_lists(values: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    rest = iter(values)
    while one := list(islice(rest, size)):
        yield one


def pack(values: list[bytes]) -> bytes:
    """Many messages as one record: how many, their lengths, the messages."""
    lengths = array("I", map(len, values))
    return b"".join([len(values).to_bytes(_LENGTH_BYTES, "little"), lengths.tobytes(), *values])


def unpack(record: bytes) -> list[bytes]:
    count = int.from_bytes(record[:_LENGTH_BYTES], "little")
    at = _LENGTH_BYTES * (1 + count)
    values = []
    for length in array("I", record[_LENGTH_BYTES:at]):
        values.append(record[at : at + length])
        at += length
    return values


def stamped(size: int, count: int, pause_s: float) -> Iterator[bytes]:
    """Messages that begin with the moment at which each was asked for, *pause_s* after the one before."""
    rest = random.Random(size).randbytes(size - _STAMP_BYTES)
    for _ in range(count):
        time.sleep(pause_s)
        yield time.monotonic_ns().to_bytes(_STAMP_BYTES, "little") + rest


def age_s(value: bytes, now_ns: int) -> float:
    """The seconds since a message was stamped, in whichever process of this machine."""
    return (now_ns - int.from_bytes(value[:_STAMP_BYTES], "little")) / 1e9
