"""What a writer process records of its own work, so that killing it loses no acknowledgement that it saw.

One file for each writer, written by `write(2)` with O_APPEND, 64 bytes a line: a line never straddles a page, so
a kill leaves it whole or absent. A line is a letter, then whole numbers in fixed columns:

    A  first sequence, count, partition, batch sequence    about to append this batch
    K  first sequence, count, partition, first number      acknowledged
    R  first sequence, count, partition, 0                 refused: the log says that it is not stored
    T  0, 0, partition, number                             a janitor is about to trim the partition to that number
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ottla.testing.checker import History, Mark, Place

LINE_BYTES = 64


class Line(NamedTuple):
    """One line, decoded."""

    kind: Literal["A", "K", "R", "T"]
    sequence: int
    """Of the batch's first message."""
    length: int
    partition: int
    number: int
    """The batch's sequence, or its first number in the log."""

    def encode(self) -> bytes:
        text = f"{self.kind} {self.sequence:14d} {self.length:6d} {self.partition:6d} {self.number:14d}"
        return text.ljust(LINE_BYTES - 1).encode() + b"\n"


def read_journal(path: Path) -> list[Line]:
    """Every whole line; none where there is no file yet."""
    data = path.read_bytes() if path.exists() else b""
    lines = []
    for at in range(0, len(data) - LINE_BYTES + 1, LINE_BYTES):
        kind, *numbers = data[at : at + LINE_BYTES].decode().split()
        lines.append(Line(kind, *map(int, numbers)))  # type: ignore[arg-type]
    return lines


class Journal:
    """A journal that is being written."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def note(self, lines: Iterable[Line]) -> None:
        for line in lines:
            os.write(self._fd, line.encode())


@dataclass(slots=True)
class Progress:
    """Where a writer stands, from its journal: what a restarted one goes on with."""

    sequence: int
    """Of its next message."""
    batches: dict[int, int]
    """By partition, the sequence of its next batch."""
    pending: list[Line]
    """The batches whose outcome is not known, in order: the lines that announced them."""


def progress_of(lines: Iterable[Line]) -> Progress:
    progress = Progress(0, {}, [])
    for line in lines:
        if line.kind == "A":
            progress.sequence = line.sequence + line.length
            progress.pending.append(line)
            progress.batches[line.partition] = line.number + 1
        else:
            same = (pending for pending in progress.pending if pending.sequence == line.sequence)
            announced = next(same, line)  # a producer's messages are acknowledged one by one
            progress.pending = [pending for pending in progress.pending if pending is not announced]
            if line.kind == "R":  # its batch sequence is free again
                progress.batches[line.partition] = min(announced.number, progress.batches[line.partition])
    return progress


def add_to_history(history: History, writer: int, lines: Iterable[Line]) -> None:
    """What a journal says, message by message."""
    for line in lines:
        marks = [Mark(writer, line.sequence + i) for i in range(line.length)]
        match line.kind:
            case "A":
                history.attempted.update(marks)
            case "K":
                places = (Place(line.partition, line.number + i) for i in range(line.length))
                history.acknowledged.update(zip(marks, places, strict=True))
            case "R":
                history.refused.update(marks)
