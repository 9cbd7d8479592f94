"""Around every call: errors become statuses, times become metrics, and calls that wait have threads of their own.

Calls of each kind have a limit. What is over it is refused at once with a hint to retry: it never waits for a
thread that a stream may hold for days.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc

from ottla.errors import OttlaError, ServerBusy
from ottla.protocol.errors import ERROR_KEY, RETRY_KEY, encode_error, status_of
from ottla.server.metrics import Metrics

_log = logging.getLogger("ottla.server")

Behaviour = Callable[[Any, grpc.ServicerContext], Any]

MAX_STREAMS = 512
RETRY_AFTER_MS = 200
_QUICK_THREADS = 32
_PRODUCE_THREADS = 128
_QUEUE = 1024
"""How many quick calls may wait for a thread; each has one for moments only."""


class Pool(ThreadPoolExecutor):
    """The threads of calls of one kind, and how many calls it holds, those that wait for a thread included."""

    def __init__(self, what: str, threads: int, *, queue: int = 0) -> None:
        super().__init__(threads, thread_name_prefix=f"ottla-{what.partition(' ')[0]}")
        self.what = what
        self.limit = threads + queue
        self._held = 0
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        return self._held

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        with self._lock:
            self._held += 1
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(self._released)
        return future

    def _released(self, _: "Future[Any]") -> None:
        with self._lock:
            self._held -= 1


class Pools:
    """Threads by what they do: calls that are held for long must not starve those that are not."""

    def __init__(self, max_streams: int = MAX_STREAMS) -> None:
        self.quick = Pool("quick calls", _QUICK_THREADS, queue=_QUEUE)
        self.producing = Pool("produce calls", _PRODUCE_THREADS, queue=_QUEUE)
        self.waiting = Pool("waiting calls", max_streams)
        self.appending = Pool("append streams", max_streams)
        self.reading = Pool("read streams", max_streams)
        self.refusing = Pool("refused calls", 2)

    def __iter__(self) -> Iterator[Pool]:
        return iter((self.quick, self.producing, self.waiting, self.appending, self.reading, self.refusing))

    def shutdown(self) -> None:
        for pool in self:
            pool.shutdown(wait=False, cancel_futures=True)


class Admission(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic for type checkers only
    """The handlers of a service, behind the limits of their pools."""

    def __init__(self, handlers: "grpc.GenericRpcHandler[Any, Any]", pools: Pools, metrics: Metrics) -> None:
        self._handlers = handlers
        self._pools = pools
        self._metrics = metrics

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Called by the one thread that also hands the call to its pool, so that nobody comes in between."""
        handler = self._handlers.service(details)
        if handler is None:
            return None
        pool = self._pool(handler)
        return handler if pool.held < pool.limit else self._refusal(details.method, pool)

    def _pool(self, handler: "grpc.RpcMethodHandler[Any, Any]") -> Pool:
        behaviour = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        pool: Pool | None = getattr(behaviour, "experimental_thread_pool", None)
        return pool or self._pools.quick

    def _refusal(self, method: str, pool: Pool) -> "grpc.RpcMethodHandler[Any, Any]":
        """An answer to a call of any shape: on the wire they begin alike."""

        def refuse(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            error = ServerBusy(pool.limit, pool.limit, RETRY_AFTER_MS, pool.what, "max_streams")
            self._metrics.failed(method.rpartition("/")[2], error)
            abort(context, error)
            yield

        return grpc.stream_stream_rpc_method_handler(_in(refuse, self._pools.refusing))


def guarded(name: str, behaviour: Behaviour, metrics: Metrics, pool: Pool) -> Behaviour:
    """A unary call whose errors reach the client as a status with facts."""

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        start = time.perf_counter()
        try:
            return behaviour(request, context)
        except Exception as error:  # noqa: BLE001  (whatever it is, the client is told)
            metrics.failed(name, error)
            abort(context, error)
        finally:
            metrics.called(name, time.perf_counter() - start)

    return _in(call, pool)


def guarded_stream(name: str, behaviour: Behaviour, metrics: Metrics, pool: Pool) -> Behaviour:
    """The same for a call that answers with a stream."""

    def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with metrics.streaming(name):
            try:
                yield from behaviour(request, context)
            except Exception as error:  # noqa: BLE001  (whatever it is, the client is told)
                metrics.failed(name, error)
                abort(context, error)

    return _in(call, pool)


def _in(behaviour: Behaviour, pool: Pool) -> Behaviour:
    behaviour.experimental_thread_pool = pool  # type: ignore[attr-defined]  # how grpcio takes a pool for one method
    return behaviour


def abort(context: grpc.ServicerContext, error: Exception) -> None:
    """End the call with the error's status, sentence and facts."""
    if not isinstance(error, OttlaError):
        if not context.is_active():  # the client is gone, and what failed is only the attempt to tell it
            return
        _log.error("a call failed", exc_info=error)
    details = encode_error(error)
    trailing: list[tuple[str, str | bytes]] = [(ERROR_KEY, details.SerializeToString())]
    if isinstance(error, ServerBusy):
        trailing.append((RETRY_KEY, str(error.retry_after_ms)))
    context.set_trailing_metadata(tuple(trailing))
    context.abort(grpc.StatusCode[status_of(error).name], details.message)
