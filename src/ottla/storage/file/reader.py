"""Reading a partition without a lock: every call works from one snapshot of `control`.

Files may be compacted, expired or repaired away at any time; a reader that meets a missing one looks
again by number. Positions between calls are remembered, so that following the tail costs one `pread`.
"""

import bisect
import struct
import threading
from collections import OrderedDict
from pathlib import Path

from ottla.batch import HEADER_BYTES, Batch
from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile, OpenFiles
from ottla.storage.disk.index import Index
from ottla.storage.file.index import scan_headers
from ottla.storage.file.layout import Layout, Piece
from ottla.storage.file.runs import Runs

_REMEMBERED = 16
_BODY_BYTES = struct.Struct("<12xI")
"""Where a batch's header has the length of its body."""


class _Known:
    """What is known of a segment's inside."""

    __slots__ = ("complete", "index", "stored")

    def __init__(self, index: Index | None) -> None:
        self.index = index or Index()
        self.stored = index is not None
        """The index comes from a file, which is a convenience and never the truth."""
        self.complete = False
        """The index reaches the segment's last batch, and whatever is behind it does not count."""


class Reader:
    """Reads one partition. Safe from many threads."""

    def __init__(self, files: Files, segments: OpenFiles, runs: Runs, folder: Path) -> None:
        self._files = files
        self._segments = segments
        self._runs = runs
        self._folder = folder
        self._pieces: list[Piece] = []
        self.forget()

    def forget(self) -> None:
        """Start afresh, after a fork."""
        self._mutex = threading.Lock()
        self._layout: tuple[int, Layout] | None = None
        self._known: OrderedDict[Path, _Known] = OrderedDict()
        self._positions: OrderedDict[int, tuple[Path, int]] = OrderedDict()

    def look_again(self) -> None:
        """Files are not where they were, or not what they were."""
        with self._mutex:
            self._layout = None
            self._known.clear()
            self._positions.clear()

    def read(self, control: Control, start: int, max_bytes: int) -> list[Batch]:
        """Whole batches from *start*, which lies within what *control* keeps."""
        layout = self.layout(control)
        for piece in layout.pieces[layout.at(start) :]:
            if start < piece.first:
                reason = f"no file holds messages {start} to {piece.first - 1}"
                raise CorruptLog(str(self._folder), 0, reason)
            if start < piece.end and piece.kind == "log":
                return self._read_log(control, piece, start, max_bytes)
            if start < piece.end and piece.kind == "parquet":
                return self._runs.read(piece, start, max_bytes)
            start = max(start, piece.end)  # a gap is stepped over
        return []

    def find(self, control: Control, timestamp_ms: int) -> int:
        """The first number appended at or after a time, or *control.next*."""
        pieces = [piece for piece in self.layout(control).pieces if piece.kind != "gap" and piece.first < piece.end]
        at = bisect.bisect_left(pieces, timestamp_ms, key=lambda piece: self.last_ms(control, piece))
        if at == len(pieces):
            return control.next
        piece = pieces[at]
        if piece.kind == "parquet":
            return max(self._runs.find(piece, timestamp_ms), control.first)
        with self._mutex:
            index, segment, limit = self._index(control, piece)
            position = index.before_time(timestamp_ms)
        for _, header in scan_headers(self._files, segment.fd, piece.path, position, limit):
            if header.append_ms >= timestamp_ms:
                return max(header.first_number, control.first)
        return piece.end

    def last_ms(self, control: Control, piece: Piece) -> int:
        """The append time of a piece's last batch."""
        if piece.first == control.active:
            return control.append_ms
        if piece.kind == "parquet":
            return self._runs.last_ms(piece)
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
                self._let_go(layout.pieces)
            layout = self._layout[1]
            last = layout.pieces[-1]
            if last.end < control.next:
                layout.pieces[-1] = last._replace(end=control.next)
            return layout

    def _let_go(self, pieces: list[Piece]) -> None:
        """Close what is no longer part of the partition: the disk has its space only then."""
        for path in {piece.path for piece in self._pieces} - {piece.path for piece in pieces}:
            self._segments.drop(path)
            self._runs.drop(path)
            self._known.pop(path, None)
        self._pieces = list(pieces)

    def _read_log(self, control: Control, piece: Piece, start: int, max_bytes: int) -> list[Batch]:
        with self._mutex:
            segment, limit = self._open(control, piece)
            position = self._locate(control, piece, start)
        left = max(limit - position, 0)
        data = self._files.read_at(segment.fd, min(max(max_bytes, HEADER_BYTES), left), position)
        if len(data) < (size := min(_size_of(data), left)):  # a large first batch must not keep a reader from it
            data = self._files.read_at(segment.fd, size, position)
        batches = _parse(data, piece, position, start)
        after = position + sum(batch.size for batch in batches)
        with self._mutex:
            self._positions[start] = (piece.path, position)
            self._positions[batches[-1].next_number] = (piece.path, after)
            while len(self._positions) > 2 * _REMEMBERED:
                self._positions.popitem(last=False)
        return batches

    def _locate(self, control: Control, piece: Piece, number: int) -> int:
        """The position of the batch that holds *number*."""
        path, position = self._positions.get(number, (None, 0))
        if path == piece.path:
            return position
        try:
            return self._scan(control, piece, number)
        except CorruptLog:
            known = self._known.get(piece.path)
            if known is None or not known.stored:
                raise
            self._known[piece.path] = _Known(None)
            return self._scan(control, piece, number)

    def _scan(self, control: Control, piece: Piece, number: int) -> int:
        index, segment, limit = self._index(control, piece, number)
        position = index.before_number(number)
        for at, header in scan_headers(self._files, segment.fd, piece.path, position, limit):
            if number < header.next_number:
                return at
        raise CorruptLog(str(piece.path), limit, f"it ends before message {number}")

    def _index(self, control: Control, piece: Piece, number: int | None = None) -> tuple[Index, OpenFile, int]:
        """The piece's index, complete or at least as far as *number*; with the open segment and its end."""
        segment, limit = self._open(control, piece)
        sealed = piece.first != control.active
        known = self._known.pop(piece.path, None) or self._load(piece, limit, sealed=sealed)
        self._known[piece.path] = known
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        index = known.index
        if known.complete:
            return index, segment, index.covered
        for position, header in scan_headers(self._files, segment.fd, piece.path, index.covered, limit):
            index.add(position, header)
            if header.next_number >= piece.end:
                known.complete = sealed
                break
            if number is not None and number < header.next_number:
                break
        return index, segment, limit

    def _load(self, piece: Piece, limit: int, *, sealed: bool) -> _Known:
        """The index that was stored when the segment was sealed, if it tells of all of it."""
        stored = self._files.read(piece.path.with_suffix(".index")) if sealed else None
        index = Index.decode(stored) if stored else None
        return _Known(index if index is not None and index.covered == limit else None)

    def _open(self, control: Control, piece: Piece) -> tuple[OpenFile, int]:
        """A segment and the end of what counts in it, or of what is left of that."""
        segment, size = self._segments.sized(piece.path)
        return segment, min(size, control.end) if piece.first == control.active else size


