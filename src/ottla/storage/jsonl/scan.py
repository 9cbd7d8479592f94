"""Reading a text file batch by batch, forwards, from the edge of any batch. Nothing is kept but the batch at hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.batch import Batch, Header
from ottla.batch.header import COLUMNS_CODEC, MAGIC, VERSION
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile
from ottla.storage.jsonl.lines import Line, batch_of_lines, check_seal, decode_line, prefix_of

_WINDOW_BYTES = 256 * 1024


class Text(NamedTuple):
    """An open text file."""

    files: Files
    handle: OpenFile
    path: Path
    topic: str

    def damaged(self, position: int, reason: str) -> CorruptLog:
        return CorruptLog(str(self.path), position, reason)


class Stored(NamedTuple):
    """One batch as it is stored: whole, and checked line by line."""

    position: int
    size: int
    """Bytes of text."""
    lines: list[Line]

    @property
    def partition(self) -> int:
        return self.lines[0].partition

    @property
    def first_number(self) -> int:
        return self.lines[0].number

    @property
    def next_number(self) -> int:
        return self.lines[-1].number + 1

    @property
    def append_ms(self) -> int:
        return self.lines[0].append_ms

    @property
    def end(self) -> int:
        """The position behind it."""
        return self.position + self.size

    def batch(self) -> Batch:
        return batch_of_lines(self.lines)

    def header(self) -> Header | None:
        """What the producers' table remembers of a stamped batch; `None` for one that is not."""
        stamp = self.lines[0].stamp
        if stamp is None:
            return None
        return Header(
            MAGIC, VERSION, COLUMNS_CODEC, 0, self.lines[0].of, 0, 0, 0, 0,
            stamp.producer_id, stamp.epoch, stamp.sequence, 0, self.first_number, self.append_ms, 0,
        )  # fmt: skip


def raw_lines(text: Text, position: int, limit: int) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each line, without its end; the last may have none before *limit*."""
    rest = b""
    while (behind := position + len(rest)) < limit:
        data = text.files.read_at(text.handle.fd, min(max(_WINDOW_BYTES, len(rest)), limit - behind), behind)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield position, line
            position += len(line) + 1
    if rest:
        yield position, rest


def batches(text: Text, position: int, limit: int, partition: int | None = None) -> Iterator[Stored]:
    """Every batch from *position* to *limit*, which lie at the edges of batches; or only those of one partition.

    Anything else than whole batches is `CorruptLog`. Lines of other partitions are checked, and skipped.
    """
    wanted = b"" if partition is None else prefix_of(text.topic, partition)
    gathered: list[Line] = []
    start = behind = position
    for at, raw in raw_lines(text, position, limit):
        behind = at + len(raw) + 1
        try:
            if behind > limit:
                raise CorruptBatch("the line has no end")  # noqa: TRY301  (one exit for all damage)
            if not raw.startswith(wanted) and not gathered:
                check_seal(raw)
                continue
            line = decode_line(raw, text.topic)
            check_follows(gathered, line)
        except CorruptBatch as error:
            raise text.damaged(at, error.reason) from error
        start = start if gathered else at
        gathered.append(line)
        if line.which == line.of:
            yield Stored(start, behind - start, gathered)
            gathered = []
    if gathered:
        raise text.damaged(start, f"a batch of {gathered[0].of} messages ends after {len(gathered)}")
    if behind < limit:
        raise text.damaged(behind, f"it ends there, but {limit} bytes were acknowledged")


def check_follows(gathered: list[Line], line: Line) -> None:
    """Raise `CorruptBatch` unless *line* is the next of the batch whose lines were gathered so far."""
    if not gathered:
        if line.which != 1:
            raise CorruptBatch(f"message {line.which} of a batch stands where the first should")
        return
    last = gathered[-1]
    if line[:2] != (last.partition, last.number + 1) or line[2:5] != (last.which + 1, last.of, last.append_ms):
        raise CorruptBatch(f"message {last.which + 1} of a batch of {last.of} should stand here")
