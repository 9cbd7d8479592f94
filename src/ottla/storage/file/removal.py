"""Removing the oldest messages of a partition: by number, by age, by size.

Publishing the new first number removes them for every reader; only then do the files go that lie wholly below it.
Killed in between, the files are swept up when the next ones go.
"""

from typing import TYPE_CHECKING

from ottla.model import Bounds
from ottla.storage.disk.control import Control, write_control
from ottla.storage.file.layout import Piece

if TYPE_CHECKING:
    from ottla.storage.file.partition import FilePartition


def trim(partition: "FilePartition", before: int) -> Bounds:
    """Remove what lies below *before*."""
    control = partition.control()
    if control is None:
        return Bounds(1, 1)
    if before <= control.first:
        return Bounds(control.first, control.next)
    with partition.locked() as (fd, control), partition.failing():
        return _drop_below(partition, fd, control, min(before, control.next))


def expire(partition: "FilePartition", older_than_ms: int | None, max_bytes: int | None) -> Bounds:
    """Remove whole pieces that are too old or too much. Nothing is locked if there are none."""

    def attempt(control: Control) -> tuple[Bounds, bool]:
        due = _limit(partition, control, older_than_ms, max_bytes) > control.first
        return Bounds(control.first, control.next), due

    bounds, due = partition.retrying(attempt, (Bounds(1, 1), False))
    if not due:
        return bounds
    with partition.locked() as (fd, control), partition.failing():
        return _drop_below(partition, fd, control, _limit(partition, control, older_than_ms, max_bytes))


def _limit(partition: "FilePartition", control: Control, older_than_ms: int | None, max_bytes: int | None) -> int:
    """The number below which everything is to go."""
    reader, before = partition.reader, control.first
    pieces = reader.layout(control).pieces
    sizes = [0] * len(pieces) if max_bytes is None else [reader.size(control, piece) for piece in pieces]
    left = sum(sizes)
    for piece, size in zip(pieces, sizes, strict=True):
        too_old = older_than_ms is not None and _is_older(partition, control, piece, older_than_ms)
        too_much = max_bytes is not None and left > max_bytes and piece.first != control.active
        if not (too_old or too_much):
            break
        before, left = max(before, piece.end), left - size
    return before


def _is_older(partition: "FilePartition", control: Control, piece: Piece, than_ms: int) -> bool:
    empty = piece.first == piece.end
    return not empty and partition.reader.last_ms(control, piece) < than_ms


def _drop_below(partition: "FilePartition", fd: int, control: Control, before: int) -> Bounds:
    """Publish the new first number, then remove the files that lie below it. The lock is held."""
    if before <= control.first:
        return Bounds(control.first, control.next)
    if before == control.next:  # the active segment goes too
        control = partition.roll(fd, control)
    if control.synced < control.end and not control.failed:  # or a restart could leave the end below the new first
        partition.sync_active(fd, partition.active_file(control), control)
        control = control._replace(synced=control.end, synced_next=control.next)
    control = write_control(partition.files, fd, control._replace(first=before, layout=control.layout + 1))
    partition.files.sync(fd)
    partition.sweep(control)
    return Bounds(control.first, control.next)