def _size_of(data: bytes) -> int:
    """What the batch at the start of *data* says that it takes; it is checked when it is parsed."""
    return HEADER_BYTES + int(_BODY_BYTES.unpack_from(data)[0]) if len(data) >= _BODY_BYTES.size else HEADER_BYTES


def _parse(data: bytes, piece: Piece, position: int, start: int) -> list[Batch]:
    """The batches at the start of *data*, which was read at *position*: the one that holds *start*, and those after it.

    Whatever follows the first is returned as far as it is whole and in order; a reader meets the rest when it asks
    for it. What lies behind the last message of a sealed segment was refused, and never cut for certain.
    """
    batches: list[Batch] = []
    at = 0
    while at < len(data):
        try:
            batch = Batch.parse(data, at)
            expected = batches[-1].next_number if batches else start
            fits = batch.first_number <= expected < batch.next_number <= piece.end
            if not fits or (batches and batch.first_number != expected):
                raise CorruptBatch(f"message {batch.first_number} stands where {expected} should")  # noqa: TRY301
        except CorruptBatch as error:
            if batches:
                break
            raise CorruptLog(str(piece.path), position, error.reason) from error
        batches.append(batch)
        at += batch.size
    if not batches:
        raise CorruptLog(str(piece.path), position, f"it ends before message {start}")
    return batches
