"""Compacted runs: messages of one partition as a Parquet file that any tool can read as it is.

Columns: `number` int64, `timestamp` and `appended` timestamps in UTC milliseconds, `key` and `value` binary,
`headers` a list of (key, value). Numbers and times are delta-encoded with statistics, so that Spark, DuckDB
and Polars skip what they need not read; keys and values are plain. A run is written once and never changed.
"""

import threading
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.batch import Batch, Columns, columns_of_arrow, split
from ottla.batch.message_headers import HEADERS_TYPE, headers_to_arrow
from ottla.errors import CorruptLog
from ottla.storage.file.layout import Piece

_TIME = pa.timestamp("ms", tz="UTC")
RUN_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("appended", _TIME, nullable=False),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
_ROW_GROUP_ROWS = 64 * 1024
_ROW_GROUP_BYTES = 16 * 2**20
_BATCH_BYTES = 2**20
_ORDERED = ["number", "timestamp", "appended"]

_reading = threading.RLock()
"""Parquet readers are not safe from many threads, and runs are for scans."""


def write_run(path: Path, batches: Iterable[Batch]) -> None:
    """A new run from batches in order; not durable yet, and not in the log."""
    with _writer(path) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting.append(_rows(batch))
            rows, size = sum(map(len, waiting)), sum(part.nbytes for part in waiting)
            if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(waiting), row_group_size=rows)
                waiting = []
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting), row_group_size=sum(map(len, waiting)))


def _writer(path: Path) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        RUN_SCHEMA,
        compression="lz4",
        use_dictionary=False,
        column_encoding={**dict.fromkeys(_ORDERED, "DELTA_BINARY_PACKED"), "key": "PLAIN", "value": "PLAIN"},
        write_statistics=_ORDERED,
        write_page_checksum=True,
    )


def _rows(batch: Batch) -> pa.RecordBatch:
    columns, count = batch.columns(), batch.count
    appended = pa.repeat(pa.scalar(batch.header.append_ms, pa.int64()), count)
    return pa.RecordBatch.from_arrays(
        [
            pa.arange(batch.first_number, batch.next_number),
            batch.timestamps().cast(_TIME),
            appended.cast(_TIME),
            pa.nulls(count, pa.binary()) if columns.keys is None else columns.keys,
            columns.values,
            headers_to_arrow(columns.headers, count),
        ],
        schema=RUN_SCHEMA,
    )


def read_run(piece: Piece, start: int, max_bytes: int) -> list[Batch]:
    """Batches of about 1 MiB from *start* on: at least one, and up to *max_bytes*."""
    with _reading:
        group, skip = _row_group_of(piece, start)
        table = _row_group(piece.path, group).slice(skip)
    batches: list[Batch] = []
    number, size = start, 0
    appended = table["appended"].cast(pa.int64())
    for columns in split(_columns(table), min(_BATCH_BYTES, max_bytes)):
        batch = Batch.pack(columns).numbered(number, appended[number - start].as_py())
        size += batch.size
        if batches and size > max_bytes:
            break
        batches.append(batch)
        number = batch.next_number
    return batches


def _columns(table: pa.Table) -> Columns:
    return columns_of_arrow(table.select(["timestamp", "key", "value", "headers"]))


def find_in_run(piece: Piece, timestamp_ms: int) -> int:
    """The number of the first message of a run that was appended at or after a time."""
    with _reading:
        file = _open(piece.path)
        column = RUN_SCHEMA.names.index("appended")
        for group in range(file.num_row_groups):
            if _largest(file, group, column) < timestamp_ms:
                continue
            table = file.read_row_group(group, ["number", "appended"], use_threads=False)
            late = pc.greater_equal(table["appended"].cast(pa.int64()), timestamp_ms)
            return int(table["number"][pc.index(late, True).as_py()].as_py())
    return piece.end


def last_append_ms(piece: Piece) -> int:
    """The append time of a run's last message."""
    with _reading:
        file = _open(piece.path)
        return _largest(file, file.num_row_groups - 1, RUN_SCHEMA.names.index("appended"))


def _largest(file: pq.ParquetFile, group: int, column: int) -> int:
    return int(file.metadata.row_group(group).column(column).statistics.max.timestamp() * 1000 + 0.5)


def _row_group_of(piece: Piece, number: int) -> tuple[int, int]:
    """The row group that holds *number*, and how many of its rows lie before it."""
    file, skip = _open(piece.path), number - piece.first
    if file.metadata.num_rows != piece.end - piece.first:
        reason = f"it has {file.metadata.num_rows} rows for {piece.end - piece.first} messages"
        raise CorruptLog(str(piece.path), 0, reason)
    group = 0
    while skip >= (rows := file.metadata.row_group(group).num_rows):
        group, skip = group + 1, skip - rows
    return group, skip


def row_counts(piece: Piece) -> list[int]:
    """The number of rows of each row group, read from the file and not from memory."""
    file = _open.__wrapped__(piece.path).metadata
    if file.num_rows != piece.end - piece.first:
        raise CorruptLog(str(piece.path), 0, f"it has {file.num_rows} rows for {piece.end - piece.first} messages")
    return [file.row_group(group).num_rows for group in range(file.num_row_groups)]


def check_row_group(piece: Piece, group: int, first: int) -> pa.Table:
    """The row group, if its checksums match and its numbers count up from *first*."""
    table = _open.__wrapped__(piece.path).read_row_group(group, use_threads=False)
    table.validate(full=True)
    if not table["number"].combine_chunks().equals(pa.arange(first, first + len(table))):
        raise CorruptLog(str(piece.path), 0, f"its numbers do not count up from {first}")
    return table


def write_row_groups(path: Path, tables: Iterable[pa.Table]) -> None:
    """A run from whole row groups of another."""
    with _writer(path) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=len(table))


def forget_runs() -> None:
    """Forget what was read: files were replaced."""
    with _reading:
        _open.cache_clear()
        _row_group.cache_clear()


@lru_cache(maxsize=8)
def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except pa.ArrowInvalid as error:
        raise CorruptLog(str(path), 0, str(error)) from error


@lru_cache(maxsize=4)
def _row_group(path: Path, group: int) -> pa.Table:
    try:
        return _open(path).read_row_group(group, use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptLog(str(path), 0, str(error)) from error
