"""The service's calls on packed batches and partitions: translate, call the engine, translate."""

import threading
import time
from collections.abc import Iterator

import grpc

from ottla.batch import Batch
from ottla.client.log import Log
from ottla.errors import InvalidValue, OttlaError, ServerUnavailable
from ottla.model import Bounds
from ottla.protocol.errors import encode_error
from ottla.protocol.packed import PackedAppend, encode_fetch
from ottla.server.budget import Budget
from ottla.server.handles import Handles, Names
from ottla.server.metrics import Metrics
from ottla.server.streams import Streams
from ottla.storage import PartitionStore
from ottla.v1 import log_pb2 as pb

_Context = grpc.ServicerContext

READ_BYTES = 2**20
"""How large an answer is unless the client says otherwise."""
MOST_READ_BYTES = 16 * 2**20
LONGEST_WAIT_S = 60.0
_LOOK_S = 1.0
"""How often a held call looks whether its client is still there."""


class BatchCalls:
    """Appending and reading of one log."""

    def __init__(self, log: Log, handles: Handles, budget: Budget, metrics: Metrics, stopping: threading.Event) -> None:
        self._log = log
        self._handles = handles
        self._budget = budget
        self._metrics = metrics
        self._stopping = stopping
        self.streams = Streams()

    def append(self, requests: Iterator[PackedAppend], context: _Context) -> Iterator[pb.AppendResponse]:
        """Requests of one stream one after another; what was taken from the stream is finished and answered."""
        with self.streams.opened(context) as stream:
            for request in requests:
                if not stream.begin():
                    raise ServerUnavailable("this address", "it is stopping")
                yield self._answered(request)
                stream.finish()

    def _answered(self, packed: PackedAppend) -> pb.AppendResponse:
        try:
            return self._append(packed)
        except OttlaError as error:
            self._metrics.failed("Append", error)
            return pb.AppendResponse(request=packed.request.request, error=encode_error(error))

    def _append(self, packed: PackedAppend) -> pb.AppendResponse:
        start = time.perf_counter()
        request, size = packed.request, packed.batches.size
        handle = self._handles.of(request.topic, request.topic_id)
        with self._budget.holding(size):
            batches = list(Batch.parse_all(packed.batches))
            for batch in batches:
                batch.columns()  # what a client packed wrongly must not get into the log
            appended = handle.append(request.partition, batches, expected_next=request.expected_next or None)
        messages = sum(batch.count for batch in batches)
        self._metrics.appended(request.topic, messages, size, time.perf_counter() - start)
        return pb.AppendResponse(
            request=request.request,
            appended=[pb.Appended(first=one.first, count=one.count, duplicate=one.duplicate) for one in appended],
        )

    def fetch(self, request: pb.FetchRequest, context: _Context) -> bytes:
        store = self._handles.partition(request)
        size = _read_bytes(request.max_bytes)
        position = getattr(request, "from")
        bounds, batches = _read(store, position, size)
        if not batches and request.wait_ms:
            self.held({store: position}, request.wait_ms / 1000, context)
            bounds, batches = _read(store, position, size)
        return self._answer(request, bounds, batches)

    def read(self, request: pb.ReadRequest, context: _Context) -> Iterator[bytes]:
        store = self._handles.partition(request)
        size = _read_bytes(request.max_bytes)
        position = getattr(request, "from")
        while context.is_active() and not self._stopping.is_set():
            bounds, batches = _read(store, position, size)
            if batches:
                yield self._answer(request, bounds, batches)
                position = batches[-1].next_number
            elif request.follow:
                self._log.engine.wait({store: position}, _LOOK_S)
            else:
                return

    def wait(self, request: pb.WaitRequest, context: _Context) -> pb.WaitResponse:
        after = {self._handles.partition(one): one.number for one in request.after}
        return pb.WaitResponse(ready=self.held(after, request.wait_ms / 1000, context))

    def held(self, after: dict[PartitionStore, int], seconds: float, context: _Context) -> bool:
        """Wait in steps, so that a client that has gone or a server that stops does not keep a thread."""
        deadline = time.monotonic() + min(seconds, LONGEST_WAIT_S)
        while context.is_active() and not self._stopping.is_set():
            left = deadline - time.monotonic()
            if self._log.engine.wait(after, max(min(left, _LOOK_S), 0)):
                return True
            if left <= _LOOK_S:
                break
        return False

    def get_bounds(self, request: pb.GetBoundsRequest, _: _Context) -> pb.Bounds:
        return _encode_bounds(self._handles.partition(request).bounds())

    def get_size(self, request: pb.GetSizeRequest, _: _Context) -> pb.GetSizeResponse:
        return pb.GetSizeResponse(bytes=self._handles.partition(request).size())

    def find_by_time(self, request: pb.FindByTimeRequest, _: _Context) -> pb.FindByTimeResponse:
        return pb.FindByTimeResponse(number=self._handles.partition(request).find(request.timestamp_ms))

    def trim(self, request: pb.TrimRequest, _: _Context) -> pb.Bounds:
        return _encode_bounds(self._handles.partition(request).trim(request.before))

    def expire(self, request: pb.ExpireRequest, _: _Context) -> pb.Bounds:
        bounds = self._handles.partition(request).expire(
            older_than_ms=request.older_than_ms if request.HasField("older_than_ms") else None,
            max_bytes=request.max_bytes if request.HasField("max_bytes") else None,
        )
        return _encode_bounds(bounds)

    def _answer(self, request: Names, bounds: Bounds, batches: list[Batch]) -> bytes:
        size = sum(batch.size for batch in batches)
        self._metrics.read(request.topic, size)
        return encode_fetch(bounds, [part for batch in batches for part in batch.parts()], size)


def _read(store: PartitionStore, start: int, max_bytes: int) -> tuple[Bounds, list[Batch]]:
    """The bounds, and then the batches: what the bounds promise and the batches lack was removed in between."""
    return store.bounds(), store.read(start, max_bytes)


def _encode_bounds(bounds: Bounds) -> pb.Bounds:
    return pb.Bounds(first=bounds.first, next=bounds.next)


def _read_bytes(asked: int) -> int:
    if asked > MOST_READ_BYTES:
        raise InvalidValue("max_bytes", asked, f"ask for at most {MOST_READ_BYTES:,} at a time")
    return asked or READ_BYTES
