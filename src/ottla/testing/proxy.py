"""A way to a server that can be cut, for tests: what a network does to a client.

with Proxy(server.address) as proxy:
    log = ottla.open(f"grpc://{proxy.address}")
    proxy.lose_answers()
"""

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Passes bytes between clients and one server, until it is told not to."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self.target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._answers = True
        self._requests = True
        self._refusing = False
        self.connections = 0
        """How many clients there were so far."""
        self.passed = 0
        """Bytes that went to the server."""
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    @property
    def address(self) -> str:
        """Where clients connect."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def cut(self) -> None:
        """End every connection; new ones are made as before."""
        with self._lock:
            for each in self._sockets:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def refuse(self) -> None:
        """Let nobody in, as a server that is away, and end every connection."""
        self._refusing = True
        self.cut()

    def lose_answers(self) -> None:
        """Pass requests to the server, and nothing back."""
        self._answers = False

    def lose_requests(self) -> None:
        """Pass nothing to the server."""
        self._requests = False

    def recover(self) -> None:
        """Pass everything again, for connections that are made from now on; end those that missed something."""
        lossy = not (self._answers and self._requests)
        self._answers = self._requests = True
        self._refusing = False
        if lossy:
            self.cut()

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    client.close()
                    continue
                self.connections += 1
                self._run(self._pass, client)

    def _pass(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.target)
        except OSError:
            client.close()
            return
        with client, server, selectors.DefaultSelector() as ready:
            with self._lock:
                self._sockets |= {client, server}
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            with contextlib.suppress(OSError):
                while self._pass_some(ready, client):
                    pass
            with self._lock:
                self._sockets -= {client, server}

    def _pass_some(self, ready: selectors.BaseSelector, client: socket.socket) -> bool:
        for key, _ in ready.select(1.0):
            source = key.fileobj
            assert isinstance(source, socket.socket)
            data = source.recv(2**16)
            if not data:
                return False
            if source is client:
                self.passed += len(data) if self._requests else 0
            if self._requests if source is client else self._answers:
                key.data.sendall(data)
        return True

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
