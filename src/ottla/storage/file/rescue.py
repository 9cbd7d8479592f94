"""After a restart of the machine: which of the bytes behind the last known sync are whole batches.

`control` may be behind the segments then, because it is synced only when the active segment changes. So
the segments are read on from the last position known to be durable, through later ones too; whole batches
that carry on the numbering count, and what follows them is a torn tail. Nothing is written here: an
appender makes the result true under its lock, a reader just believes it.

A torn tail is what is left of one commit. Whole batches of later commits behind it prove that it is no such
thing but damage to what was acknowledged: that is an error, and never cut.
"""

from collections.abc import Iterator
from pathlib import Path

from ottla.batch import HEADER_BYTES, Batch, unpack_header
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile, OpenFiles
from ottla.storage.file.layout import find_files, log_path
from ottla.storage.file.walk import look


def rescued(files: Files, segments: OpenFiles, folder: Path, control: Control, *, synced: bool) -> Control:
    """What `control` would say had it been synced with the last acknowledged append, or one later.

    *synced* says that every commit was synced before it was acknowledged, so that at most one can be torn.
    """
    logs = {file.first: file.path for file in find_files(folder) if file.kind == "log"}
    later = sorted(first for first in logs if first > control.active)
    active, position = control.active, control.synced
    number, append_ms = control.synced_next, control.append_ms
    while True:
        if active not in logs:
            raise CorruptLog(str(log_path(folder, active)), 0, "the active segment is missing")
        segment, size = segments.sized(logs[active])
        for batch in whole_batches(files, segment, size, position, number):
            if later and number == later[0] and _starts_with(files, segments, logs[number], number):
                break  # what is left here failed to be synced, and was written again to the next segment
            position, number = position + batch.size, batch.next_number
            append_ms = max(append_ms, batch.header.append_ms)
        while later and later[0] < number:  # an empty file of a roll that was never published
            later.pop(0)
        if not later:
            break
        if later[0] != number:
            reason = f"message {number} is missing, and a later segment starts at message {later[0]}"
            raise CorruptLog(str(logs[active]), position, reason)
        active, position = later.pop(0), 0
    if synced and _is_no_tail(files, segment, size, position, number):
        raise CorruptLog(str(logs[active]), position, f"message {number} is not whole, and later ones are there")
    return control._replace(
        active=active,
        end=position,
        synced=position,
        synced_next=number,
        next=number,
        layout=control.layout + 1,
        append_ms=append_ms,
        failed=0,
    )


def whole_batches(files: Files, segment: OpenFile, size: int, position: int, number: int) -> Iterator[Batch]:
    """The batches from *position* on that are whole and carry on from *number*."""
    while position + HEADER_BYTES <= size:
        found, step = look(files, segment.fd, position, size)
        if isinstance(found, str) or found.first_number != number:
            return
        yield found
        position, number = position + step, found.next_number


def _starts_with(files: Files, segments: OpenFiles, path: Path, number: int) -> bool:
    segment, size = segments.sized(path)
    return next(whole_batches(files, segment, size, 0, number), None) is not None


def _is_no_tail(files: Files, segment: OpenFile, size: int, position: int, number: int) -> bool:
    """Whether what lies behind *position* is more than the rest of one commit.

    The batches of a commit have the same append time. So a whole batch that is younger than one before it, or than
    the damaged one where that still tells its time, was written by a later commit, after the earlier was synced.
    """
    oldest_ms = _time_at(files, segment, position)
    while position < size:
        found, step = look(files, segment.fd, position, size)
        if isinstance(found, Batch) and found.first_number > number:
            append_ms = found.header.append_ms
            if oldest_ms is not None and append_ms > oldest_ms:
                return True
            oldest_ms = append_ms if oldest_ms is None else oldest_ms
        position += step
    return False


def _time_at(files: Files, segment: OpenFile, position: int) -> int | None:
    try:
        return unpack_header(files.read_at(segment.fd, HEADER_BYTES, position)).append_ms
    except CorruptBatch:
        return None
