"""Compaction: sealed segments become Parquet runs that other tools read as they are; readers see one stream."""

import errno
import gc
import os
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from ottla.batch import Batch, columns_of_lists
from ottla.clock import ManualClock
from ottla.errors import CorruptLog, StorageFailed, StorageFull
from ottla.model import Headers, Message
from ottla.storage import Compactable
from ottla.storage.file import compaction
from ottla.storage.file.layout import Piece
from ottla.storage.file.partition import FilePartition
from ottla.storage.file.runfile import RUN_SCHEMA
from ottla.testing.faults import Fault, FaultyFiles
from ottla.testing.filelog import FileLog, flip
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, messages_of, numbers_of, values_of
from ottla.testing.steps import Steps, fail_with


def rich_batch(n: int) -> Batch:
    """Keys, headers, nulls, empty values, timestamps of the producer's or the log's: every shape in turn."""
    headers: list[Headers] = [(("a", b"%d" % n), ("a", None), ("ü", b"")), (), ()]
    return Batch.pack(
        columns_of_lists(
            [b"value %d" % n, None, b""],
            [b"k%d" % n, b"", None] if n % 2 else None,
            headers if n % 3 else None,
            [n * 1000, -n, 0] if n % 4 else None,
        ),
        compression="zstd" if n % 5 == 0 else "none",
    )


@pytest.fixture
def log_of_all_shapes(log: FileLog, clock: ManualClock) -> FileLog:
    partition = log.create(segment_bytes="1KiB")
    for n in range(60):
        partition.append([rich_batch(n)])
        clock.advance(7)
    return log


def test_the_stream_is_the_same_before_and_after(log_of_all_shapes: FileLog) -> None:
    log = log_of_all_shapes
    partition = log.partition()
    before = messages_of(partition)
    segments = len(log.files(".log"))
    done = partition.compact()
    assert done.segments == segments - 1
    assert done.messages == int(log.files(".log")[-1].stem) - 1
    assert done.bytes_before > 0
    assert done.bytes_after == sum(path.stat().st_size for path in log.files(".parquet"))
    assert len(log.files(".log")) == 1
    assert messages_of(partition) == messages_of(log.partition()) == before


@pytest.mark.parametrize("max_bytes", [1, 100, 3000, ALL_BYTES])
def test_reading_from_anywhere(log_of_all_shapes: FileLog, max_bytes: int) -> None:
    """Over runs, segments and the edges between them, in bites of any size."""
    log = log_of_all_shapes
    before = messages_of(log.partition())
    log.partition().compact()
    partition = log.partition()
    for start in range(1, 181, 1 if max_bytes > 1 else 20):
        batches = partition.read(start, max_bytes)
        assert batches[0].first_number <= start < batches[0].next_number
        assert sum(batch.size for batch in batches) <= max_bytes or len(batches) == 1
    assert messages_of(partition, max_bytes=max_bytes) == before


