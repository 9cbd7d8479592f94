"""Reading a partition without a lock: every call works from one snapshot of `control`.

Files may be compacted, expired or repaired away at any time; a reader that meets a missing one looks
again by number. Positions between calls are remembered, so that following the tail costs one `pread`.
"""

import threading
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path

from ottla.batch import HEADER_BYTES, Batch, unpack_header
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile, OpenFiles
from ottla.storage.file import runs
from ottla.storage.file.index import Index, scan_headers
from ottla.storage.file.layout import Layout, Piece

_REMEMBERED = 16


class Reader:
    """Reads one partition. Safe from many threads."""

    def __init__(self, files: Files, segments: OpenFiles, folder: Path) -> None:
        self._files = files
        self._segments = segments
        self._folder = folder
        self.forget()

    def forget(self) -> None:
        """Start afresh: after a fork, or when files are not where they were."""
        self._mutex = threading.Lock()
        self._layout: tuple[int, Layout] | None = None
        self._indexes: OrderedDict[Path, Index] = OrderedDict()
        self._positions: OrderedDict[int, tuple[Path, int]] = OrderedDict()

    def read(self, control: Control, start: int, max_bytes: int) -> list[Batch]:
        """Whole batches from *start*, which lies within what *control* keeps."""
        layout = self.layout(control)
        for piece in layout.pieces[layout.at(start) :]:
            number = max(start, piece.first)
            if number < piece.end and piece.kind == "log":
                return self._read_log(control, piece, number, max_bytes)
            if number < piece.end and piece.kind == "parquet":
                return runs.read_run(piece, number, max_bytes)
        return []

    def find(self, control: Control, timestamp_ms: int) -> int:
        """The first number appended at or after a time, or *control.next*."""
        for piece in self.layout(control).pieces:
            if piece.kind == "gap" or self.last_ms(control, piece) < timestamp_ms:
                continue
            if piece.kind == "parquet":
                return max(runs.find_in_run(piece, timestamp_ms), control.first)
            with self._mutex:
                index, segment, limit = self._index(control, piece)
                position = index.before_time(timestamp_ms)
            for _, header in scan_headers(self._files, segment.fd, piece.path, position, limit):
                if header.append_ms >= timestamp_ms:
                    return max(header.first_number, control.first)
        return control.next

    def last_ms(self, control: Control, piece: Piece) -> int:
        """The append time of a piece's last batch."""
        if piece.first == control.active:
            return control.append_ms
        if piece.kind == "parquet":
            return runs.last_append_ms(piece)
        if piece.kind == "gap":
            return 0
        with self._mutex:
            return self._index(control, piece)[0].last_ms

    def size(self, control: Control, piece: Piece) -> int:
        """Bytes that a piece takes on the disk."""
        return control.end if piece.first == control.active else piece.path.stat().st_size

    def layout(self, control: Control) -> Layout:
        """The files that held the messages when *control* was read, or since."""
        with self._mutex:
            if self._layout is None or self._layout[0] != control.layout:
                layout = Layout(self._folder, control.active, control.next, control.first)
                self._layout = (control.layout, layout)
            layout = self._layout[1]
            last = layout.pieces[-1]
            if last.end < control.next:
                layout.pieces[-1] = last._replace(end=control.next)
            return layout

    def _read_log(self, control: Control, piece: Piece, start: int, max_bytes: int) -> list[Batch]:
        with self._mutex:
            segment, limit = self._open(control, piece)
            position = self._locate(control, piece, start)
        data = self._files.read_at(segment.fd, min(max(max_bytes, HEADER_BYTES), limit - position), position)
        batches = list(_parse(data, piece.path, position))
        if not batches:  # the first batch is larger than asked for, and nothing must keep a reader from it
            header = unpack_header(data)
            data = self._files.read_at(segment.fd, min(header.size, limit - position), position)
            batches = list(_parse(data, piece.path, position))
        self._check(batches, piece, position, start)
        after = position + sum(batch.size for batch in batches)
        with self._mutex:
            self._positions[batches[-1].next_number] = (piece.path, after)
            while len(self._positions) > _REMEMBERED:
                self._positions.popitem(last=False)
        return batches

    def _check(self, batches: list[Batch], piece: Piece, position: int, start: int) -> None:
        if not batches or not batches[0].first_number <= start < batches[0].next_number:
            raise CorruptLog(str(piece.path), position, f"message {start} is not there")
        for one, other in pairwise(batches):
            if other.first_number != one.next_number:
                reason = f"message {other.first_number} stands where {one.next_number} should"
                raise CorruptLog(str(piece.path), position, reason)

    def _locate(self, control: Control, piece: Piece, number: int) -> int:
        """The position of the batch that holds *number*."""
        path, position = self._positions.pop(number, (None, 0))
        if path == piece.path:
            return position
        index, segment, limit = self._index(control, piece, number)
        position = index.before_number(number)
        for at, header in scan_headers(self._files, segment.fd, piece.path, position, limit):
            if number < header.next_number:
                return at
        raise CorruptLog(str(piece.path), limit, f"it ends before message {number}")

    def _index(self, control: Control, piece: Piece, number: int | None = None) -> tuple[Index, OpenFile, int]:
        """The piece's index, complete or at least as far as *number*; with the open segment and its end."""
        segment, limit = self._open(control, piece)
        index = self._indexes.pop(piece.path, None)
        if index is None:
            stored = self._files.read(piece.path.with_suffix(".index"))
            index = (Index.decode(stored) if stored else None) or Index()
            if index.covered > limit:
                index = Index()
        self._indexes[piece.path] = index
        while len(self._indexes) > _REMEMBERED:
            self._indexes.popitem(last=False)
        for position, header in scan_headers(self._files, segment.fd, piece.path, index.covered, limit):
            index.add(position, header)
            if number is not None and number < header.next_number:
                break
        return index, segment, limit

    def _open(self, control: Control, piece: Piece) -> tuple[OpenFile, int]:
        """A segment and the end of what counts in it."""
        segment = self._segments.get(piece.path)
        size = self._files.size(segment.fd)
        if size < 0:  # replaced since it was opened
            self._segments.drop(piece.path)
            segment = self._segments.get(piece.path)
            size = self._files.size(segment.fd)
        if piece.first != control.active:
            return segment, size
        if size < control.end:
            raise CorruptLog(str(piece.path), size, f"it ends there, but {control.end} bytes were acknowledged")
        return segment, control.end


def _parse(data: bytes, path: Path, position: int) -> "list[Batch]":
    """The whole batches at the start of *data*, which was read at *position*."""
    batches: list[Batch] = []
    at = 0
    try:
        while len(data) - at >= HEADER_BYTES:
            header = unpack_header(data, at)
            if header.size > len(data) - at:
                break
            batches.append(Batch.parse(data, at))
            at += header.size
    except CorruptBatch as error:
        raise CorruptLog(str(path), position + at, error.reason) from error
    return batches
