"""Finding a batch inside a segment by scanning headers, between two entries of its sparse index."""

from collections.abc import Iterator
from pathlib import Path

from ottla.batch import HEADER_BYTES, Header, unpack_header
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.files import Files
from ottla.storage.disk.index import Index

__all__ = ["Index", "scan_headers"]

_WINDOW_BYTES = 64 * 1024


def scan_headers(files: Files, fd: int, path: Path, position: int, limit: int) -> Iterator[tuple[int, Header]]:
    """Position and header of each batch from *position* to *limit*, which lie at the edges of batches.

    Bodies are skipped, not read. Anything else than whole batches is `CorruptLog`.
    """
    window, window_at = b"", position
    while position < limit:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = files.read_at(fd, min(_WINDOW_BYTES, limit - position), position), position
        try:
            header = unpack_header(window, position - window_at)
        except CorruptBatch as error:
            raise CorruptLog(str(path), position, error.reason) from error
        if position + header.size > limit:
            raise CorruptLog(str(path), position, f"a batch of {header.size} bytes ends beyond byte {limit}")
        yield position, header
        position += header.size
