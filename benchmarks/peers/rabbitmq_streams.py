"""RabbitMQ streams: batches with publisher confirms, through rstream. A stream is never synced."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.arrivals import Arrivals, LoopSession
from benchmarks.peers.contract import NotRun, Peer, Started, client_version
from benchmarks.peers.payloads import in_lists
from benchmarks.peers.servers import HOST, free_port, listening, program, running

_CONFIGURATION = """\
listeners.tcp.1 = {host}:{amqp}
stream.listeners.tcp.1 = {host}:{port}
stream.advertised_host = {host}
stream.advertised_port = {port}
stream.frame_max = 4194304
log.file = false
log.console = true
"""
_UNCONFIRMED = 50_000
_FRAME_BYTES = 4 * 2**20


class RabbitSession(LoopSession):
    def __init__(self, address: str) -> None:
        super().__init__()
        self._rstream = import_module("rstream")
        self._port = int(address)
        self._producer = self.wait(self._open())

    async def _open(self) -> Any:
        producer = self._rstream.Producer(HOST, self._port, username="guest", password="guest", frame_max=_FRAME_BYTES)
        await producer.start()
        return producer

    def create(self, topic: str) -> None:
        self.wait(self._producer.create_stream(topic))

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        self.produce_lists(topic, in_lists(values, self.list_size))

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:
        self.wait(self._produce(topic, lists))

    async def _produce(self, topic: str, lists: Iterable[list[bytes]]) -> None:
        sent = confirmed = 0
        some = asyncio.Event()

        def confirm(status: Any) -> None:
            nonlocal confirmed
            if not status.is_confirmed:
                raise NotRun(f"RabbitMQ refused a message with {status.response_code}")
            confirmed += 1
            some.set()

        async def wait(unconfirmed: int) -> None:
            while sent - confirmed > unconfirmed:
                some.clear()
                await some.wait()

        for values in lists:
            await self._producer.send_batch(topic, values, on_publish_confirm=confirm)
            sent += len(values)
            await wait(_UNCONFIRMED)
        await wait(0)

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        return list(self.wait(self._send_each(topic, values)))

    async def _send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        times = []
        for value in values:
            start = time.perf_counter()
            await self._producer.send_wait(topic, value)
            times.append(time.perf_counter() - start)
        return times

    def chunks(self, topic: str) -> Iterator[list[bytes]]:
        arrivals = Arrivals()

        async def connect() -> Any:
            consumer = self._rstream.Consumer(
                HOST, self._port, username="guest", password="guest", frame_max=_FRAME_BYTES
            )
            await consumer.start()
            return consumer

        consumer = self.wait(connect())
        try:
            yield []
            self.wait(consumer.subscribe(topic, lambda message, _: arrivals.put(message)))
            while True:
                yield self.wait(arrivals.take())
        finally:
            self.wait(consumer.close())

    def close(self) -> None:
        self.wait(self._producer.close())
        super().close()


class RabbitStreams(Peer):
    name = "rabbitmq"
    title = "RabbitMQ streams"
    durability = "in the page cache: RabbitMQ never syncs a stream"
    get_it = "apt install rabbitmq-server"

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        client = client_version("rstream")
        server, number = _server(self.get_it)
        epmd = program("epmd", self.get_it)
        port, amqp, names = free_port(), free_port(), free_port()
        configuration = folder / "rabbitmq.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, amqp=amqp))
        plugins = folder / "plugins"
        plugins.write_text("[rabbitmq_stream].\n")
        environment = {
            "HOME": str(folder),  # the cookie is made there
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(configuration),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_NODENAME": "ottla-bench@localhost",
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        }
        with (
            running([epmd], folder=folder, ready=listening(names), environment=environment),
            running([server], folder=folder, ready=listening(port), environment=environment),
        ):
            yield Started(address=str(port), version=f"RabbitMQ {number}, {client}")

    def connect(self, address: str) -> RabbitSession:
        return RabbitSession(address)


def _server(get_it: str) -> tuple[str, str]:
    """The server itself and its version: the program on Debian's PATH would change to another user."""
    installed = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    if not installed:
        raise NotRun(f"rabbitmq-server is not installed in /usr/lib/rabbitmq; {get_it}")
    return str(installed[-1]), installed[-1].parent.parent.name.partition("-")[2]


PEER = RabbitStreams()
