"""A log on the network: ottla's own gRPC service and MiniKafka's, health and reflection, on one port.

The server adds no semantics: all that it can do, the library can. A graceful stop finishes what was accepted.
If a part of it dies, the whole server stops with that part's error.
"""

import logging
import threading
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from ottla.client.log import Log
from ottla.clock import SystemClock
from ottla.errors import InvalidValue
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, handlers
from ottla.server.addresses import Address, check_exposed, parse_address
from ottla.server.batches import BatchCalls
from ottla.server.budget import Budget
from ottla.server.calls import Pools, guarded, guarded_stream
from ottla.server.cluster import Cluster, ClusterCalls
from ottla.server.handles import Handles
from ottla.server.metrics import Metrics
from ottla.server.minikafka import MiniKafkaCalls
from ottla.server.records import RecordCalls
from ottla.server.topics import TopicCalls
from ottla.settings import parse_size
from ottla.storage import Engine

_logger = logging.getLogger("ottla.server")

DEFAULT_ADDRESS = "127.0.0.1:9999"
MAX_CALL_BYTES = 32 * 2**20
"""The largest request: a batch of 16 MiB with room to spare; a topic with larger messages needs a larger one."""
_MOST_CALLS = 1500
_GRACE_S = 10.0

_OPTIONS = [
    ("grpc.so_reuseport", 0),  # or a second server would bind the same port in silence
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
    ("grpc.http2.max_ping_strikes", 0),
]


class Server:
    """Serves a log, or an engine, until it is stopped. The caller closes the log."""

    def __init__(
        self,
        log: Log | Engine,
        *,
        max_in_flight: int | str = 64 * 2**20,
        max_call_bytes: int | str = MAX_CALL_BYTES,
        insecure: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        self.log = log if isinstance(log, Log) else Log(log, "engine:")
        self.metrics = Metrics()
        self._budget = Budget(parse_size(max_in_flight, "max_in_flight") or 2**63)
        self._max_call_bytes = parse_size(max_call_bytes, "max_call_bytes") or 2**31 - 1
        self._insecure = insecure
        self._cluster = cluster
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._grpc: grpc.Server | None = None
        self._pools: Pools | None = None
        self.metrics.in_flight.set_function(lambda: self._budget.used)

    def start(self, address: str = DEFAULT_ADDRESS, *, retention: str | None = None) -> Address:
        """Listen; returns the address, with the port that was picked if it was 0.

        *retention* is the default for topics that are created from now on, such as `10s` or `7d`.
        """
        if self._grpc is not None:
            raise InvalidValue("server", "started already", "make a new Server to listen on another address")
        where = parse_address(address)
        check_exposed(where, insecure=self._insecure)
        if retention is not None:
            self.log.defaults = self.log.defaults.changed(retention=retention)
        self._pools = Pools()
        options = [*_OPTIONS, ("grpc.max_receive_message_length", self._max_call_bytes)]
        server = grpc.server(self._pools.short, options=options, maximum_concurrent_rpcs=_MOST_CALLS)
        port = _bind(server, where)
        self.address = where._replace(port=port)
        self._register(server)
        self.log.start_culler()
        server.start()
        self._grpc = server
        _logger.info("listening on %s for %s", self.address, self.log.url)
        return self.address

    def serve(self, address: str = DEFAULT_ADDRESS, retention: str | None = None) -> None:
        """Listen until `stop` is called, from another thread or a signal handler; raises what made it stop."""
        self.start(address, retention=retention)
        self.wait()

    def wait(self) -> None:
        """Block until the server has stopped; raises what made it stop, if that was an error."""
        while not self._stopped.wait(1.0):
            if errors := self.log.culler_errors:
                _logger.error("retention cannot be carried out: %s", next(iter(errors.values())))
        if self._failure is not None:
            raise self._failure

    def stop(self, grace: float = _GRACE_S) -> None:
        """Take nothing new, finish what was accepted, for up to *grace* seconds. Harmless when repeated."""
        self._stopping.set()
        server, self._grpc = self._grpc, None
        if server is not None:
            self._health.enter_graceful_shutdown()
            server.stop(grace).wait()
            self._records.close()
        if self._pools is not None:
            self._pools.shutdown()
        self._stopped.set()

    def fail(self, error: BaseException) -> None:
        """A part of the server has died: stop with its error."""
        self._failure = self._failure or error
        threading.Thread(target=self.stop, name="ottla-stop", daemon=True).start()

    def __enter__(self) -> Self:
        if self._grpc is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _register(self, server: grpc.Server) -> None:
        pools, metrics = self._pools, self.metrics
        assert pools is not None
        topics = TopicCalls(self.log)
        known = Handles(self.log)
        batches = BatchCalls(self.log, known, self._budget, metrics, self._stopping)
        self._records = records = RecordCalls(self.log, known, batches, self._budget, SystemClock())
        minikafka = MiniKafkaCalls(self.log, records.producers, self._budget)
        cluster = ClusterCalls(self.log, self._cluster or Cluster.single(str(self.address)))
        short = {
            name: guarded(name, getattr(calls, _snake(name)), metrics)
            for calls in (topics, cluster)
            for name in (method.name for method in LOG_SERVICE.methods)
            if hasattr(calls, _snake(name))
        }
        partition = {
            name: guarded(name, getattr(batches, _snake(name)), metrics)
            for name in ("GetBounds", "GetSize", "FindByTime", "Trim", "Expire")
        }
        held = {
            "Produce": guarded("Produce", records.produce, metrics, pools.appending),
            "Poll": guarded("Poll", records.poll, metrics, pools.waiting),
            "Fetch": guarded("Fetch", batches.fetch, metrics, pools.waiting),
            "Wait": guarded("Wait", batches.wait, metrics, pools.waiting),
            "Append": guarded_stream("Append", batches.append, metrics, pools.appending),
            "Read": guarded_stream("Read", batches.read, metrics, pools.reading),
        }
        original = {
            "Produce": guarded("MiniKafka.Produce", minikafka.produce, metrics, pools.appending),
            "Poll": guarded("MiniKafka.Poll", minikafka.poll, metrics),
        }
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = [LOG_SERVICE.full_name, MINIKAFKA_SERVICE.full_name]
        for name in ["", *names]:
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
        server.add_generic_rpc_handlers(
            (handlers(LOG_SERVICE, short | partition | held), handlers(MINIKAFKA_SERVICE, original))
        )


def _bind(server: grpc.Server, where: Address) -> int:
    try:
        port = server.add_insecure_port(str(where))
    except RuntimeError:
        port = 0
    if not port:
        raise InvalidValue("address", str(where), "another program listens there, or the host is not this machine's")
    return port


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
