"""The stored form of a compacted run: a Parquet file that any tool can read as it is, with checksums of its own.

Columns: `number` int64, `timestamp` and `appended` timestamps in UTC milliseconds, `key` and `value` binary,
`headers` a list of (key, value). Numbers and times are delta-encoded with statistics, so that Spark, DuckDB
and Polars skip what they need not read; keys and values are plain. A run is written once and never changed.

Parquet leaves its footer and the headers of its pages unchecked, so every byte is covered by what the footer's
metadata says under `ottla`, which other tools pass over:

    ottla-crc32c=<footer>;<end>:<crc>;<end>:<crc>…

Each pair is the byte where a row group ends and CRC-32C, eight hexadecimal digits, of its bytes; the first group
starts at byte 4. <footer> is CRC-32C of the footer itself, taken while eight dashes stand in its place.
"""

import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import google_crc32c
import pyarrow as pa
import pyarrow.parquet as pq

from ottla.batch.message_headers import HEADERS_TYPE
from ottla.errors import CorruptLog
from ottla.storage.disk.files import Buffer, Files

_TIME = pa.timestamp("ms", tz="UTC")
RUN_SCHEMA: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("appended", _TIME, nullable=False),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
_ORDERED = ["number", "timestamp", "appended"]
_APPENDED = RUN_SCHEMA.names.index("appended")
_MAGIC = b"PAR1"
_TRAILER_BYTES = 8
_KEY = b"ottla"
_MARK = b"ottla-crc32c="
_BLANK = b"-" * 8
_SUMS = re.compile(_MARK + rb"[0-9a-f]{8}((?:;\d+:[0-9a-f]{8})+)")


class Footer(NamedTuple):
    """What a run says about itself, checked."""

    metadata: pq.FileMetaData
    groups: list[tuple[int, int, int]]
    """For each row group: the byte where it starts, where it ends, and its CRC-32C."""
    size: int

    @property
    def rows(self) -> list[int]:
        """The number of rows of each row group."""
        return [self.metadata.row_group(group).num_rows for group in range(len(self.groups))]

    def last_append_ms(self, group: int) -> int:
        """The append time of a row group's last message."""
        return int(self.metadata.row_group(group).column(_APPENDED).statistics.max_raw)


def write_run(files: Files, path: Path, row_groups: Iterable[pa.Table]) -> None:
    """A new run, durable; it is in no log yet."""
    fd = files.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    sink = _Sink(files, fd)
    try:
        sums = b""
        with _writer(sink) as writer:
            for table in row_groups:
                sink.start_group()
                writer.write_table(table, row_group_size=len(table))
                sums += b";%d:%08x" % (sink.position, sink.crc)
            writer.add_key_value_metadata({_KEY: _MARK + _BLANK + sums})
        _seal_footer(files, fd, sink.position)
        files.sync(fd)
    finally:
        sink.detach()
        files.close(fd)


def _writer(sink: "_Sink") -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        RUN_SCHEMA,
        compression="lz4",
        use_dictionary=False,
        column_encoding={**dict.fromkeys(_ORDERED, "DELTA_BINARY_PACKED"), "key": "PLAIN", "value": "PLAIN"},
        write_statistics=_ORDERED,
        write_page_checksum=True,
    )


def _seal_footer(files: Files, fd: int, size: int) -> None:
    at, footer = _raw_footer(files, fd, size)
    place = footer.index(_MARK) + len(_MARK)
    files.write_at(fd, [b"%08x" % google_crc32c.value(footer)], at + place)


def _raw_footer(files: Files, fd: int, size: int) -> tuple[int, bytes]:
    """Where the footer starts, and its bytes up to the end of the file."""
    trailer = files.read_at(fd, _TRAILER_BYTES, max(size - _TRAILER_BYTES, 0))
    length = int.from_bytes(trailer[:4], "little") + _TRAILER_BYTES
    if trailer[4:] != _MAGIC or length > size - len(_MAGIC):
        raise ValueError("it does not end as a run does")
    return size - length, files.read_at(fd, length, size - length)


