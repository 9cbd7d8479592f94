"""Several brokers on one log, each a process of its own, kept running (row W3).

Ownership of partitions is for speed, not for safety: every broker can serve every partition, so a dead one costs
its clients a reconnect and no message. A broker that dies is started again, on the port that it had; one that
keeps dying ends the whole server with its error. When the supervisor is gone, however it went, its brokers stop.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.errors import OttlaError, ServerError
from ottla.protocol.errors import decode_error
from ottla.server.broker import Listening, settings_of
from ottla.server.config import ServeSettings
from ottla.v1 import log_pb2 as pb

_logger = logging.getLogger("ottla.server")

COMMAND = (sys.executable, "-m", "ottla.server.broker")


class Patience(NamedTuple):
    """How often and how soon a dead broker is started again."""

    shortest_s: float = 0.1
    longest_s: float = 5.0
    soon_s: float = 10.0
    """A broker that dies within this time of its start died at once."""
    tries: int = 5
    """That often in a row, and it is given up."""
    grace_s: float = 15.0
    """How long a broker may take to stop."""


class Supervisor:
    """Starts the brokers and keeps them running until it is stopped."""

    def __init__(
        self, settings: ServeSettings, *, command: Sequence[str] = COMMAND, patience: Patience | None = None
    ) -> None:
        self.patience = patience or Patience()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._keepers = [_Keeper(self, settings, number, command) for number in range(1, settings.brokers + 1)]

    def start(self) -> list[Listening]:
        """Start all brokers; returns where they listen once all of them do, or nothing if it was stopped meanwhile."""
        for keeper in self._keepers:
            keeper.thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or all(k.listening for k in self._keepers))
        if self._failure is not None:
            self.stop()
            raise self._failure
        if self._stopping.is_set():
            return []
        return [keeper.listening for keeper in self._keepers if keeper.listening is not None]

    def wait(self) -> None:
        """Until all brokers have stopped; raises what made them stop, if that was an error."""
        for keeper in self._keepers:
            keeper.thread.join()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Have every broker finish what it accepted; those that take too long are killed. Harmless when repeated."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        for keeper in self._keepers:
            keeper.signal(kill=False)
        deadline = time.monotonic() + self.patience.grace_s
        for keeper in self._keepers:
            if keeper.thread.ident is not None:
                keeper.thread.join(max(deadline - time.monotonic(), 0))
        self.kill()

    def kill(self) -> None:
        """Stop every broker at once."""
        self._stopping.set()
        for keeper in self._keepers:
            keeper.signal(kill=True)

    def close(self) -> None:
        """Nothing is left after it has stopped."""

    # For the keepers

    @property
    def stopping(self) -> threading.Event:
        return self._stopping

    def fail(self, error: BaseException) -> None:
        """Stop everything with an error."""
        with self._changed:
            self._failure = self._failure or error
        _logger.critical("%s", error, extra={"event": "failed"})
        self._stopping.set()
        threading.Thread(target=self.stop, name="ottla-stop", daemon=True).start()

    def announce(self) -> None:
        """Tell every broker about all of them."""
        with self._changed:
            self._changed.notify_all()
        members = [keeper.described() for keeper in self._keepers]
        for keeper in self._keepers:
            keeper.tell(members)


class _Keeper:
    """Keeps one broker running, from a thread of its own."""

    def __init__(self, supervisor: Supervisor, settings: ServeSettings, number: int, command: Sequence[str]) -> None:
        self.listening: Listening | None = None
        """Where it listens, or did last."""
        self._supervisor = supervisor
        self._settings = settings_of(settings, number)
        self._number = number
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._alive = False
        self._address = self._settings.grpc
        self.thread = threading.Thread(target=self._keep, name=f"ottla-broker-{number}", daemon=True)

    def described(self) -> dict[str, Any]:
        address = self.listening.grpc if self.listening is not None else ""
        return {"id": self._number, "address": address, "alive": self._alive}

    def tell(self, members: list[dict[str, Any]]) -> None:
        """Pass the list on, unless the broker is gone or takes no news any more."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # ValueError: closed meanwhile
                os.write(process.stdin.fileno(), (json.dumps(members) + "\n").encode())

    def signal(self, *, kill: bool) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill() if kill else self._process.terminate()

    def _keep(self) -> None:
        patience, deaths = self._supervisor.patience, 0
        while not self._supervisor.stopping.is_set():
            started = time.monotonic()
            code, error = self._run_once()
            if self._supervisor.stopping.is_set():
                return
            how = str(error) if error is not None else _ending(code)
            if self.listening is None:
                self._supervisor.fail(error or ServerError(f"broker {self._number} could not be started: {how}"))
                return
            deaths = deaths + 1 if time.monotonic() - started < patience.soon_s else 1
            if deaths >= patience.tries:
                sentence = f"broker {self._number} ended {deaths} times in a row soon after its start ({how})"
                self._supervisor.fail(ServerError(f"{sentence}: see its log, then start the server again"))
                return
            pause = min(patience.shortest_s * 2 ** (deaths - 1), patience.longest_s)
            _logger.warning(
                "broker %d ended (%s): it is started again in %g s",
                self._number,
                how,
                pause,
                extra={"event": "broker_ended", "broker": self._number, "reason": how},
            )
            self._supervisor.stopping.wait(pause)

    def _run_once(self) -> tuple[int, OttlaError | None]:
        """One life of the broker: its exit code, and what it said about its end."""
        with self._lock:
            if self._supervisor.stopping.is_set():
                return 0, None
            self._process = process = self._launched()
        assert process.stdout is not None
        error = None
        for line in process.stdout:
            said = json.loads(line)
            if "error" in said:
                error = decode_error(pb.Error(**said["error"]))
            else:
                self._listens(Listening(**said))
        code = process.wait()
        with self._lock:
            self._process = None
        _close_pipes(process)
        if error is not None and not self._alive:
            self._address = self._settings.grpc  # a port that was picked may be another's by now
        self._alive = False
        self._supervisor.announce()
        return code, error

    def _launched(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(  # noqa: S603  (our own interpreter, or a test's)
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is the supervisor's business
        )
        assert process.stdin is not None
        told = {"broker": self._number, "settings": self._settings.to_json() | {"grpc": self._address}}
        with contextlib.suppress(OSError):  # it died already, which its exit code says better
            os.write(process.stdin.fileno(), (json.dumps(told) + "\n").encode())
            os.set_blocking(process.stdin.fileno(), False)  # a broker that hangs must not hang others
        return process

    def _listens(self, listening: Listening) -> None:
        again = self.listening is not None
        self.listening = listening
        self._address = listening.bound
        self._alive = True
        self._supervisor.announce()
        _logger.info(
            "broker %d %s on %s",
            self._number,
            "is back" if again else "started",
            listening.grpc,
            extra={"event": "broker_started", "broker": self._number, "address": listening.grpc, "pid": listening.pid},
        )


def _close_pipes(process: "subprocess.Popen[str]") -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
