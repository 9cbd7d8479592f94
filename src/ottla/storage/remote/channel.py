"""One connection for each process and address, shared by all engines of that address, made when it is needed.

A forked child closes the socket that it inherited and makes a connection of its own.
"""

import socket
import threading
import time
from typing import Final

from ottla.storage.disk import forks
from ottla.storage.remote.connection import Connection
from ottla.storage.remote.stream import Lost

_CONNECT_S: Final = 5.0
"""How long one attempt takes at most; then the next address, or the next attempt, has its turn."""
_SILENT_MS: Final = 20_000
"""A connection whose other end does not confirm what was sent for so long is lost."""


class Channel:
    """The way to one address. Safe from many threads and after a fork."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.users = 0
        """How many engines hold it."""
        self.met = False
        """Whether the server has ever been there: who has met it waits for it to come back."""
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        forks.register(self)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connection(self, deadline: float) -> Connection:
        """A connection that works, as far as is known; or `Lost`."""
        connection = self._connection
        if connection is not None and connection.usable:
            return connection
        with self._lock:
            connection = self._connection
            if connection is None or not connection.usable:
                if connection is not None:
                    connection.leave()
                self._connection = None
                self._connection = connection = self._connect(deadline)
                self.met = True
        return connection

    def _connect(self, deadline: float) -> Connection:
        left = min(_CONNECT_S, deadline - time.monotonic())
        if left <= 0:
            raise Lost("there was no time left to connect", reached=False)
        try:
            opened = socket.create_connection((self.host, self.port), left)
        except UnicodeError:
            raise Lost("that is no name of a host", reached=False) from None
        except OSError as error:
            raise Lost((error.strerror or str(error)).lower(), reached=False) from None
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)
            return Connection(opened, time.monotonic() + left)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def forget(self) -> None:
        """In a forked child: the connection is the parent's."""
        self._lock = threading.Lock()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.forget()

    def __repr__(self) -> str:
        return f"Channel({self.address})"


class _Channels:
    """Those that are in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: dict[tuple[str, int], Channel] = {}
        forks.register(self)

    def take(self, host: str, port: int) -> Channel:
        with self._lock:
            channel = self._channels.get((host, port))
            if channel is None:
                channel = self._channels[host, port] = Channel(host, port)
            channel.users += 1
            return channel

    def give_back(self, channel: Channel) -> None:
        with self._lock:
            channel.users -= 1
            if channel.users:
                return
            del self._channels[channel.host, channel.port]
        channel.close()

    def forget(self) -> None:
        self._lock = threading.Lock()


channels: Final = _Channels()
