"""Packing and unpacking batches, beside joining the same values into one string of bytes."""

from collections.abc import Iterator

from benchmarks.rows import Row, best_seconds
from ottla.batch import Batch, Messages, columns_of_values

SIZES = (100, 1024)
COUNTS = (1, 100, 10_000)


def run(*, quick: bool = False) -> Iterator[Row]:
    least_s = 0.05 if quick else 0.2
    for size in SIZES:
        for count in COUNTS:
            yield from _one(size, count, least_s)


def _one(size: int, count: int, least_s: float) -> Iterator[Row]:
    values: list[bytes | None] = [bytes(size) for _ in range(count)]
    stored = Batch.pack(columns_of_values(values)).numbered(1, 0).to_bytes()
    joined = count / best_seconds(lambda: b"".join(v for v in values if v is not None), least_s=least_s) / 1e6
    aim = "≥ 10" if (size, count) == (100, 10_000) else ""

    def row(what: str, seconds: float, aim: str = "") -> Row:
        return Row(
            group=f"batch, {count:,} × {size:,} B",
            what=what,
            value=count / seconds / 1e6,
            unit="M msg/s",
            limit=joined,
            limit_is="join of the values",
            aim=aim,
        )

    yield row("pack a list", best_seconds(lambda: Batch.pack(columns_of_values(values)), least_s=least_s), aim)
    unpack = best_seconds(lambda: _values(stored), least_s=least_s)
    yield row("unpack to a list", unpack, aim)
    arrow = best_seconds(lambda: Messages.of("t", 0, [Batch.parse(stored)], 1).to_arrow(), least_s=least_s)
    yield row("unpack to an Arrow table", arrow, "≥ 20" if aim else "")


def _values(stored: bytes) -> object:
    return Batch.parse(stored).columns().values.to_pylist()
