"""A socket that one thread reads while others write, without blocking any of them for longer than it wants to wait."""

import contextlib
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import Final

_MOST_PARTS: Final = 1000
"""That the system takes in one call."""


class Wire:
    """Bytes to and from a server. After `close`, and in a forked child after `forget`, every call raises `OSError`."""

    def __init__(self, opened: socket.socket) -> None:
        opened.setblocking(False)
        self._socket = opened
        self._wake_end, self._waker = os.pipe()
        for end in (self._wake_end, self._waker):
            os.set_blocking(end, False)
        self._release = weakref.finalize(self, _release, opened, self._wake_end, self._waker)
        self._readable = select.poll()
        self._readable.register(opened, select.POLLIN)
        self._readable.register(self._wake_end, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(opened, select.POLLOUT)
        self._sending = threading.Lock()
        self._lock = threading.Lock()
        self._inside = 0
        """Threads that use the descriptors at this moment, which must not be closed under them."""
        self._closed = False

    def read(self, view: memoryview, timeout: float) -> int:
        """Bytes into *view*, and how many; 0 if none came in time, or if it was interrupted. `OSError` at the end."""
        with self._use():
            for _ in range(2):
                try:
                    size = self._socket.recv_into(view)
                except BlockingIOError:
                    if timeout <= 0 or not self._ready_to_read(timeout):
                        return 0
                else:
                    if not size:
                        raise ConnectionResetError("the server closed the connection")
                    return size
        return 0

    def _ready_to_read(self, timeout: float) -> bool:
        ready = dict(self._readable.poll(_milliseconds(timeout)))
        if self._wake_end in ready:
            os.read(self._wake_end, 4096)
        return self._socket.fileno() in ready

    def write(self, parts: Sequence[memoryview | bytes], deadline: float) -> None:
        """All parts, one after another and nothing between them; or `OSError`, and the connection is of no use."""
        left = list(parts)
        with self._sending, self._use():
            while left:
                try:
                    sent = self._socket.sendmsg(left[:_MOST_PARTS])
                except BlockingIOError:
                    seconds = deadline - time.monotonic()
                    if seconds <= 0 or not self._writable.poll(_milliseconds(seconds)):
                        raise TimeoutError("the server takes nothing") from None
                else:
                    left = _after(left, sent)

    def interrupt(self) -> None:
        """Let the thread that reads return."""
        try:
            with self._use():
                os.write(self._waker, b"!")
        except OSError:  # it is closed, or the thread has been told often enough
            return

    def close(self) -> None:
        """End it; threads that use it get an error."""
        with self._lock:
            if not self._closed:
                self._closed = True
                with contextlib.suppress(OSError):  # the server was first
                    self._socket.shutdown(socket.SHUT_RDWR)  # wakes them
                if not self._inside:
                    self._release()

    def forget(self) -> None:
        """In a forked child: close what was inherited, and leave the parent's connection alone."""
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._closed = True
        self._release()

    @contextlib.contextmanager
    def _use(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise ConnectionAbortedError("the connection was closed")
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._closed and not self._inside:
                self._release()


def _release(opened: socket.socket, *ends: int) -> None:
    opened.close()
    for end in ends:
        os.close(end)


def _milliseconds(seconds: float) -> int:
    return min(int(seconds * 1000) + 1, 2**31 - 1)


def _after(parts: list[memoryview | bytes], sent: int) -> list[memoryview | bytes]:
    """What is left of the parts when so many bytes were sent."""
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return []
