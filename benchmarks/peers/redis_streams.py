"""Redis Streams: XADD in pipelines and XREAD, the append-only file synced before each reply."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from benchmarks.peers.contract import Peer, Session, Started, client_version
from benchmarks.peers.payloads import in_lists
from benchmarks.peers.servers import HOST, free_port, listening, output, program, running

_CONFIGURATION = """\
bind {host}
port {port}
dir {folder}
daemonize no
save ""
appendonly yes
appendfsync always
auto-aof-rewrite-percentage 0
"""


class RedisSession(Session):
    def __init__(self, address: str) -> None:
        self._redis = import_module("redis").Redis(host=HOST, port=int(address))

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        for some in in_lists(values, self.list_size):
            with self._redis.pipeline(transaction=False) as pipeline:
                for value in some:
                    pipeline.xadd(topic, {b"v": value})
                pipeline.execute()

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        times = []
        for value in values:
            start = time.perf_counter()
            self._redis.xadd(topic, {b"v": value})
            times.append(time.perf_counter() - start)
        return times

    def chunks(self, topic: str) -> Iterator[list[bytes]]:
        position = b"0"
        yield []
        while True:
            found = self._redis.xread({topic: position}, count=10_000, block=500)
            for _, entries in found.items() if isinstance(found, dict) else found:
                values = [fields[b"v"] for _, fields in entries]
                position = entries[-1][0]
                yield values

    def close(self) -> None:
        self._redis.close()


class RedisStreams(Peer):
    name = "redis"
    title = "Redis Streams"
    durability = "synced before the reply (appendfsync always); all data in memory too"
    get_it = "apt install redis-server"

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        client = client_version("redis")
        server = program("redis-server", self.get_it)
        port = free_port()
        configuration = folder / "redis.conf"
        configuration.write_text(_CONFIGURATION.format(host=HOST, port=port, folder=folder))
        with running([server, str(configuration)], folder=folder, ready=listening(port)):
            number = output(server, "--version").split("v=")[1].split()[0]
            yield Started(address=str(port), version=f"Redis {number}, {client}, {client_version('hiredis')}")

    def connect(self, address: str) -> RedisSession:
        return RedisSession(address)


PEER = RedisStreams()
