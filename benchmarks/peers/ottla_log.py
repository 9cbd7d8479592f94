"""ottla itself: over gRPC with the log in a server process, and as a library with no server at all."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ottla
from benchmarks.peers.contract import Peer, Session, Started, client_version
from benchmarks.peers.servers import HOST, free_port, listening, running
from ottla import Message


class OttlaSession(Session):
    list_size = 10_000

    def __init__(self, address: str) -> None:
        self._log = ottla.open(address)

    def create(self, topic: str) -> None:
        self._log.create_topic(topic, sync="always")

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        with self._log.producer(topic) as producer:
            for value in values:
                producer.send(value)
            producer.flush()

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:
        with self._log.producer(topic) as producer:
            for values in lists:
                producer.send_many(values)
            producer.flush()

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        times = []
        with self._log.producer(topic) as producer:
            for value in values:
                start = time.perf_counter()
                producer.send(value).result()
                times.append(time.perf_counter() - start)
        return times

    def chunks(self, topic: str) -> Iterator[list[bytes | None]]:
        with self._log.consumer(topic, start="earliest") as consumer:
            yield []
            for messages in consumer.batches():
                yield messages.values()

    def objects(self, topic: str) -> Iterator[list[Message]]:
        with self._log.consumer(topic, start="earliest") as consumer:
            yield []
            for messages in consumer.batches():
                yield list(messages)

    def close(self) -> None:
        self._log.close()


class OttlaServer(Peer):
    name = "ottla"
    title = "ottla over gRPC"
    durability = 'synced before the acknowledgement (sync="always", a file: log)'

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        client = client_version("grpcio")
        port = free_port()
        command = [sys.executable, "-m", "ottla", "serve", f"file://{folder}/log", "--grpc", f"{HOST}:{port}"]
        with running(command, folder=folder, ready=listening(port)):
            yield Started(address=f"grpc://{HOST}:{port}", version=f"ottla {ottla.__version__}, {client}")

    def connect(self, address: str) -> OttlaSession:
        return OttlaSession(address)


class OttlaLibrary(Peer):
    name = "ottla-library"
    title = "ottla as a library, no server"
    durability = 'synced before the acknowledgement (sync="always", a file: log)'

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        yield Started(address=f"file://{folder}/log", version=f"ottla {ottla.__version__}")

    def connect(self, address: str) -> OttlaSession:
        return OttlaSession(address)


PEER = OttlaServer()
LIBRARY_PEER = OttlaLibrary()