def read_footer(files: Files, fd: int, path: Path) -> Footer:
    """The footer of a run, if it is as it was written."""
    size = max(files.size(fd), 0)
    with _damage(path, size):
        at, raw = _raw_footer(files, fd, size)
        found = _SUMS.search(raw)
        if found is None or files.read_at(fd, len(_MAGIC), 0) != _MAGIC:
            raise ValueError("it is no run, or its footer is damaged")
        place = found.start() + len(_MARK)
        if google_crc32c.value(raw[:place] + _BLANK + raw[place + 8 :]) != int(raw[place : place + 8], 16):
            raise ValueError("the footer's checksum does not match")
        sums = [pair.split(b":") for pair in found[1][1:].split(b";")]
        starts = [len(_MAGIC), *(int(end) for end, _ in sums)]
        groups = [(start, int(end), int(crc, 16)) for start, (end, crc) in zip(starts, sums, strict=False)]
        return Footer(pq.read_metadata(pa.PythonFile(_Window(raw, at, size), mode="r")), groups, size)


def read_group(files: Files, fd: int, path: Path, footer: Footer, group: int, first: int) -> pa.Table:
    """A row group, if it is as it was written and its numbers start at *first*."""
    start, end, crc = footer.groups[group]
    with _damage(path, start):
        data = files.read_at(fd, end - start, start)
        if google_crc32c.value(data) != crc:
            raise ValueError(f"the checksum of row group {group} does not match")
        source = pa.PythonFile(_Window(data, start, footer.size), mode="r")
        table = pq.ParquetFile(source, metadata=footer.metadata).read_row_group(group, use_threads=False)
        if table["number"][0].as_py() != first:
            raise ValueError(f"message {table['number'][0]} stands where {first} should")
        return table


def firsts_of(footer: Footer, first: int) -> list[int]:
    """The first number of each row group of a run that starts at *first*, and the number after the last."""
    return list(accumulate(footer.rows, initial=first))


@contextlib.contextmanager
def _damage(path: Path, position: int) -> Iterator[None]:
    """Whatever bytes that are no run make of themselves is damage at *position*."""
    try:
        yield
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the disk's, and not that of the bytes
        raise CorruptLog(str(path), position, str(error)) from error


class _Sink(io.RawIOBase):
    """Where a run is written: through `Files`, with a checksum of what was written since a row group began."""

    def __init__(self, files: Files, fd: int) -> None:
        super().__init__()
        self._files = files
        self._fd = fd
        self.position = 0
        self.crc = 0

    def start_group(self) -> None:
        self.crc = 0

    def detach(self) -> None:
        """Let nothing through any more: a writer that failed tries to finish when it is collected, and by then the
        descriptor may be that of another file.
        """
        self._fd = -1

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def write(self, data: Buffer) -> int:
        if self._fd < 0:
            return len(data)
        self.position = self._files.write_at(self._fd, [data], self.position)
        self.crc = google_crc32c.extend(self.crc, bytes(data))
        return len(data)


class _Window(io.RawIOBase):
    """A file of which only the bytes from *start* on were read, as far as one part of it reaches."""

    def __init__(self, data: bytes, start: int, size: int) -> None:
        super().__init__()
        self._data = data
        self._start = start
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0) -> int:
        self._at = position + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """What lies outside the window reads as zero bytes: a reader takes in more than it looks at."""
        end = self._size if size < 0 else min(self._at + size, self._size)
        low, high = max(self._at, self._start), min(end, self._start + len(self._data))
        inside = self._data[low - self._start : high - self._start] if low < high else b""
        before = max(min(low, end) - self._at, 0)
        data = (bytes(before) + inside).ljust(max(end - self._at, 0), b"\0")
        self._at += len(data)
        return data
