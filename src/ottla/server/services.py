"""Every call of the server, by service: which object answers it and which threads it runs in."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ottla.client.log import Log
from ottla.clock import SystemClock
from ottla.minikafka import minikafka_pb2
from ottla.protocol.packed import parse_append
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, handlers
from ottla.server.batches import BatchCalls
from ottla.server.budget import Budget
from ottla.server.calls import Admission, Behaviour, Pools, guarded, guarded_stream
from ottla.server.cluster import Cluster, ClusterCalls
from ottla.server.handles import Handles
from ottla.server.metrics import Metrics
from ottla.server.minikafka import MiniKafkaCalls
from ottla.server.records import RecordCalls
from ottla.server.topics import TopicCalls

_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
_REFLECTION = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]
_PARSERS = {"Append": parse_append}
_SERIALIZERS = {"Fetch": bytes, "Read": bytes}
"""What carries batches is encoded without the generated code, which copies them."""
_QUIET_S = 10.0
"""Clients do not use a stream again that was quiet for half of this."""
_SERVED = LOG_SERVICE.full_name, MINIKAFKA_SERVICE.full_name


class Services:
    """ottla's own service, MiniKafka's, health and reflection, for one log."""

    def __init__(self, log: Log, cluster: Cluster, budget: Budget, metrics: Metrics, stopping: threading.Event) -> None:
        known = Handles(log)
        self._metrics = metrics
        self._topics = TopicCalls(log, cluster)
        self._cluster = ClusterCalls(log, cluster)
        self._batches = BatchCalls(log, known, budget, metrics, stopping)
        self._streams = self._batches.streams
        self._records = RecordCalls(log, known, self._batches, budget, SystemClock())
        self._minikafka = MiniKafkaCalls(log, self._records.producers, budget)
        self._health = health.HealthServicer()
        for name in ("", *_SERVED):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def handlers(self, pools: Pools) -> "list[grpc.GenericRpcHandler[Any, Any]]":
        """One for each service, behind the limits of the pools."""
        log = handlers(LOG_SERVICE, self._quick(pools) | self._held(pools), parsers=_PARSERS, serializers=_SERIALIZERS)
        others = {
            MINIKAFKA_SERVICE: self._original(pools),
            _HEALTH: {"Check": self._health.Check, "List": self._health.List, "Watch": self._watch()},
            _REFLECTION: {"ServerReflectionInfo": self._reflection(pools)},
        }
        made = [log, *(handlers(service, calls) for service, calls in others.items())]
        return [Admission(handler, pools, self._metrics) for handler in made]

    def _quick(self, pools: Pools) -> dict[str, Behaviour]:
        """What is answered at once."""
        found = {}
        for name in (method.name for method in LOG_SERVICE.methods):
            for calls in (self._topics, self._cluster, self._batches):
                if behaviour := getattr(calls, _snake(name), None):
                    found[name] = guarded(name, behaviour, self._metrics, pools.quick)
        return found

    def _held(self, pools: Pools) -> dict[str, Behaviour]:
        """What takes a commit, may wait, or streams."""
        metrics, records, batches = self._metrics, self._records, self._batches
        return {
            "Produce": guarded("Produce", self._counting_in(records.produce), metrics, pools.producing),
            "Poll": guarded("Poll", self._counting_out(records.poll), metrics, pools.waiting),
            "Fetch": guarded("Fetch", batches.fetch, metrics, pools.waiting),
            "Wait": guarded("Wait", batches.wait, metrics, pools.waiting),
            "Append": guarded_stream("Append", batches.append, metrics, pools.appending),
            "Read": guarded_stream("Read", batches.read, metrics, pools.reading),
        }

    def _original(self, pools: Pools) -> dict[str, Behaviour]:
        """MiniKafka's two calls."""
        produce, poll = self._counting_in(self._minikafka.produce), self._counting_out(self._minikafka.poll)
        return {
            "Produce": guarded("MiniKafka.Produce", produce, self._metrics, pools.producing),
            "Poll": guarded("MiniKafka.Poll", poll, self._metrics, pools.quick),
        }

    def _counting_in(self, behaviour: Behaviour) -> Behaviour:
        """What single records bring in is counted as what packed batches do."""

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            start = time.perf_counter()
            answer = behaviour(request, context)
            single = isinstance(request, minikafka_pb2.ProduceRequest)
            topic, messages = (request.topic.topic, 1) if single else (request.topic, len(request.records))
            self._metrics.appended(topic, messages, request.ByteSize(), time.perf_counter() - start)
            return answer

        return call

    def _counting_out(self, behaviour: Behaviour) -> Behaviour:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            answer = behaviour(request, context)
            self._metrics.read(request.topic, answer.ByteSize())
            return answer

        return call

    def _watch(self) -> Behaviour:
        """Health's stream, which holds no thread."""

        def watch(request: Any, context: grpc.ServicerContext, send: Callable[[Any], None]) -> None:
            self._streams.keep(context)
            self._health.Watch(request, context, send)

        watch.experimental_non_blocking = True  # type: ignore[attr-defined]  # how grpcio is told
        return watch  # type: ignore[return-value]  # likewise

    def _reflection(self, pools: Pools) -> Behaviour:
        servicer: Any = reflection.ReflectionServicer([*_SERVED, health.SERVICE_NAME, reflection.SERVICE_NAME])

        def reflect(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._streams.opened(context):
                yield from servicer.ServerReflectionInfo(requests, context)

        return guarded_stream("Reflection", reflect, self._metrics, pools.reading)

    def stop(self) -> None:
        """Tell those who watch the health that the server is going."""
        self._health.enter_graceful_shutdown()

    def end_idle_streams(self) -> None:
        """End streams that wait for their client; repeat it for those that had a request under way."""
        self._streams.end()

    def end_quiet_streams(self, pools: Pools) -> None:
        """Have threads for streams that are used while there are many that are not."""
        if pools.appending.held > pools.appending.limit // 2:
            self._batches.streams.end_quiet(_QUIET_S)

    def close(self) -> None:
        """Send what was accepted."""
        self._records.close()


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
