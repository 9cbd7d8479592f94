"""What the machine does without a log: bare fdatasync, and a bare grpcio stream that stores nothing."""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from concurrent import futures
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, cast

import grpc

from benchmarks.peers.contract import Peer, Session, Started, client_version
from benchmarks.peers.servers import HOST, free_port, listening, running

_IN_FLIGHT = 8
_CHUNK = 10_000
_SERVICE = "bench.Bare"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class FileSession(Session):
    """One file that grows; as many lists to a write and a sync as a stream has in flight."""

    list_size = 10_000

    def __init__(self, address: str) -> None:
        self._file = os.open(address, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:  # noqa: ARG002  (one file for all)
        rest = iter(lists)
        while some := [b"".join(values) for values in islice(rest, _IN_FLIGHT)]:
            self._append(b"".join(some))

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:  # noqa: ARG002  (one file for all)
        times = []
        for value in values:
            start = time.perf_counter()
            self._append(value)
            times.append(time.perf_counter() - start)
        return times

    def _append(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]
        os.fdatasync(self._file)

    def close(self) -> None:
        os.close(self._file)


class StreamSession(Session):
    """Lists of messages joined into one, several in flight; the server answers each and throws it away."""

    list_size = 10_000

    def __init__(self, address: str) -> None:
        self._channel = cast("Any", grpc.insecure_channel(address, options=_OPTIONS))  # its types ask for serializers
        self._append = self._channel.stream_stream(f"/{_SERVICE}/Append")
        self._read = self._channel.unary_stream(f"/{_SERVICE}/Read")

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:  # noqa: ARG002  (nothing is stored)
        room = threading.Semaphore(_IN_FLIGHT)

        def requests() -> Iterator[bytes]:
            for values in lists:
                room.acquire()
                yield b"".join(values)

        for _ in self._append(requests()):
            room.release()

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:  # noqa: ARG002  (nothing is stored)
        times: list[float] = []
        next_one = threading.Semaphore(1)
        start = 0.0

        def requests() -> Iterator[bytes]:
            nonlocal start
            for value in values:
                next_one.acquire()
                start = time.perf_counter()
                yield value

        for _ in self._append(requests()):
            times.append(time.perf_counter() - start)
            next_one.release()
        return times

    def chunks(self, topic: str) -> Iterator[Sized]:
        size = int(topic.rpartition("-")[2])
        yield []
        replies = self._read(size.to_bytes(8, "little"))
        try:
            yield from (range(_CHUNK) for _ in replies)
        finally:
            replies.cancel()

    def close(self) -> None:
        self._channel.close()


class BareFile(Peer):
    name = "fdatasync"
    title = "limit: bare fdatasync"
    durability = "synced before the write returns"
    is_limit = True

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        yield Started(address=str(folder / "bare"), version=f"Linux {os.uname().release}")

    def connect(self, address: str) -> FileSession:
        return FileSession(address)


class BareStream(Peer):
    name = "grpcio"
    title = "limit: bare grpcio stream"
    durability = "nothing is stored"
    is_limit = True

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        port = free_port()
        command = [sys.executable, "-c", f"from {__name__} import serve; serve({port})"]
        environment = {"PYTHONPATH": str(Path(__file__).parents[2])}
        with running(command, folder=folder, ready=listening(port), environment=environment):
            yield Started(address=f"{HOST}:{port}", version=client_version("grpcio"))

    def connect(self, address: str) -> StreamSession:
        return StreamSession(address)


def serve(port: int) -> None:
    """Answer each message of an Append with nothing; send chunks of so many messages for a Read, for ever."""

    def append(requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for _request in requests:
            yield b""

    def read(request: bytes, context: Any) -> Iterator[bytes]:
        chunk = bytes(_CHUNK * int.from_bytes(request, "little"))
        while context.is_active():
            yield chunk

    server = grpc.server(futures.ThreadPoolExecutor(4), options=_OPTIONS)
    methods = {
        "Append": grpc.stream_stream_rpc_method_handler(append),
        "Read": grpc.unary_stream_rpc_method_handler(read),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    server.add_insecure_port(f"{HOST}:{port}")
    server.start()
    server.wait_for_termination()


PEER = BareFile()
STREAM_PEER = BareStream()
