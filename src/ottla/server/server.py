"""A log on the network: ottla's own gRPC service and MiniKafka's, health and reflection, on one port.

The server adds no semantics: all that it can do, the library can. A graceful stop finishes what was accepted.
If a part of it dies, the whole server stops with that part's error.
"""

import logging
import threading
import time
from types import TracebackType
from typing import Self

import grpc

from ottla.batch import columns_of_values
from ottla.client.log import Log
from ottla.errors import InvalidValue, ServerError
from ottla.server.addresses import Address, check_exposed, parse_address
from ottla.server.budget import Budget
from ottla.server.calls import MAX_STREAMS, Pools
from ottla.server.cluster import Cluster
from ottla.server.metrics import Metrics, connections
from ottla.server.services import Services
from ottla.settings import check_number, parse_size
from ottla.storage import Engine

_logger = logging.getLogger("ottla.server")

DEFAULT_ADDRESS = "127.0.0.1:9999"
MAX_CALL_BYTES = 32 * 2**20
"""The largest request: a batch of 16 MiB with room to spare; a topic with larger messages needs a larger one."""
LARGEST_CALL = 2**31 - 1
MAX_IN_FLIGHT = 64 * 2**20
"""Bytes that are held for all producers together."""
_GRACE_S = 10.0
_KILLING_S = 1.0
"""How long it takes to cancel what is still under way after that, at most."""
_LOOK_S = 0.25
"""How often a running server looks whether its parts are alive."""

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
        max_in_flight: int | str = MAX_IN_FLIGHT,
        max_call_bytes: int | str = MAX_CALL_BYTES,
        max_streams: int = MAX_STREAMS,
        insecure: bool = False,
        cluster: Cluster | None = None,
    ) -> None:
        self.log = log if isinstance(log, Log) else Log(log, "engine:")
        self.metrics = Metrics()
        self._budget = Budget(parse_size(max_in_flight, "max_in_flight") or 2**63)
        self._max_call_bytes = min(parse_size(max_call_bytes, "max_call_bytes") or LARGEST_CALL, LARGEST_CALL)
        self._max_streams = check_number(max_streams, "max_streams")
        self._insecure = insecure
        self._cluster = cluster
        self._changing = threading.Lock()
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._listener: _Listener | None = None

    def start(self, address: str = DEFAULT_ADDRESS, *, retention: str | None = None) -> Address:
        """Listen; returns the address, with the port that was picked if it was 0.

        *retention* is the default for topics that are created from now on, such as `10s` or `7d`.
        """
        with self._changing:
            if self._listener is not None or self._stopping.is_set():
                raise InvalidValue("server", "started before", "make a new Server to listen again")
            where = parse_address(address)
            check_exposed(where, insecure=self._insecure)
            defaults = self.log.defaults if retention is None else self.log.defaults.changed(retention=retention)
            listener = _Listener(where, self._max_call_bytes, self._max_streams)
            self.address = listener.address
            self.log.defaults = defaults
            cluster = self._cluster or Cluster.single(str(self.address))
            self._services = Services(self.log, cluster, self._budget, self.metrics, self._stopping)
            self._watch_metrics(listener)
            self.log.start_culler()
            listener.start(self._services)
            self._listener = listener
        threading.Thread(target=self._watch, args=(listener,), name="ottla-watch", daemon=True).start()
        columns_of_values([b""])  # Arrow imports pandas at its first conversion: no client should wait for that
        _logger.info(
            "listening on %s for %s",
            self.address,
            self.log.url,
            extra={"event": "started", "address": str(self.address), "url": self.log.url},
        )
        return self.address

    def serve(self, address: str = DEFAULT_ADDRESS, retention: str | None = None) -> None:
        """Listen until `stop` is called, from another thread or a signal handler; raises what made it stop."""
        self.start(address, retention=retention)
        try:
            self.wait()
        finally:
            self.stop()

    def wait(self) -> None:
        """Block until the server has stopped; raises what made it stop, if that was an error."""
        while not self._stopped.wait(1.0):  # in steps, so that a signal is not kept waiting
            pass
        if self._failure is not None:
            raise self._failure

    def stop(self, grace: float = _GRACE_S) -> None:
        """Take nothing new, finish what was accepted, for up to *grace* seconds. Harmless when repeated."""
        self._stopping.set()
        with self._changing:
            listener, self._listener = self._listener, None
            if listener is not None:
                _logger.info("stopping", extra={"event": "stopping"})
                listener.stop(self._services, grace)
                _logger.info("stopped", extra={"event": "stopped"})
            self._stopped.set()

    def fail(self, error: BaseException) -> None:
        """A part of the server has died: stop with its error."""
        self._failure = self._failure or error
        _logger.critical("a part of the server failed: %s", error, extra={"event": "failed"})
        threading.Thread(target=self.stop, name="ottla-stop", daemon=True).start()

    def __enter__(self) -> Self:
        if self._listener is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _watch(self, listener: "_Listener") -> None:
        """Look after the parts, until the server stops."""
        while not self._stopping.wait(_LOOK_S):
            self._services.end_quiet_streams(listener.pools)
            failure = self.log.culler_failure or listener.failure()
            if failure is not None:
                self.fail(failure)
                return

    def _watch_metrics(self, listener: "_Listener") -> None:
        self.metrics.watch("ottla_bytes_in_flight", "Bytes held for producers.", lambda: self._budget.used)
        self.metrics.watch("ottla_culler_errors", "Topics whose retention fails.", lambda: len(self.log.culler_errors))
        self.metrics.watch(
            "ottla_connections", "Connections to this server.", lambda: connections(listener.address.port)
        )
        for pool in listener.pools:
            self.metrics.watch_pool(pool.what, lambda pool=pool: pool.held)  # type: ignore[misc]  # a default, not an argument


class _Listener:
    """The gRPC server and its threads."""

    def __init__(self, where: Address, max_call_bytes: int, max_streams: int) -> None:
        self.pools = Pools(max_streams)
        options = [*_OPTIONS, ("grpc.max_receive_message_length", max_call_bytes)]
        self._grpc = grpc.server(self.pools.quick, options=options)
        self.address = where._replace(port=_bind(self._grpc, where))

    def start(self, services: Services) -> None:
        self._grpc.add_generic_rpc_handlers(services.handlers(self.pools))
        before = set(threading.enumerate())
        self._grpc.start()
        self._threads = [thread for thread in set(threading.enumerate()) - before if "_serve" in thread.name]

    def failure(self) -> Exception | None:
        """What is wrong, if it does not listen any more."""
        if self._grpc.wait_for_termination(0) and self._is_served():
            return None
        return ServerError(f"the listener on {self.address} ended by itself: see the log, and start the server again")

    def _is_served(self) -> bool:
        """Whether the thread of the gRPC server runs; without it the port stays open and nobody answers."""
        return all(thread.is_alive() for thread in self._threads)

    def stop(self, services: Services, grace: float) -> None:
        deadline = time.monotonic() + grace
        stopped = self._grpc.stop(grace)  # from here on nothing new is taken
        services.stop()
        services.end_idle_streams()
        while not stopped.wait(0.05) and self._is_served() and time.monotonic() < deadline + _KILLING_S:
            services.end_idle_streams()
        services.close()
        self.pools.shutdown()


def _bind(server: grpc.Server, where: Address) -> int:
    try:
        port = server.add_insecure_port(str(where))
    except RuntimeError:
        port = 0
    if not port:
        raise InvalidValue("address", str(where), "another program listens there, or the host is not this machine's")
    return port
