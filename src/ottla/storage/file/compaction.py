"""Turning sealed segments into Parquet runs while readers and writers go on.

A run is written beside the segments, synced, read again and checked, and only then named and published under the
lock; the segments go after that. Killed anywhere, the log is the same: an unnamed run is swept up by the next
compaction, and where a run and a segment overlap the run counts. One compaction at a time works on a partition.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from ottla.batch import Batch
from ottla.errors import CorruptLog
from ottla.storage.contract import Compacted
from ottla.storage.disk.control import Control, write_control
from ottla.storage.file.layout import Piece, index_path, producers_path, range_path
from ottla.storage.file.runfile import firsts_of, read_group, write_run
from ottla.storage.file.runs import checked_footer, row_groups

if TYPE_CHECKING:
    from ottla.storage.file.partition import FilePartition

_RUN_BYTES = 256 * 2**20
_READ_BYTES = 8 * 2**20
_UNNAMED = ".compacting"
_NOTHING = Compacted(0, 0, 0, 0)


def compact(partition: "FilePartition", progress: Callable[[int], None] | None) -> Compacted:
    """Every sealed segment of a partition into runs of up to 256 MiB of batches; nothing if another one does that."""
    if partition.control() is None:
        return _NOTHING
    with partition.compacting() as alone:
        return _compact(partition, progress) if alone else _NOTHING


def _compact(partition: "FilePartition", progress: Callable[[int], None] | None) -> Compacted:
    for leftover in partition.folder.glob(f"*{_UNNAMED}"):
        partition.files.unlink(leftover)
    groups: list[list[Piece]] = []
    groups = partition.retrying(lambda control: list(_groups(_sealed(partition, control))), groups)
    total = _NOTHING
    for group in groups:
        done = _compact_group(partition, group, progress)
        total = Compacted._make(map(sum, zip(total, done, strict=True)))
    return total


def _sealed(partition: "FilePartition", control: Control) -> list[Piece]:
    """The segments that hold nothing that was removed, and get nothing new."""
    pieces = partition.reader.layout(control).pieces
    return [piece for piece in pieces if piece.kind == "log" and control.first <= piece.first < control.active]


def _groups(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Neighbouring segments that make one run together."""
    group: list[Piece] = []
    size = 0
    for piece in pieces:
        more = piece.path.stat().st_size
        if group and (group[-1].end != piece.first or size + more > _RUN_BYTES):
            yield group
            group, size = [], 0
        group.append(piece)
        size += more
    if group:
        yield group


def _compact_group(partition: "FilePartition", group: list[Piece], progress: Callable[[int], None] | None) -> Compacted:
    files = partition.files
    first, end = group[0].first, group[-1].end
    final = range_path(partition.folder, first, end, "parquet")
    unnamed = final.with_suffix(_UNNAMED)
    try:
        before = sum(piece.path.stat().st_size for piece in group)
        if not _write(partition, unnamed, first, end, progress):
            return _NOTHING
        after = _check(partition, Piece(first, end, "parquet", unnamed))
        if not _publish(partition, group, unnamed, final):
            return _NOTHING
    except FileNotFoundError:  # removed meanwhile
        return _NOTHING
    finally:
        with contextlib.suppress(OSError):
            files.unlink(unnamed)
    return Compacted(len(group), end - first, before, after)


def _write(
    partition: "FilePartition", path: Path, first: int, end: int, progress: Callable[[int], None] | None
) -> bool:
    """The run's bytes, durable; False if the messages were removed meanwhile."""
    reached = first

    def batches() -> Iterator[Batch]:
        nonlocal reached
        while reached < end:
            for batch in partition.read(reached, _READ_BYTES):
                if batch.first_number != reached or batch.next_number > end:
                    return
                yield batch
                reached = batch.next_number
                if progress is not None:
                    progress(batch.count)
                if reached == end:
                    return

    write_run(partition.files, path, row_groups(batches()))
    return reached == end


def _check(partition: "FilePartition", piece: Piece) -> int:
    """Read the run again: the segments go because of it. Returns its size."""
    files = partition.files
    fd = files.open(piece.path, os.O_RDONLY)
    try:
        footer = checked_footer(files, fd, piece)
        firsts = firsts_of(footer, piece.first)
        for group, rows in enumerate(footer.rows):
            numbers = read_group(files, fd, piece.path, footer, group, firsts[group])["number"]
            if pc.max(numbers).as_py() != firsts[group] + rows - 1:
                raise CorruptLog(str(piece.path), footer.groups[group][0], "its numbers do not count up")
        return footer.size
    finally:
        files.close(fd)


def _publish(partition: "FilePartition", group: list[Piece], unnamed: Path, final: Path) -> bool:
    """Name the run and remove its segments, unless retention or a repair came first."""
    files = partition.files
    with partition.locked() as (fd, control):
        if control.first > group[0].first or not all(piece.path.exists() for piece in group):
            return False
        files.rename(unnamed, final)
        files.sync_folder(partition.folder)
        write_control(files, fd, control._replace(layout=control.layout + 1))
        files.sync(fd)
        for piece in group:
            partition.remove(piece.path)
            files.unlink(index_path(partition.folder, piece.first))
            files.unlink(producers_path(partition.folder, piece.first))
    return True
