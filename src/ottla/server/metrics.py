"""Prometheus metrics of one server, in a registry of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counts and times. Safe from many threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Histogram(
            "ottla_call_seconds", "Time per call.", ["method"], buckets=_SECONDS, registry=self.registry
        )
        self._errors = Counter(
            "ottla_errors", "Calls that failed, by error.", ["method", "error"], registry=self.registry
        )
        self._streams = Gauge("ottla_streams", "Streams that are open.", ["method"], registry=self.registry)
        self._append = Histogram(
            "ottla_append_seconds", "Time per append, until durable.", buckets=_SECONDS, registry=self.registry
        )
        self._messages_in = Counter("ottla_messages_in", "Messages appended.", ["topic"], registry=self.registry)
        self._bytes_in = Counter("ottla_bytes_in", "Bytes appended.", ["topic"], registry=self.registry)
        self._bytes_out = Counter("ottla_bytes_out", "Bytes read.", ["topic"], registry=self.registry)
        self.in_flight = Gauge("ottla_bytes_in_flight", "Bytes held for producers.", registry=self.registry)
        self.syncs = Gauge("ottla_syncs", "Syncs of files since the start.", registry=self.registry)

    def called(self, method: str, seconds: float) -> None:
        self._calls.labels(method).observe(seconds)

    def failed(self, method: str, error: BaseException) -> None:
        self._errors.labels(method, type(error).__name__).inc()

    @contextmanager
    def streaming(self, method: str) -> Iterator[None]:
        with self._streams.labels(method).track_inprogress():
            yield

    def appended(self, topic: str, messages: int, size: int, seconds: float) -> None:
        self._append.observe(seconds)
        self._messages_in.labels(topic).inc(messages)
        self._bytes_in.labels(topic).inc(size)

    def read(self, topic: str, size: int) -> None:
        self._bytes_out.labels(topic).inc(size)

    def exposition(self) -> bytes:
        """What a Prometheus server scrapes."""
        return generate_latest(self.registry)
