"""After a restart of the machine: which of the bytes behind the last known sync are whole batches.

`control` may be behind the segments then, because it is synced only when the active segment changes. So
the segments are read on from the last position known to be durable, through later ones too; whole batches
that carry on the numbering count, and what follows them is a torn tail. Nothing is written here: an
appender makes the result true under its lock, a read-only reader just believes it.
"""

from collections.abc import Iterator
from pathlib import Path

from ottla.batch import HEADER_BYTES, Batch, unpack_header
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile, OpenFiles
from ottla.storage.file.layout import find_files


def rescued(files: Files, segments: OpenFiles, folder: Path, control: Control, incarnation: bytes) -> Control:
    """What `control` would say had it been synced with the last acknowledged append, or one later."""
    logs = {first: path for first, _, kind, path in find_files(folder) if kind == "log"}
    later = sorted(first for first in logs if first > control.active)
    active, position = control.active, control.synced
    number, append_ms = control.synced_next, control.append_ms
    if active not in logs:
        raise CorruptLog(str(folder), 0, f"the active segment, which starts at message {active}, is missing")
    while True:
        while later and later[0] < number:  # an empty file from a roll that was never published
            later.pop(0)
        for batch in whole_batches(files, segments.get(logs[active]), position, number):
            if later and number == later[0] and _starts_with(files, segments.get(logs[number]), number):
                break  # what is left here failed to be synced, and was written again to the next segment
            position, number = position + batch.size, batch.next_number
            append_ms = max(append_ms, batch.header.append_ms)
        while later and later[0] < number:
            later.pop(0)
        if not later:
            break
        if later[0] != number:
            reason = f"message {number} is missing, and a later segment starts at message {later[0]}"
            raise CorruptLog(str(logs[active]), position, reason)
        active, position = later.pop(0), 0
    oldest = min(first for first, _, _, _ in find_files(folder))
    return control._replace(
        incarnation=incarnation,
        active=active,
        end=position,
        synced=position,
        synced_next=number,
        next=number,
        first=max(control.first, min(oldest, number)),
        layout=control.layout + 1,
        append_ms=append_ms,
        failed=0,
    )


def whole_batches(files: Files, segment: OpenFile, position: int, number: int) -> Iterator[Batch]:
    """The batches from *position* on that are whole and carry on from *number*."""
    size = files.size(segment.fd)
    while position + HEADER_BYTES <= size:
        batch = read_batch(files, segment, position, size)
        if batch is None or batch.first_number != number:
            return
        yield batch
        position, number = position + batch.size, batch.next_number


def read_batch(files: Files, segment: OpenFile, position: int, size: int) -> Batch | None:
    """The batch at *position* in a segment of *size* bytes, or `None` if there is no whole one."""
    try:
        header = unpack_header(files.read_at(segment.fd, HEADER_BYTES, position))
        if position + header.size > size:
            return None
        return Batch.parse(files.read_at(segment.fd, header.size, position))
    except CorruptBatch:
        return None


def _starts_with(files: Files, segment: OpenFile, number: int) -> bool:
    return next(whole_batches(files, segment, 0, number), None) is not None
