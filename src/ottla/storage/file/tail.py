"""What an appender knows of the end of a partition: where it is, the producers, the index of the active segment.

It is brought up to date under the lock before each commit, by reading the headers of what other processes
appended since. It is never ahead of what is published.
"""

from pathlib import Path

from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.file.index import Index, scan_headers
from ottla.storage.file.layout import log_path, producers_path
from ottla.storage.producers import Producers


class Tail:
    """The state at byte *position* of segment *active*."""

    def __init__(self, active: int, producers: Producers) -> None:
        self.active = active
        self.position = 0
        self.producers = producers
        self.index = Index()


def load_tail(files: Files, folder: Path, active: int) -> Tail:
    """The state at the start of segment *active*."""
    path = producers_path(folder, active)
    stored = files.read(path)
    if stored is None and active == 1:  # nobody had sent anything before the first segment
        return Tail(active, Producers())
    try:
        return Tail(active, Producers.decode(stored or b""))
    except CorruptBatch as error:
        reason = "the file is missing" if stored is None else error.reason
        raise CorruptLog(str(path), 0, reason) from error


def caught_up(tail: Tail | None, control: Control, files: Files, handles: OpenFiles, folder: Path) -> Tail:
    """The state at the published end, from an older state of the same segment where there is one."""
    if tail is None or tail.active != control.active or tail.position > control.end:
        tail = load_tail(files, folder, control.active)
    if tail.position < control.end:
        path = log_path(folder, control.active)
        segment, _ = handles.sized(path)
        for position, header in scan_headers(files, segment.fd, path, tail.position, control.end):
            tail.index.add(position, header)
            tail.producers.note(header)
            tail.position = position + header.size
    return tail
