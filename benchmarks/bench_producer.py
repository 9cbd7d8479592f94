"""Sending one by one and many at once, until stored, beside what Python needs to hold the same messages."""

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

import ottla
from benchmarks.rows import Row, best_seconds, median_seconds

SIZES = (100, 1024)
MANY = 10_000
CALLS = 20


def run(*, quick: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        for url in ("memory:", f"file://{folder}"):
            with ottla.open(url) as log:
                for size in SIZES:
                    yield from _sends(log, size, quick=quick)


def _sends(log: Any, size: int, *, quick: bool) -> Iterator[Row]:
    scheme = log.url.partition(":")[0]
    group = f"produce to {scheme}:, {size:,} B"
    values = [bytes(size) for _ in range(MANY)]
    keys = [b"key-%04d" % (number % 1000) for number in range(MANY)]
    arrow = pa.array(values, pa.binary())
    rounds = 2 if quick else 6
    taken = MANY / best_seconds(lambda: _hold(values), least_s=0.1) / 1e6
    joined = MANY / best_seconds(lambda: b"".join(values), least_s=0.1) / 1e6

    def row(what: str, value: float, limit: float, limit_is: str, aim: str = "") -> Row:
        return Row(group=group, what=what, value=value, unit="M msg/s", limit=limit, limit_is=limit_is, aim=aim)

    def rate(work: Callable[[Any], None], **settings: Any) -> float:
        return max(_rate(log, work, **settings) for _ in range(rounds))

    def one_by_one(producer: Any) -> None:
        for value in values:
            producer.send(value)

    def with_keys(producer: Any) -> None:
        for value, key in zip(values, keys, strict=True):
            producer.send(value, key=key)

    aim = "≥ 0.5" if size == SIZES[0] else ""
    holding = "a list and an object for each"
    yield row("send one by one", rate(one_by_one), taken, holding, aim)
    yield row(
        "send with keys, key-hash, 4 partitions", rate(with_keys, partitions=4, partitioner="key-hash"), taken, holding
    )
    aim = "≥ 5" if size == SIZES[0] else ""
    joining = "join of the values"
    yield row(f"send_many, list of {MANY:,}", rate(lambda p: p.send_many(values)), joined, joining, aim)
    yield row(f"send_many, Arrow array of {MANY:,}", rate(lambda p: p.send_many(arrow)), joined, joining)
    keyed = rate(lambda p: p.send_many(values, keys=keys), partitions=4, partitioner="key-hash")
    yield row(f"send_many with keys, key-hash, 4 partitions, {MANY:,}", keyed, joined, joining)
    log.create_topic(f"single-{size}")
    with log.producer(f"single-{size}") as producer:
        single = median_seconds(lambda: producer.send(values[0]).result(), calls=200 if quick else 2000)
    yield Row(group=group, what="send(…).result(), p50", value=single * 1e6, unit="µs")


def _rate(log: Any, work: Callable[[Any], None], **settings: Any) -> float:
    """Messages a second in millions, all of them stored: the topic is thrown away, as memory would be the limit."""
    log.create_topic("bench", **settings)
    try:
        with log.producer("bench") as producer:
            producer.send(b"").result()
            start = time.perf_counter()
            for _ in range(CALLS):
                work(producer)
            producer.flush()
            return CALLS * MANY / (time.perf_counter() - start) / 1e6
    finally:
        log.delete_topic("bench")


class _Held:
    __slots__ = ("index", "value")

    def __init__(self, value: bytes, index: int) -> None:
        self.value = value
        self.index = index


def _hold(values: list[bytes]) -> None:
    held: list[bytes] = []
    for value in values:
        held.append(value)
        _Held(value, len(held))


if __name__ == "__main__":
    from benchmarks.rows import shown

    print(shown(run()))
