"""Turning sealed segments into Parquet runs while readers and writers go on.

A run is written beside the segments, checked, synced, and only then named and published under the lock;
the segments go after that. Killed anywhere, the log is the same: an unnamed run is swept up by the next
compaction, and where a run and a segment overlap the run counts.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.batch import Batch
from ottla.storage.contract import Compacted
from ottla.storage.disk.control import write_control
from ottla.storage.file import runs
from ottla.storage.file.layout import Piece, index_path, producers_path, range_path

if TYPE_CHECKING:
    from ottla.storage.file.partition import FilePartition

_RUN_BYTES = 256 * 2**20
_READ_BYTES = 8 * 2**20
_UNNAMED = ".compacting"


def compact(partition: "FilePartition", progress: Callable[[int], None] | None) -> Compacted:
    """Every sealed segment of a partition into runs of up to 256 MiB of batches."""
    total = Compacted(0, 0, 0, 0)
    control = partition.control()
    if control is None:
        return total
    for leftover in partition.folder.glob(f"*{_UNNAMED}"):
        leftover.unlink()
    pieces = partition.reader.layout(control).pieces
    sealed = [piece for piece in pieces if piece.kind == "log" and piece.first != control.active]
    for group in _groups(sealed):
        done = _compact_group(partition, group, progress)
        total = Compacted._make(map(sum, zip(total, done, strict=True)))
    return total


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
    first, end = group[0].first, group[-1].end
    before = sum(piece.path.stat().st_size for piece in group)
    final = range_path(partition.folder, first, end, "parquet")
    unnamed = final.with_suffix(f".{os.getpid()}{_UNNAMED}")
    try:
        whole = _write(partition, unnamed, first, end, progress)
        if not whole or not _publish(partition, group, unnamed, final):
            return Compacted(0, 0, 0, 0)
    finally:
        unnamed.unlink(missing_ok=True)
    return Compacted(len(group), end - first, before, final.stat().st_size)


def _write(
    partition: "FilePartition", path: Path, first: int, end: int, progress: Callable[[int], None] | None
) -> bool:
    """The run's bytes, durable; False if the messages were removed meanwhile."""
    reached = first

    def batches() -> Iterator[Batch]:
        nonlocal reached
        while reached < end:
            for batch in partition.read(reached, _READ_BYTES):
                if batch.first_number != reached or batch.first_number >= end:
                    return
                yield batch
                reached = batch.next_number
                if progress is not None:
                    progress(batch.count)

    runs.write_run(path, batches())
    files = partition.files
    fd = files.open(path, os.O_RDWR)
    try:
        files.sync(fd)
    finally:
        files.close(fd)
    return reached == end


def _publish(partition: "FilePartition", group: list[Piece], unnamed: Path, final: Path) -> bool:
    """Name the run and remove its segments, unless retention or another compaction came first."""
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
