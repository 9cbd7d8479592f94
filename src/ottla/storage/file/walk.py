"""Walking through a segment that may be damaged: what stands at a position, and where the next batch may start."""

from ottla.batch import HEADER_BYTES, Batch, unpack_header
from ottla.batch.header import ALIGNMENT, MAGIC
from ottla.errors import CorruptBatch
from ottla.storage.disk.files import Files

_CHUNK_BYTES = 4 * 2**20


def look(files: Files, fd: int, position: int, limit: int) -> tuple[Batch | str, int]:
    """The batch at *position*, or what is wrong with it; and how far it is to where the next may start.

    A damaged batch whose header is whole is stepped over, because its messages may look like batches.
    """
    try:
        header = unpack_header(files.read_at(fd, min(HEADER_BYTES, limit - position), position))
    except CorruptBatch as error:
        return error.reason, _next_magic(files, fd, position + ALIGNMENT, limit) - position
    if position + header.size > limit:
        return f"a batch of {header.size} bytes ends beyond byte {limit}", limit - position
    try:
        return Batch.parse(files.read_at(fd, header.size, position)), header.size
    except CorruptBatch as error:
        return error.reason, header.size


def _next_magic(files: Files, fd: int, position: int, limit: int) -> int:
    """Where, from *position* on, the next batch may start: batches lie at multiples of 8 bytes."""
    while position < limit:
        chunk = files.read_at(fd, min(_CHUNK_BYTES, limit - position), position)
        found = chunk.find(MAGIC)
        while found >= 0 and found % ALIGNMENT:
            found = chunk.find(MAGIC, found + 1)
        if found >= 0:
            return position + found
        position += max(len(chunk), ALIGNMENT)
    return limit
