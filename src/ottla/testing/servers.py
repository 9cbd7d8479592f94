"""A server as a process of its own, for tests: the real program, gone with all its brokers whatever happens.

with ServerProcess("file:///tmp/log", "--brokers", "3") as server:
    log = ottla.open(f"grpc://{server.address}")
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_LONGEST_S = 60.0

PROGRAM = (sys.executable, "-m", "ottla", "serve")


class ServerProcess:
    """`ottla serve` with these arguments, on a port that is free unless they say which."""

    def __init__(
        self, *arguments: str, environment: Mapping[str, str] | None = None, program: Sequence[str] = PROGRAM
    ) -> None:
        if program is PROGRAM and "--grpc" not in arguments:
            arguments = (*arguments, "--grpc", "127.0.0.1:0")
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-server-")
        self._errors = Path(self._folder.name, "stderr").open("w+b")  # noqa: SIM115  (open as long as the process)
        self.listening: dict[str, Any] = {}
        """What it said about where it listens."""
        self.process = subprocess.Popen(
            [*program, *arguments, *(["--json"] if program is PROGRAM else [])],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=self._folder.name,
            env=clean_environment() | dict(environment or {}),
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        """Where clients reach the first broker."""
        return str(self.listening["grpc"])

    @property
    def addresses(self) -> list[str]:
        """Where clients reach each broker."""
        return [broker["grpc"] for broker in self.listening["brokers"]]

    def wait_until_listening(self) -> Self:
        """Until it says where it listens; or an error with what it said instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server did not start: {self.end()} {self.said()}")
        self.listening = json.loads(line) if line.startswith("{") else {"grpc": line.split()[2].rstrip(",")}
        return self

    def said(self) -> str:
        """Its standard error so far."""
        self._errors.flush()
        return Path(self._errors.name).read_text(encoding="utf-8")

    def events(self) -> list[dict[str, Any]]:
        """Its log so far, where that is JSON."""
        return [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def kill(self) -> None:
        """End it as a power switch would; brokers under it notice by themselves."""
        self.process.kill()
        self.end()

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        return self.process.wait(_LONGEST_S)

    def close(self) -> None:
        """Whatever still runs is killed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for broker in self.listening.get("brokers", []):
            if broker["pid"] != self.pid and not _gone(broker["pid"]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(broker["pid"], signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.wait_until_listening()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def clean_environment() -> dict[str, str]:
    """This process's environment without what would change a server's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTTLA_", "MINIKAFKA_"))}
    return kept | {"XDG_CONFIG_HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"}


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be collected is none."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def _gone(pid: int) -> bool:
    """Whether a process ends by itself, as a broker does whose supervisor has gone."""
    deadline = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)
