"""Looking at every stored byte of a partition: what is whole, what is damaged, which messages are lost.

Nothing is changed here. `ottla.storage.file.mend` uses the same findings to set damage aside.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.batch import HEADER_BYTES, Batch, unpack_header
from ottla.batch.header import MAGIC
from ottla.errors import CorruptBatch, CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.file import runs
from ottla.storage.file.layout import Layout, Piece
from ottla.storage.file.tail import load_tail

if TYPE_CHECKING:
    from ottla.storage.file.engine import FileEngine
    from ottla.storage.file.partition import FilePartition

_CHUNK_BYTES = 4 * 2**20


@dataclass
class Span:
    """Whole messages in a row: the numbers *first* to *end* - 1, at these bytes or row groups of a piece."""

    first: int
    end: int
    start: int
    stop: int


@dataclass
class Finding:
    """What one piece, or the place where one should be, turned out to be."""

    piece: Piece
    good: list[Span] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Positions and reasons."""

    def lost(self) -> Iterator[range]:
        """The numbers of the piece that no good span holds."""
        number = self.piece.first
        for span in self.good:
            if span.first > number:
                yield range(number, span.first)
            number = span.end
        if number < self.piece.end:
            yield range(number, self.piece.end)


def verify(engine: "FileEngine") -> Iterator[Damage]:
    """All damage in all topics."""
    for topic in engine.topics():
        for index in range(topic.settings.partitions):
            yield from verify_partition(engine.partition(topic, index), topic)


def verify_partition(partition: "FilePartition", topic: Topic) -> Iterator[Damage]:
    """All damage in one partition."""
    if not partition.exists():
        return
    control = None
    try:
        control = partition.control()
        assert control is not None
        load_tail(partition.files, partition.folder, control.active)
    except CorruptLog as error:
        yield Damage(
            topic=topic.name, partition=partition.index, path=error.path, position=error.position, reason=error.reason
        )
    if control is None:
        return
    for finding in examine(partition, control):
        yield from damages(finding, topic, partition.index)


def damages(finding: Finding, topic: Topic, index: int) -> Iterator[Damage]:
    """One damage for each bad place, with the numbers that are lost with it."""
    lost = list(finding.lost())
    for number, (position, reason) in enumerate(finding.bad):
        yield Damage(
            topic=topic.name,
            partition=index,
            path=str(finding.piece.path),
            position=position,
            reason=reason,
            lost=lost[number] if number < len(lost) else None,
        )


def examine(partition: "FilePartition", control: Control) -> Iterator[Finding]:
    """Every piece in order, and a finding for every stretch of numbers that no file holds."""
    number = control.first
    for piece in Layout(partition.folder, control.active, control.next, control.first).pieces:
        if piece.first > number:
            hole = Piece(number, piece.first, "log", partition.folder)
            yield Finding(hole, bad=[(0, f"no file holds messages {number} to {piece.first - 1}")])
        number = max(number, piece.end)
        if piece.kind == "log":
            active = piece.first == control.active
            yield examine_log(partition.files, piece, control.end if active else None)
        elif piece.kind == "parquet":
            yield examine_run(piece)


def examine_log(files: Files, piece: Piece, end: int | None) -> Finding:
    """Every batch of a segment up to *end*, or to its last byte; damage is stepped over to the next whole batch."""
    fd = files.open(piece.path, os.O_RDONLY)
    try:
        size = files.size(fd)
        finding = Finding(piece)
        _walk(files, fd, size if end is None else min(end, size), finding)
    finally:
        files.close(fd)
    if end is not None and size < end:
        finding.bad.append((size, f"it ends there, but {end} bytes were acknowledged"))
    elif not finding.bad and list(finding.lost()):
        finding.bad.append((size, f"it ends before message {piece.end}"))
    return finding


def _walk(files: Files, fd: int, limit: int, finding: Finding) -> None:
    position, number = 0, finding.piece.first
    while position < limit:
        try:
            batch = _read_whole(files, fd, position, limit)
            if not number <= batch.first_number <= batch.next_number <= finding.piece.end:
                raise CorruptBatch(f"message {batch.first_number} stands where {number} should")  # noqa: TRY301
        except CorruptBatch as error:
            finding.bad.append((position, error.reason))
            position = _next_magic(files, fd, position + len(MAGIC), limit)
            continue
        spans = finding.good
        if spans and spans[-1].end == batch.first_number and spans[-1].stop == position:
            spans[-1].end, spans[-1].stop = batch.next_number, position + batch.size
        else:
            spans.append(Span(batch.first_number, batch.next_number, position, position + batch.size))
            if batch.first_number > number and not finding.bad:
                finding.bad.append((position, f"message {batch.first_number} stands where {number} should"))
        position, number = position + batch.size, batch.next_number


def _read_whole(files: Files, fd: int, position: int, limit: int) -> Batch:
    header = unpack_header(files.read_at(fd, min(HEADER_BYTES, limit - position), position))
    if position + header.size > limit:
        raise CorruptBatch(f"a batch of {header.size} bytes ends beyond byte {limit}")
    batch = Batch.parse(files.read_at(fd, header.size, position))
    batch.columns()
    return batch


def _next_magic(files: Files, fd: int, position: int, limit: int) -> int:
    """Where the next batch may start, after damage."""
    while position < limit:
        chunk = files.read_at(fd, min(_CHUNK_BYTES, limit - position), position)
        found = chunk.find(MAGIC)
        if found >= 0:
            return position + found
        position += max(len(chunk) - len(MAGIC) + 1, 1)
    return limit


def examine_run(piece: Piece) -> Finding:
    """Every row group of a run, with its checksums and numbers."""
    finding = Finding(piece)
    try:
        counts = runs.row_counts(piece)
    except (CorruptLog, OSError) as error:
        finding.bad.append((0, str(error)))
        return finding
    number = piece.first
    for group, rows in enumerate(counts):
        try:
            runs.check_row_group(piece, group, number)
            finding.good.append(Span(number, number + rows, group, group + 1))
        except (CorruptLog, pa.ArrowException, OSError) as error:
            finding.bad.append((0, f"row group {group}: {error}"))
        number += rows
    return finding
