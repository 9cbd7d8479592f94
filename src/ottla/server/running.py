"""From settings to a server that runs until a signal: SIGTERM or SIGINT stops it gracefully, a second one at once."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from ottla.server.broker import Broker, Listening
from ottla.server.config import ServeSettings
from ottla.server.supervisor import Supervisor

_SIGNALS = signal.SIGTERM, signal.SIGINT


class Runnable(Protocol):
    """A broker, or several under a supervisor."""

    def start(self) -> list[Listening]: ...
    def wait(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


def run(settings: ServeSettings, started: Callable[[list[Listening]], None]) -> None:
    """Serve until a signal, and say where once all listen; raises what made it stop, if that was an error."""
    server: Runnable = Broker(settings) if settings.brokers == 1 else Supervisor(settings)
    with _stopped_by_signals(server):
        try:
            if listening := server.start():
                started(listening)
            server.wait()
        finally:
            server.stop()
            server.close()


@contextlib.contextmanager
def _stopped_by_signals(server: Runnable) -> Iterator[None]:
    told = threading.Event()

    def handle(number: int, _: FrameType | None) -> None:
        if told.is_set():
            server.kill()
            sys.stderr.write("ottla: stopped at once; what was under way was given up\n")
            sys.stderr.flush()
            os._exit(128 + number)  # threads that hang must not keep the process
        told.set()
        threading.Thread(target=server.stop, name="ottla-stop", daemon=True).start()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
