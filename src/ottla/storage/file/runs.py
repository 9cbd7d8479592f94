"""Reading and making compacted runs, which `ottla.storage.file.runfile` draws: rows to batches and back."""

import bisect
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch import Batch, Columns, columns_of_arrow, split
from ottla.batch.message_headers import headers_to_arrow
from ottla.errors import CorruptLog
from ottla.storage.disk import forks
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.file.layout import Piece
from ottla.storage.file.runfile import RUN_SCHEMA, Footer, firsts_of, read_footer, read_group

_ROW_GROUP_ROWS = 64 * 1024
_ROW_GROUP_BYTES = 16 * 2**20
_BATCH_BYTES = 2**20
_FOOTERS = 64
_GROUPS = 4


class _Group(NamedTuple):
    """A row group, decoded."""

    first: int
    columns: Columns
    appended: pa.Int64Array
    """The append time of each message."""


class Runs:
    """The runs of one engine: a few footers and row groups are remembered. Safe from many threads."""

    def __init__(self, files: Files, handles: OpenFiles) -> None:
        self._files = files
        self._handles = handles
        self.forget()
        forks.register(self)

    def forget(self) -> None:
        self._mutex = threading.Lock()
        self._footers: OrderedDict[Path, Footer] = OrderedDict()
        self._groups: OrderedDict[tuple[Path, int], _Group] = OrderedDict()

    def clear(self) -> None:
        """Forget everything: files were replaced."""
        with self._mutex:
            self._footers.clear()
            self._groups.clear()

    def drop(self, path: Path) -> None:
        """Forget a run that was removed."""
        with self._mutex:
            self._footers.pop(path, None)
            for key in [key for key in self._groups if key[0] == path]:
                del self._groups[key]

    def read(self, piece: Piece, start: int, max_bytes: int) -> list[Batch]:
        """Batches of about 1 MiB from *start* on: at least one, and up to *max_bytes*."""
        group = self._group(piece, self._group_of(piece, start))
        skip = start - group.first
        columns = group.columns.slice(skip, len(group.columns) - skip)
        batches: list[Batch] = []
        number, size = start, 0
        for part in split(columns, min(_BATCH_BYTES, max_bytes)):
            batch = Batch.pack(part).numbered(number, group.appended[number - group.first].as_py())
            size += batch.size
            if batches and size > max_bytes:
                break
            batches.append(batch)
            number = batch.next_number
        return batches

    def find(self, piece: Piece, timestamp_ms: int) -> int:
        """The number of the first message of a run that was appended at or after a time; its end if none."""
        footer = self._footer(piece)
        at = bisect.bisect_left(range(len(footer.groups)), timestamp_ms, key=footer.last_append_ms)
        if at == len(footer.groups):
            return piece.end
        group = self._group(piece, at)
        late = pc.index(pc.greater_equal(group.appended, timestamp_ms), True).as_py()
        return group.first + int(late)

    def last_ms(self, piece: Piece) -> int:
        """The append time of a run's last message."""
        footer = self._footer(piece)
        return footer.last_append_ms(len(footer.groups) - 1)

    def _group_of(self, piece: Piece, number: int) -> int:
        """The row group that holds *number*."""
        return bisect.bisect_right(firsts_of(self._footer(piece), piece.first), number) - 1

    def _footer(self, piece: Piece) -> Footer:
        with self._mutex:
            if piece.path in self._footers:
                self._footers.move_to_end(piece.path)
                return self._footers[piece.path]
        run = self._handles.get(piece.path)
        footer = checked_footer(self._files, run.fd, piece)
        with self._mutex:
            self._footers[piece.path] = footer
            if len(self._footers) > _FOOTERS:
                self._footers.popitem(last=False)
        return footer

    def _group(self, piece: Piece, index: int) -> _Group:
        key = (piece.path, index)
        with self._mutex:
            if key in self._groups:
                self._groups.move_to_end(key)
                return self._groups[key]
        footer = self._footer(piece)
        first = firsts_of(footer, piece.first)[index]
        run = self._handles.get(piece.path)
        group = _decoded(read_group(self._files, run.fd, piece.path, footer, index, first))
        with self._mutex:
            self._groups[key] = group
            if len(self._groups) > _GROUPS:
                self._groups.popitem(last=False)
        return group


def checked_footer(files: Files, fd: int, piece: Piece) -> Footer:
    """The footer of a run that holds as many messages as its name says."""
    footer = read_footer(files, fd, piece.path)
    rows = sum(footer.rows)
    if rows != piece.end - piece.first:
        reason = f"it has {rows} rows for {piece.end - piece.first} messages"
        raise CorruptLog(str(piece.path), footer.size, reason)
    return footer


def _decoded(table: pa.Table) -> _Group:
    columns = columns_of_arrow(table.select(["timestamp", "key", "value", "headers"]))
    appended = table["appended"].combine_chunks().cast(pa.int64())
    return _Group(table["number"][0].as_py(), columns, appended)


def row_groups(batches: Iterable[Batch]) -> Iterator[pa.Table]:
    """Batches, each of which carries on from the one before, as the row groups of a run."""
    waiting: list[Batch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.count, size + batch.header.raw_bytes
        if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            yield _row_group(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _row_group(waiting)


def _row_group(batches: list[Batch]) -> pa.Table:
    """Arrays are joined before anything is done to them, because a batch may be as small as one message."""
    parts = [(batch.columns(), batch.count) for batch in batches]
    appended = [pa.repeat(pa.scalar(batch.header.append_ms, pa.int64()), batch.count) for batch in batches]
    times = [batch.timestamps() if batch.has_timestamps else log for batch, log in zip(batches, appended, strict=True)]
    headers = _joined([(columns.headers, count) for columns, count in parts])
    numbers = pa.arange(batches[0].first_number, batches[-1].next_number)
    return pa.Table.from_arrays(
        [
            numbers,
            pa.concat_arrays(times).cast(RUN_SCHEMA.field("timestamp").type),
            pa.concat_arrays(appended).cast(RUN_SCHEMA.field("appended").type),
            _joined([(columns.keys, count) for columns, count in parts]),
            pa.concat_arrays([columns.values for columns, _ in parts]),
            headers_to_arrow(headers, len(numbers)),
        ],
        schema=RUN_SCHEMA,
    )


def _joined(parts: list[tuple[pa.BinaryArray | None, int]]) -> pa.BinaryArray:
    return pa.concat_arrays([pa.nulls(count, pa.binary()) if part is None else part for part, count in parts])
