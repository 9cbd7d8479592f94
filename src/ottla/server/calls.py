"""Around every call: errors become statuses, times become metrics, and calls that wait have threads of their own."""

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from ottla.errors import OttlaError, ServerBusy
from ottla.protocol.errors import ERROR_KEY, RETRY_KEY, encode_error, status_of
from ottla.server.metrics import Metrics

_log = logging.getLogger("ottla.server")

Behaviour = Callable[[Any, grpc.ServicerContext], Any]


class Pools:
    """Threads by what they do: calls that are held for long must not starve those that are not."""

    def __init__(self) -> None:
        self.short = ThreadPoolExecutor(32, thread_name_prefix="ottla-call")
        self.waiting = ThreadPoolExecutor(512, thread_name_prefix="ottla-wait")
        self.appending = ThreadPoolExecutor(512, thread_name_prefix="ottla-append")
        self.reading = ThreadPoolExecutor(512, thread_name_prefix="ottla-read")

    def shutdown(self) -> None:
        for pool in (self.short, self.waiting, self.appending, self.reading):
            pool.shutdown(wait=False, cancel_futures=True)


def guarded(name: str, behaviour: Behaviour, metrics: Metrics, pool: ThreadPoolExecutor | None = None) -> Behaviour:
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

    if pool is not None:
        call.experimental_thread_pool = pool  # type: ignore[attr-defined]  # how grpcio takes a pool for one method
    return call


def guarded_stream(name: str, behaviour: Behaviour, metrics: Metrics, pool: ThreadPoolExecutor) -> Behaviour:
    """The same for a call that answers with a stream."""

    def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with metrics.streaming(name):
            try:
                yield from behaviour(request, context)
            except Exception as error:  # noqa: BLE001  (whatever it is, the client is told)
                metrics.failed(name, error)
                abort(context, error)

    call.experimental_thread_pool = pool  # type: ignore[attr-defined]  # how grpcio takes a pool for one method
    return call


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
    context.abort(status_of(error), details.message)
