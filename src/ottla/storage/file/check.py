"""Looking at every stored byte of a partition: what is whole, what is damaged, which messages are lost.

Nothing is changed here. `ottla.storage.file.mend` uses the same findings to set damage aside.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.batch import Batch
from ottla.errors import CorruptBatch, CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.mending import control_damage, described
from ottla.storage.file.layout import Piece, log_path, pieces_of
from ottla.storage.file.runfile import firsts_of, read_group
from ottla.storage.file.runs import checked_footer
from ottla.storage.file.salvage import salvaged, unpublished_rolls
from ottla.storage.file.tail import load_tail
from ottla.storage.file.walk import look

if TYPE_CHECKING:
    from ottla.storage.file.engine import FileEngine
    from ottla.storage.file.partition import FilePartition


@dataclass
class Span:
    """Whole messages in a row: the numbers *first* to *end* - 1, at these bytes or row groups of a piece."""

    first: int
    end: int
    start: int
    stop: int


class Bad(NamedTuple):
    """One bad place of a piece."""

    position: int
    reason: str
    lost: range | None
    """The numbers that are lost there, if any are."""


@dataclass
class Finding:
    """What one piece, or the place where one should be, turned out to be."""

    piece: Piece
    good: list[Span] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    unreadable: OSError | None = None
    """What the disk said where it could not be read at all."""

    def add_good(self, first: int, end: int, start: int, stop: int) -> None:
        last = self.good[-1] if self.good else None
        if last is not None and (last.end, last.stop) == (first, start):
            last.end, last.stop = end, stop
        else:
            self.good.append(Span(first, end, start, stop))

    def add_bad(self, place: tuple[int, str], first: int, end: int) -> None:
        self.bad.append(Bad(*place, range(first, end) if first < end else None))


def verify(engine: "FileEngine") -> Iterator[Damage]:
    """All damage in all topics."""
    yield from (described(engine, error) for error in engine.catalog.damage())
    for topic in engine.catalog.whole_topics():
        for index in range(topic.settings.partitions):
            yield from _verify_partition(engine.partition(topic, index), topic)


def _verify_partition(partition: "FilePartition", topic: Topic) -> Iterator[Damage]:
    if not partition.exists() and not partition.holds_messages():
        return
    yield from (
        Damage(topic=topic.name, partition=partition.index, path=str(partition.lock.path), position=at, reason=reason)
        for at, reason in control_damage(partition)
    )
    control, stale = _looked_up(partition)
    if stale is None:
        yield from (_damage_of(error, topic, partition.index) for error in producers_damage(partition, control))
    number = control.first
    while True:
        try:
            for finding in examine(partition, control, number, stale):
                yield from damages(finding, topic, partition.index)
                number = finding.piece.end
        except FileNotFoundError:  # it was removed, or compacted, while this looked
            control, stale = _looked_up(partition)
            number = max(number, control.first)
        else:
            return


def _looked_up(partition: "FilePartition") -> tuple[Control, set[Path] | None]:
    """What counts; and, if that had to be found out from the segments alone, those of them that do not."""
    try:
        control = partition.control()
        assert control is not None
    except CorruptLog:
        return salvaged(partition), {file.path for file in unpublished_rolls(partition)}
    return control, None


def _damage_of(error: CorruptLog, topic: Topic, index: int) -> Damage:
    return Damage(topic=topic.name, partition=index, path=error.path, position=error.position, reason=error.reason)


def producers_damage(partition: "FilePartition", control: Control) -> list[CorruptLog]:
    """What is wrong with the producers' table that the next append needs."""
    try:
        load_tail(partition.files, partition.folder, control.active)
    except CorruptLog as error:
        return [error]
    return []


def damages(finding: Finding, topic: Topic, index: int) -> Iterator[Damage]:
    """One damage for each bad place, with the numbers that are lost with it."""
    for position, reason, lost in finding.bad:
        yield Damage(
            topic=topic.name,
            partition=index,
            path=str(finding.piece.path),
            position=position,
            reason=reason,
            lost=lost,
        )


