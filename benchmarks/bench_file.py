"""Appending to a file log and reading it, beside bare system calls with the same bytes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ottla
from benchmarks.rows import Row, best_seconds, median_seconds
from ottla.batch import Batch, Messages, columns_of_values
from ottla.storage import PartitionStore, open_engine

SIZES = (100, 1024)
COUNTS = (1, 100, 10_000)


def run(*, quick: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        for size in SIZES:
            for count in COUNTS:
                yield from _appends(Path(folder), size, count, quick=quick)
        yield from _reads(Path(folder), quick=quick)


def _appends(folder: Path, size: int, count: int, *, quick: bool) -> Iterator[Row]:
    batch = Batch.pack(columns_of_values([bytes(size)] * count))
    data = batch.to_bytes()
    calls = (100 if quick else 500) if len(data) < 10**6 else (20 if quick else 60)
    with ottla.open(f"file://{folder}/append") as log:
        for sync in ("always", "never"):
            topic = log.create_topic(f"{sync}-{size}-{count}", sync=sync)
            store = log.engine.partition(topic, 0)
            store.append([batch])
            seconds = median_seconds(lambda store=store: store.append([batch]), calls=calls)  # type: ignore[misc]
            bare = _bare_append(folder, data, calls, sync=sync == "always")
            yield Row(
                group=f"append to a file log, {count:,} × {size:,} B",
                what=f'one durable append, sync="{sync}", p50',
                value=seconds * 1e6,
                unit="µs",
                limit=bare * 1e6,
                limit_is="bare pwrite" + (" + fdatasync" if sync == "always" else ""),
                aim="ratio ≤ 2" if sync == "always" and count == 1 else "",
            )


def _bare_append(folder: Path, data: bytes, calls: int, *, sync: bool) -> float:
    fd = os.open(folder / "bare", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    position = 0

    def append() -> None:
        nonlocal position
        position += os.pwrite(fd, data, position)
        if sync:
            os.fdatasync(fd)

    try:
        append()
        return median_seconds(append, calls=calls)
    finally:
        os.close(fd)


def _reads(folder: Path, *, quick: bool) -> Iterator[Row]:
    for size in SIZES:
        for count in COUNTS:
            batch = Batch.pack(columns_of_values([bytes(size)] * count))
            batches = max(1, (10 if quick else 50) * 10**6 // batch.size)
            batches = min(batches, 20_000)
            engine = open_engine(f"file://{folder}/read")
            with ottla.open(f"file://{folder}/read") as log:
                topic = log.create_topic(f"read-{size}-{count}", sync="never")
                store = log.engine.partition(topic, 0)
                for _ in range(0, batches, 100):
                    store.append([batch] * min(100, batches))
                total = store.bounds().next - 1
                path = next(Path(folder, "read").glob(f"topics/{topic.name}/*/0/*.log"))
                bare = total / best_seconds(lambda path=path: path.read_bytes(), repeat=3) / 1e6  # type: ignore[misc]
                for what, seconds, aim in (
                    ("read to lists", best_seconds(lambda s=store: _to_lists(s), repeat=3), ""),  # type: ignore[misc]
                    ("read to Arrow", best_seconds(lambda s=store: _to_arrow(s), repeat=3), "≥ 20"),  # type: ignore[misc]
                ):
                    yield Row(
                        group=f"read a file log, batches of {count:,} × {size:,} B",
                        what=what,
                        value=total / seconds / 1e6,
                        unit="M msg/s",
                        limit=bare,
                        limit_is="bare read of the file",
                        aim=aim if (size, count) == (100, 10_000) else "",
                    )
            engine.close()


def _batches(store: PartitionStore) -> Iterator[list[Batch]]:
    at = 1
    while found := store.read(at, 4 * 2**20):
        yield found
        at = found[-1].next_number


def _to_lists(store: PartitionStore) -> None:
    for found in _batches(store):
        Messages.of("t", 0, found, 1).values()


def _to_arrow(store: PartitionStore) -> None:
    for found in _batches(store):
        Messages.of("t", 0, found, 1).to_arrow()
