"""What a partition's files say when its control file says nothing, or nothing that they bear out.

The answer is a control file for a partition that goes on in a new segment behind everything that was found; what is
missing or damaged below that is found by examining the files. Nothing is written here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.batch import Batch
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control, new_control, read_control
from ottla.storage.disk.files import Files
from ottla.storage.file.layout import Found, find_files, producers_path
from ottla.storage.file.walk import look
from ottla.storage.producers import Producers

if TYPE_CHECKING:
    from ottla.storage.file.partition import FilePartition


def salvaged(partition: "FilePartition") -> Control:
    """A control file that fits the files; *active* is a segment that is not there yet."""
    known = _known(partition)
    files = find_files(partition.folder)
    number, append_ms = known.next, known.append_ms
    for file in files:
        number = max(number, file.first, file.end or 0)
        for batch in _batches(partition, file.path) if file.kind == "log" else ():
            if file.first <= batch.first_number:
                number, append_ms = max(number, batch.next_number), max(append_ms, batch.header.append_ms)
    first = known.first if known.serial else min((file.first for file in files), default=number)
    return known._replace(
        active=number, end=0, synced=0, synced_next=number, next=number, first=first, layout=known.layout + 1,
        append_ms=append_ms, failed=0,
    )  # fmt: skip


def _known(partition: "FilePartition") -> Control:
    """What the control file says, if it says anything."""
    nothing = new_control(bytes(16))._replace(serial=0)
    try:
        handle = partition.handles.get(partition.lock.path)
        return read_control(partition.files, handle.fd, partition.lock.path)
    except (CorruptLog, FileNotFoundError):
        return nothing


def _batches(partition: "FilePartition", path: Path) -> Iterator[Batch]:
    """Every whole batch of a segment, whatever lies between them."""
    files, segments = partition.files, partition.segments
    segment, size = segments.sized(path)
    position = 0
    while position < size:
        found, step = look(files, segment.fd, position, size)
        if not isinstance(found, str):
            yield found
        position += step


def unpublished_rolls(partition: "FilePartition") -> list[Found]:
    """Empty segments within the numbers of the one before: of rolls that were never published."""
    stale: list[Found] = []
    reached = 0
    for file in find_files(partition.folder):
        ends = [batch.next_number for batch in _batches(partition, file.path)] if file.kind == "log" else []
        if file.kind == "log" and not ends and file.first < reached:
            stale.append(file)
        reached = max([reached, file.end or 0, *ends])
    return stale


def producers_of(partition: "FilePartition", number: int) -> Producers:
    """The producers at *number*, from the newest table below it and the batches since."""
    folder = partition.folder
    logs = [file for file in find_files(folder) if file.kind == "log" and file.first < number]
    table, since = Producers(), 0
    for file in reversed(logs):
        stored = _table(partition.files, producers_path(folder, file.first))
        if stored is not None:
            table, since = stored, file.first
            break
    for file in logs:
        for batch in _batches(partition, file.path) if file.first >= since else ():
            table.note(batch.header)
    return table


def _table(files: Files, path: Path) -> Producers | None:
    stored = files.read(path)
    try:
        return None if stored is None else Producers.decode(stored)
    except CorruptBatch:
        return None
