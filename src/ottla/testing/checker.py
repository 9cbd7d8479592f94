"""The checker: compares what writers were told with what a reader finds, and names every broken promise.

Writers mark every message with who wrote it and a sequence that rises with each message they write, so that
a message says by itself where it belongs. `check` knows nothing of how the log works; it holds it to this:

    lost        an acknowledged message is not in the log
    moved       it is in the log, but not at the partition and number that were acknowledged
    duplicate   a message is in the log twice
    invented    something is in the log that nobody tried to write
    refused     a message is in the log though its writer was told that it is not
    reordered   two messages of one writer are in one partition in the wrong order
    gap         numbers are not dense
    corrupted   a message's bytes are not those that were written
    vanished    a reader saw a message at a number where there is none, or another one, now
    unreadable  reading failed (which whoever reads says, not `check`)
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import google_crc32c

Kind = Literal[
    "lost", "moved", "duplicate", "invented", "refused", "reordered", "gap", "corrupted", "vanished", "unreadable"
]

_MARK = struct.Struct("<IIQI")
"""CRC-32C of the rest, writer, sequence, length of the padding."""
_CRC = struct.Struct("<I")


class Mark(NamedTuple):
    """Who wrote a message, and which of its messages it is."""

    writer: int
    sequence: int

    def __str__(self) -> str:
        return f"message {self.sequence} of writer {self.writer}"


class Place(NamedTuple):
    """Where a message is."""

    partition: int
    number: int

    def __str__(self) -> str:
        return f"number {self.number} of partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise."""

    kind: Kind
    sentence: str


@dataclass(slots=True)
class History:
    """What writers recorded. A mark that was attempted and has no outcome may be in the log, or not."""

    attempted: set[Mark] = field(default_factory=set)
    acknowledged: dict[Mark, Place] = field(default_factory=dict)
    refused: set[Mark] = field(default_factory=set)
    """The writer was told that the message is not in the log, and did not try again."""


Read = Mapping[int, Sequence[tuple[int, bytes | None]]]
"""By partition, the number and value of each message, in the order in which they were read."""


def marked(mark: Mark, size: int = 0) -> bytes:
    """The value of a message: its mark, padded to at least *size* bytes, with a checksum over all."""
    padding = max(0, size - _MARK.size)
    body = _MARK.pack(0, *mark, padding)[4:] + bytes([mark.sequence % 251]) * padding
    return _CRC.pack(google_crc32c.value(body)) + body


def mark_of(value: bytes | None) -> Mark | None:
    """The mark of a value that `marked` made; `None` for anything else, and for a damaged one."""
    if value is None or len(value) < _MARK.size:
        return None
    crc, writer, sequence, padding = _MARK.unpack_from(value)
    if crc != google_crc32c.value(value[4:]) or len(value) != _MARK.size + padding:
        return None
    return Mark(writer, sequence)


def check(
    history: History, read: Read, *, seen: Read | None = None, first: Mapping[int, int] | None = None
) -> list[Anomaly]:
    """Every broken promise that shows in what was *read*; an empty list if there is none.

    *seen* is what readers had read earlier. *first* is the oldest number kept, by partition, where retention
    removed something: what is below may be missing.
    """
    first = first or {}
    places, anomalies = _places(read)
    for partition, messages in read.items():
        anomalies += _numbering(partition, messages, first.get(partition, 1))
        anomalies += _order(partition, messages)
    anomalies += _strangers(history, places)
    anomalies += _acknowledged(history, places, first)
    anomalies += _vanished(seen or {}, read, first)
    return anomalies


def _places(read: Read) -> tuple[dict[Mark, Place], list[Anomaly]]:
    """Where each mark is, and those that are in two places or unreadable."""
    places: dict[Mark, Place] = {}
    anomalies = []
    for partition, messages in read.items():
        for number, value in messages:
            mark, place = mark_of(value), Place(partition, number)
            if mark is None:
                anomalies.append(Anomaly("corrupted", f"{place} is not as any writer wrote it"))
            elif mark in places:
                anomalies.append(Anomaly("duplicate", f"{mark} is {places[mark]} and {place}"))
            else:
                places[mark] = place
    return places, anomalies


def _numbering(partition: int, messages: Sequence[tuple[int, bytes | None]], first: int) -> Iterable[Anomaly]:
    expected = first
    for number, _ in messages:
        if number != expected:
            yield Anomaly("gap", f"{Place(partition, number)} is where {expected} should be")
        expected = number + 1


def _order(partition: int, messages: Sequence[tuple[int, bytes | None]]) -> Iterable[Anomaly]:
    last: dict[int, int] = {}
    for number, value in messages:
        mark = mark_of(value)
        if mark is None:
            continue
        if mark.sequence < last.get(mark.writer, -1):
            yield Anomaly("reordered", f"{mark}, {Place(partition, number)}, comes after {last[mark.writer]}")
        last[mark.writer] = max(mark.sequence, last.get(mark.writer, -1))


def _strangers(history: History, places: Mapping[Mark, Place]) -> Iterable[Anomaly]:
    for mark, place in places.items():
        if mark not in history.attempted:
            yield Anomaly("invented", f"{mark} is {place}, and nobody tried to write it")
        elif mark in history.refused:
            yield Anomaly("refused", f"{mark} is {place}, and its writer was told that it is not in the log")


def _acknowledged(history: History, places: Mapping[Mark, Place], first: Mapping[int, int]) -> Iterable[Anomaly]:
    for mark, told in history.acknowledged.items():
        place = places.get(mark)
        if place is None and told.number >= first.get(told.partition, 1):
            yield Anomaly("lost", f"{mark} was acknowledged as {told} and is not in the log")
        elif place is not None and place != told:
            yield Anomaly("moved", f"{mark} was acknowledged as {told} and is {place}")


def _vanished(seen: Read, read: Read, first: Mapping[int, int]) -> Iterable[Anomaly]:
    for partition, messages in seen.items():
        now = dict(read.get(partition, ()))
        for number, value in messages:
            if number >= first.get(partition, 1) and now.get(number, b"") != value:
                yield Anomaly("vanished", f"{Place(partition, number)} was {mark_of(value)} when a reader saw it")
