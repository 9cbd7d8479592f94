"""NATS JetStream: asynchronous publishes and an ordered consumer, files synced before each acknowledgement."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.arrivals import Arrivals, LoopSession
from benchmarks.peers.contract import NotRun, Peer, Started, client_version
from benchmarks.peers.servers import HOST, free_port, listening, output, program, running

_CONFIGURATION = """\
host: {host}
port: {port}
max_payload: 8388608
jetstream {{
  store_dir: "{folder}"
  sync_interval: always
}}
"""
_OLDEST = (2, 10)
"""`sync_interval: always` came with it."""


class NatsSession(LoopSession):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._connection = self.wait(import_module("nats").connect(f"nats://{HOST}:{address}"))
        self._stream = self._connection.jetstream(timeout=30, publish_async_max_pending=4000)

    def create(self, topic: str) -> None:
        self.wait(self._stream.add_stream(name=topic, subjects=[topic]))

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        self.wait(self._produce(topic, values))

    async def _produce(self, topic: str, values: Iterable[bytes]) -> None:
        acknowledged = [await self._stream.publish_async(topic, value) for value in values]
        await self._stream.publish_async_completed()
        for one in acknowledged:
            one.result()

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        return list(self.wait(self._send_each(topic, values)))

    async def _send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        times = []
        for value in values:
            start = time.perf_counter()
            await self._stream.publish(topic, value)
            times.append(time.perf_counter() - start)
        return times

    def chunks(self, topic: str) -> Iterator[list[bytes]]:
        arrivals = Arrivals()
        yield []

        async def put(message: Any) -> None:
            arrivals.put(message.data)

        subscription = self.wait(self._stream.subscribe(topic, cb=put, ordered_consumer=True))
        try:
            while True:
                yield self.wait(arrivals.take())
        finally:
            self.wait(subscription.unsubscribe())

    def close(self) -> None:
        self.wait(self._connection.close())
        super().close()


class NatsJetStream(Peer):
    name = "nats"
    title = "NATS JetStream"
    durability = "synced before the acknowledgement (sync_interval: always)"
    get_it = "go install github.com/nats-io/nats-server/v2@latest"

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        client = client_version("nats-py")
        server = program("nats-server", self.get_it, Path.home() / "go/bin")
        number = output(server, "--version").split("v")[-1]
        if tuple(map(int, re.findall(r"\d+", number)[:2])) < _OLDEST:
            raise NotRun(f"nats-server {number} cannot sync before it acknowledges; {self.get_it}")
        port = free_port()
        configuration = folder / "nats.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, folder=folder))
        with running([server, "-c", str(configuration)], folder=folder, ready=listening(port)):
            yield Started(address=str(port), version=f"NATS {number}, {client}")

    def connect(self, address: str) -> NatsSession:
        return NatsSession(address)


PEER = NatsJetStream()
