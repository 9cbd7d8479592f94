"""What `ottla bench` measures: sending in bulk, reading in bulk, single messages, and from hand to hand."""

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.client.log import Log
from ottla.errors import OttlaError

_BULK = 10_000
_MOST_SINGLE = 2000
_WAIT_S = 10.0


class Measured(NamedTuple):
    """One figure: its name in JSON, its name for people, the value and its unit."""

    what: str
    title: str
    value: float
    unit: str


def measure(
    log: Log, *, size: int, seconds: float, most: int, sync: str, done: Callable[[float], None]
) -> Iterator[Measured]:
    """The figures, one after another, each within about *seconds*; the topic is removed at the end."""
    topic = f"ottla-bench-{uuid.uuid4().hex[:8]}"
    log.create_topic(topic, sync=sync)
    try:
        value = b"x" * size
        sent, took = _produce(log, topic, [value] * min(_BULK, max(2**24 // size, 1)), seconds, most, done)
        yield Measured("produce_per_s", "send in bulk", sent / took, "messages/s")
        yield Measured("produce_bytes_per_s", "", sent * size / took / 1e6, "MB/s")
        read, took = _consume(log, topic, sent, seconds, done)
        yield Measured("consume_per_s", "read in bulk", read / took, "messages/s")
        yield Measured("consume_bytes_per_s", "", read * size / took / 1e6, "MB/s")
        yield from _percentiles("send", "send one and wait", _single(log, topic, value, seconds, done))
        yield from _percentiles(
            "end_to_end", "send one until it is read", _end_to_end(log, topic, value, seconds, done)
        )
    finally:
        log.delete_topic(topic)


def _produce(
    log: Log, topic: str, values: list[bytes], seconds: float, most: int, done: Callable[[float], None]
) -> tuple[int, float]:
    sent, started = 0, time.perf_counter()
    with log.producer(topic) as producer:
        while sent < most and time.perf_counter() - started < seconds:
            producer.send_many(values)
            sent += len(values)
            done(len(values))
    return sent, time.perf_counter() - started


def _consume(log: Log, topic: str, sent: int, seconds: float, done: Callable[[float], None]) -> tuple[int, float]:
    consumer = log.consumer(topic)
    read, started = 0, time.perf_counter()
    while read < sent and time.perf_counter() - started < seconds:
        values = consumer.poll(_WAIT_S, max_messages=2**16)[0].values()
        read += len(values)
        done(len(values))
    return read, time.perf_counter() - started


def _single(log: Log, topic: str, value: bytes, seconds: float, done: Callable[[float], None]) -> list[float]:
    with log.producer(topic, linger_ms=0) as producer:
        return _times(lambda: producer.send(value).result(), seconds, done)


def _end_to_end(log: Log, topic: str, value: bytes, seconds: float, done: Callable[[float], None]) -> list[float]:
    consumer = log.consumer(topic, start="latest")

    def once() -> None:
        producer.send(value)
        if not consumer.poll(_WAIT_S)[0]:
            raise OttlaError(f"a message that was sent did not arrive within {_WAIT_S:g} s: see `ottla doctor`")

    with log.producer(topic, linger_ms=0) as producer:
        return _times(once, seconds, done)


def _times(work: Callable[[], object], seconds: float, done: Callable[[float], None]) -> list[float]:
    """Milliseconds of each, many times over; the first, which opens things, does not count."""
    work()
    times: list[float] = []
    started = before = time.perf_counter()
    while len(times) < _MOST_SINGLE and before - started < seconds:
        work()
        now = time.perf_counter()
        times.append((now - before) * 1000)
        before = now
        done(1)
    return times


def _percentiles(what: str, title: str, times: list[float]) -> Iterator[Measured]:
    cuts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
    yield Measured(f"{what}_p50_ms", f"{title}, median", cuts[49], "ms")
    yield Measured(f"{what}_p99_ms", f"{title}, 99 of 100", cuts[98], "ms")
