"""Prometheus metrics of one server, in a registry of its own.

Counts of messages and bytes are by topic, for the first thousand topics; what comes later counts as `(others)`,
so that a client that makes topics cannot make the server's memory grow.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from ottla.storage.disk.files import SYNCS

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
MOST_TOPICS = 1000
OTHERS = "(others)"
_ESTABLISHED = "01"


class Metrics:
    """Counts and times. Safe from many threads."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._calls = Histogram("ottla_call_seconds", "Time per call.", ["method"], buckets=_SECONDS, registry=registry)
        self._errors = Counter("ottla_errors", "Calls that failed, by error.", ["method", "error"], registry=registry)
        self._streams = Gauge("ottla_streams", "Streams that are open.", ["method"], registry=registry)
        self._append = Histogram(
            "ottla_append_seconds", "Time per append, until durable.", buckets=_SECONDS, registry=registry
        )
        self._messages_in = Counter("ottla_messages_in", "Messages appended.", ["topic"], registry=registry)
        self._bytes_in = Counter("ottla_bytes_in", "Bytes appended.", ["topic"], registry=registry)
        self._bytes_out = Counter("ottla_bytes_out", "Bytes read.", ["topic"], registry=registry)
        self._pool = Gauge("ottla_calls_held", "Calls under way, by what they hold.", ["pool"], registry=registry)
        self._topics: set[str] = set()
        registry.register(_Syncs())
        ProcessCollector(registry=registry)

    def called(self, method: str, seconds: float) -> None:
        self._calls.labels(method).observe(seconds)

    def failed(self, method: str, error: BaseException) -> None:
        self._errors.labels(method, type(error).__name__).inc()

    @contextmanager
    def streaming(self, method: str) -> Iterator[None]:
        with self._streams.labels(method).track_inprogress():
            yield

    def appended(self, topic: str, messages: int, size: int, seconds: float) -> None:
        label = self._label(topic)
        self._append.observe(seconds)
        self._messages_in.labels(label).inc(messages)
        self._bytes_in.labels(label).inc(size)

    def read(self, topic: str, size: int) -> None:
        self._bytes_out.labels(self._label(topic)).inc(size)

    def watch(self, name: str, what: str, value: Callable[[], float]) -> None:
        """A gauge whose value is asked for when somebody looks."""
        Gauge(name, what, registry=self.registry).set_function(value)

    def watch_pool(self, pool: str, held: Callable[[], float]) -> None:
        self._pool.labels(pool).set_function(held)

    def exposition(self) -> bytes:
        """What a Prometheus server scrapes."""
        return generate_latest(self.registry)

    def _label(self, topic: str) -> str:
        if topic not in self._topics:
            if len(self._topics) >= MOST_TOPICS:
                return OTHERS
            self._topics.add(topic)
        return topic


class _Syncs(Collector):
    """Syncs of files, which the engines count by themselves."""

    def collect(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily("ottla_syncs", "Syncs of files and folders.", value=SYNCS.count)
        yield CounterMetricFamily("ottla_sync_seconds", "Time spent in syncs.", value=SYNCS.seconds)


def connections(port: int) -> int:
    """Connections that are established to a local TCP port; 0 where the system does not say."""
    wanted, found = f"{port:04X}", 0
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, _, state, *_ = line.split()
            found += state == _ESTABLISHED and local.rpartition(":")[2] == wanted
    return found