def test_a_run_of_many_row_groups(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.file.runs._ROW_GROUP_ROWS", 10)
    partition = log.create(segment_bytes="4KiB")
    for n in range(120):
        partition.append([batch_of(b"%d" % n, b"x" * 50)])
    before = messages_of(partition)
    partition.compact()
    (run,) = log.files(".parquet")
    assert pq.read_metadata(run).num_row_groups > 10
    assert messages_of(log.partition()) == before
    for number in (1, 9, 10, 11, 55, 200):
        assert log.partition().read(number, 1)[0].first_number == number


def expected_rows(messages: list[Message]) -> list[tuple[int, datetime, bytes | None, bytes | None]]:
    return [(m.number, datetime.fromtimestamp(m.timestamp_ms / 1000, UTC), m.key, m.value) for m in messages]


def test_duckdb_polars_and_pandas_read_a_run_as_it_is(log_of_all_shapes: FileLog) -> None:
    """With the same numbers, times, keys, values and headers."""
    log = log_of_all_shapes
    messages = messages_of(log.partition())
    log.partition().compact()
    (run,) = log.files(".parquet")
    messages = messages[: int(run.stem.split("-")[1]) - 1]
    expected = expected_rows(messages)

    duck = duckdb.connect()
    rows = duck.execute(f"SELECT number, epoch_ms(timestamp), key, value FROM '{run}' ORDER BY number").fetchall()
    assert rows == [(m.number, m.timestamp_ms, m.key, m.value) for m in messages]
    named = duck.execute(f"SELECT count(*) FROM '{run}' WHERE headers[1].key = 'a'").fetchone()
    assert named == (sum(bool(m.headers) for m in messages),)

    frame = pl.read_parquet(run)
    assert frame.select("number", "timestamp", "key", "value").rows() == expected
    assert frame["headers"].to_list()[3] == [
        {"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "ü", "value": b""},
    ]  # fmt: skip

    table = pd.read_parquet(run)
    assert list(table["number"]) == [m.number for m in messages]
    assert [None if value is None else bytes(value) for value in table["value"]] == [m.value for m in messages]
    assert pq.read_schema(run).remove_metadata() == RUN_SCHEMA


def test_all_runs_of_a_partition_are_one_table(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A glob is enough for any tool."""
    monkeypatch.setattr(compaction, "_RUN_BYTES", 4000)
    partition = log.create(segment_bytes="1KiB")
    for n in range(100):
        partition.append([batch_of(b"%d" % n * 30)])
    partition.compact()
    assert len(log.files(".parquet")) > 2
    numbers = duckdb.connect().execute(f"SELECT number FROM '{log.folder()}/*.parquet' ORDER BY number").fetchall()
    assert [number for (number,) in numbers] == list(range(1, int(log.files(".log")[0].stem)))


def test_producers_are_remembered(log: FileLog) -> None:
    """A retry of a batch whose segment became a run is still a duplicate."""
    partition = log.create(segment_bytes="300B")
    for n in range(20):
        partition.append([Sender.number(1).batch(n, b"x" * 100)])
    partition.compact()
    for each in (partition, log.partition()):
        assert each.append([Sender.number(1).batch(19, b"x" * 100)]) == [(20, 1, True)]
    copy = log.copy("restarted")
    assert copy.partition().append([Sender.number(1).batch(19, b"x" * 100)]) == [(20, 1, True)]
    copy.close()


def test_compacting_again_adds_what_was_sealed_since(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(60):
        partition.append([batch_of(b"%d" % n * 50)])
        if n % 20 == 19:
            partition.compact()
    assert partition.compact().segments == 0
    assert len(log.files(".parquet")) == 3
    assert values_of(log.partition()) == [b"%d" % n * 50 for n in range(60)]


def test_what_was_trimmed_within_a_segment_does_not_keep_the_others(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(30):
        partition.append([batch_of(b"%d" % n * 50)])
    partition.trim(2)
    done = partition.compact()
    assert done.segments == len(log.files(".producers")) + done.segments - 1
    assert done.messages > 20
    assert numbers_of(log.partition()) == list(range(2, 31))


def test_retention_removes_runs(log: FileLog, clock: ManualClock) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(30):
        partition.append([batch_of(b"%d" % n * 50)])
        clock.advance(1000)
        if n in {9, 19}:
            partition.compact()
    runs = log.files(".parquet")
    assert partition.expire(older_than_ms=clock.now_ms() - 15_000).first == int(runs[1].stem.partition("-")[0])
    assert log.files(".parquet") == runs[1:]
    partition.expire(max_bytes=1)
    assert log.files(".parquet") == []
    assert list(log.open().verify()) == []


def test_a_trim_in_the_middle_of_it(log: FileLog) -> None:
    """What was removed meanwhile is not brought back, and nothing else is lost."""
    partition = log.create(segment_bytes="500B")
    for n in range(40):
        partition.append([batch_of(b"%d" % n * 50)])
    trimmed = False

    def trim_once(_: int) -> None:
        nonlocal trimmed
        if not trimmed:
            trimmed = True
            log.partition().trim(20)

    done = partition.compact(progress=trim_once)
    assert trimmed
    assert done.messages == 0
    assert numbers_of(log.partition()) == list(range(20, 41))
    assert partition.compact().messages > 0
    assert numbers_of(log.partition()) == list(range(20, 41))
    assert not log.files(".compacting")


def test_a_trim_just_before_it_is_published(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is finished, but what it holds was removed: it does not come back."""
    partition = log.create(segment_bytes="500B")
    for n in range(40):
        partition.append([batch_of(b"%d" % n * 50)])
    check = compaction._check

    def check_and_trim(*arguments: Any) -> int:
        log.partition().trim(20)
        return check(*arguments)

    monkeypatch.setattr(compaction, "_check", check_and_trim)
    assert partition.compact().messages == 0
    assert log.files(".parquet") == []
    assert numbers_of(log.partition()) == list(range(20, 41))


def test_a_run_that_is_not_as_it_was_written_replaces_nothing(log: FileLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read again before the segments go."""
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    check = compaction._check

    def spoil_and_check(partition: FilePartition, piece: Piece) -> int:
        flip(piece.path, 50)
        return check(partition, piece)

    monkeypatch.setattr(compaction, "_check", spoil_and_check)
    with pytest.raises(CorruptLog):
        partition.compact()
    assert log.files(".parquet") == []
    assert values_of(log.partition()) == [b"%d" % n * 50 for n in range(20)]


def test_appends_in_the_middle_of_it(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    other = log.partition()

    def append(_: int) -> None:
        other.append([batch_of(b"meanwhile")])

    partition.compact(progress=append)
    values = values_of(log.partition())
    assert values[:20] == [b"%d" % n * 50 for n in range(20)]
    assert set(values[20:]) == {b"meanwhile"}


def test_one_at_a_time(log: FileLog) -> None:
    """Whoever comes second does nothing, in the same engine, another one, or another thread."""
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    second = []

    def try_too(_: int) -> None:
        second.extend([partition.compact(), log.partition().compact()])

    assert partition.compact(progress=try_too).messages > 0
    assert {done.messages for done in second} == {0}
    assert values_of(log.partition()) == [b"%d" % n * 50 for n in range(20)]


def test_threads_that_all_compact(log: FileLog) -> None:
    partitions = [log.create(segment_bytes="300B", sync="never"), log.partition(), log.partition()]
    for n in range(100):
        partitions[0].append([batch_of(b"%d" % n * 50)])
    threads = [threading.Thread(target=partition.compact) for partition in partitions * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values_of(log.partition()) == [b"%d" % n * 50 for n in range(100)]
    assert list(log.open().verify()) == []


def test_leftovers_of_a_killed_one_are_swept_up(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    leftover = log.folder() / f"{1:020d}-{5:020d}.compacting"
    leftover.write_bytes(b"half a run")
    partition.compact()
    assert not leftover.exists()


def test_damage_is_never_compacted_away(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    data = bytearray(log.files(".log")[1].read_bytes())
    data[200] ^= 1
    log.files(".log")[1].write_bytes(data)
    before = log.files(".log")
    with pytest.raises(CorruptLog):
        log.partition().compact()
    assert log.files(".log") == before
    assert not log.files(".parquet")
    assert not log.files(".compacting")


def test_a_full_disk(log: FileLog) -> None:
    """The segments stay; nothing of the run is left."""
    files = FaultyFiles()
    partition = log.create(files=files, segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    files.fail(Fault("pwritev", error=28, on=".compacting", nth=2))
    with pytest.raises(StorageFull):
        partition.compact()
    files.fail()
    assert not log.files(".parquet")
    assert not log.files(".compacting")
    assert values_of(partition) == [b"%d" % n * 50 for n in range(20)]
    assert partition.compact().messages > 0


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [interrupt, fail_with(errno.EIO)], ids=["interrupted", "failed"])
def test_a_writer_that_failed_touches_no_other_file_later(
    log: FileLog, tmp_path: Path, act: Callable[[], None]
) -> None:
    """It tries to finish its file when it is collected, but by then the descriptor may belong to another one."""
    steps = Steps()
    partition = log.create(files=steps, segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    for number in range(1, 60):
        steps.act_at(number, act)
        caught: BaseException | None = None
        try:
            partition.compact()
        except (KeyboardInterrupt, StorageFailed) as error:
            caught = error  # with its traceback, and all that is in it
        others = [tmp_path / str(n) for n in range(10)]
        fds = [os.open(path, os.O_RDWR | os.O_CREAT) for path in others]
        del caught
        gc.collect()
        assert [path.stat().st_size for path in others] == [0] * 10, steps.names[number - 1]
        for fd in fds:
            os.close(fd)
    assert values_of(partition) == [b"%d" % n * 50 for n in range(20)]


def test_tiny_batches_are_compacted_in_reasonable_time(log: FileLog) -> None:
    """The work grows with the messages, not with their square."""
    partition = log.create(segment_bytes="100KiB", sync="never")
    partition.append([batch_of(b"%d" % n) for n in range(5000)])
    partition.append([batch_of(b"end")])
    counted = 0

    def count(messages: int) -> None:
        nonlocal counted
        counted += messages

    assert partition.compact(progress=count).messages == counted == 5000
    assert values_of(log.partition(), 4999) == [b"4998", b"4999", b"end"]


def test_runs_are_for_the_owner_only(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    partition.compact()
    modes = {path.name: path.stat().st_mode & 0o777 for path in Path(log.root).rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600}, modes
    folders = [log.root, *(path for path in log.root.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_an_empty_partition_has_nothing_to_compact(log: FileLog) -> None:
    partition = log.create()
    assert isinstance(partition, Compactable)
    assert partition.compact() == (0, 0, 0, 0)
    partition.append([batch_of(b"x")])
    assert partition.compact() == (0, 0, 0, 0)


def test_at_random_it_is_always_one_dense_stream(quick_log: FileLog) -> None:
    """Appends, compactions, trims and restarts in any order, compared with a plain list."""
    log, chance = quick_log, random.Random(5)
    log.create(segment_bytes="700B")
    expected: list[bytes] = []
    first = 1
    partition = log.partition()
    for n in range(150):
        match chance.choice(["append"] * 5 + ["compact", "trim", "reopen", "reboot"]):
            case "append":
                values = [b"%d:%d" % (n, i) * chance.choice([1, 40]) for i in range(chance.choice([1, 3]))]
                partition.append([batch_of(*values)])
                expected += values
            case "compact":
                partition.compact()
            case "trim":
                first = max(first, len(expected) + 1 - chance.randrange(40))
                partition.trim(first)
            case "reopen":
                partition = log.partition()
            case "reboot":
                log.reboot()
                partition = log.partition()
        assert values_of(partition, first) == expected[first - 1 :]
        assert partition.bounds() == (first, len(expected) + 1)
    assert list(log.open().verify()) == []