def examine(
    partition: "FilePartition", control: Control, number: int, stale: set[Path] | None = None
) -> Iterator[Finding]:
    """Every piece in order from *number*, and a finding for every stretch of numbers that no file holds.

    With *stale*, segments that do not count, *control* was salvaged, and its active segment does not exist yet.
    """
    folder, files = partition.folder, partition.files
    for piece in pieces_of(folder, control.active, control.next, number, stale or ()):
        if piece.first > number:
            yield _hole(Piece(number, piece.first, "log", folder), "no file holds these messages")
        number = max(number, piece.end)
        finding, reached = _examined(files, piece, control)
        yield finding
        if reached < piece.end:  # it ends as a segment does, so another one followed it
            yield _hole(Piece(reached, piece.end, "log", folder), "no file holds these messages")
    path = log_path(folder, control.active)
    if stale is None and not path.exists():
        yield _hole(Piece(control.active, control.next, "log", path), "the active segment is missing")


def _examined(files: Files, piece: Piece, control: Control) -> tuple[Finding, int]:
    """What a piece turned out to be, and the number up to which that tells of all messages."""
    try:
        if piece.kind == "log":
            return examine_log(files, piece, control.end if piece.first == control.active else None)
        return (examine_run(files, piece) if piece.kind == "parquet" else Finding(piece)), piece.end
    except FileNotFoundError:
        raise
    except OSError as error:
        finding = Finding(piece, unreadable=error)
        finding.add_bad((0, f"it cannot be read ({error.strerror or error})"), piece.first, piece.end)
        return finding, piece.end


def _hole(piece: Piece, reason: str) -> Finding:
    finding = Finding(piece)
    finding.add_bad((0, reason), piece.first, piece.end)
    return finding


def examine_log(files: Files, piece: Piece, end: int | None) -> tuple[Finding, int]:
    """Every batch of a segment up to *end*, or to its last message; damage is stepped over to the next whole batch.

    Returns what was found, and the number up to which that tells of all messages.
    """
    finding = Finding(piece)
    fd = files.open(piece.path, os.O_RDONLY)
    try:
        size = files.size(fd)
        number, bad = _walk(files, fd, size if end is None else min(end, size), finding)
    finally:
        files.close(fd)
    if end is not None and size < end:
        bad = (size, f"it ends there, but {end} bytes were acknowledged")
    if number < piece.end and bad is not None:
        finding.add_bad(bad, number, piece.end)
        number = piece.end
    return finding, number


def _walk(files: Files, fd: int, limit: int, finding: Finding) -> tuple[int, tuple[int, str] | None]:
    """Fill in the finding; returns the number that was reached, and what is bad behind that."""
    piece, position, number = finding.piece, 0, finding.piece.first
    bad: tuple[int, str] | None = None
    while position < limit and number < piece.end:
        found, step = look(files, fd, position, limit)
        if isinstance(found, Batch):
            found = _judged(found, number, piece.end)
        if isinstance(found, str):
            bad = bad or (position, found)
        else:
            if found.first_number > number:
                bad = bad or (position, f"message {found.first_number} stands where {number} should")
            if bad is not None:
                finding.add_bad(bad, number, found.first_number)
                bad = None
            finding.add_good(found.first_number, found.next_number, position, position + step)
            number = found.next_number
        position += step
    return number, bad


def _judged(batch: Batch, number: int, end: int) -> Batch | str:
    """The batch, or what is wrong with it where *number* is expected."""
    if not number <= batch.first_number < batch.next_number <= end:
        return f"message {batch.first_number} stands where {number} should"
    try:
        batch.check()
    except CorruptBatch as error:
        return error.reason
    return batch


def examine_run(files: Files, piece: Piece) -> Finding:
    """Every row group of a run, with its checksums and numbers."""
    finding = Finding(piece)
    fd = files.open(piece.path, os.O_RDONLY)
    try:
        footer = checked_footer(files, fd, piece)
        firsts = firsts_of(footer, piece.first)
        for group, (first, end) in enumerate(pairwise(firsts)):
            try:
                read_group(files, fd, piece.path, footer, group, first).validate(full=True)
                finding.add_good(first, end, group, group + 1)
            except CorruptLog as error:
                finding.add_bad((error.position, error.reason), first, end)
    except CorruptLog as error:
        finding.add_bad((error.position, error.reason), piece.first, piece.end)
    finally:
        files.close(fd)
    return finding
