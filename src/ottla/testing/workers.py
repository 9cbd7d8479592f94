"""Processes that start in milliseconds, for tests that need many: some of them to be killed.

A helper process imports ottla once and forks a worker for each request. It reads requests from its standard
input, one line of JSON each, and answers on its standard output; when the input ends (its owner closed it, or
died) it kills its workers and ends. A worker calls one function by its name, `module:function`, with JSON
arguments. What it returns, and the traceback if it fails, go to files, so that a killed worker blocks nobody.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from ottla.batch import columns_of_values

PRELOADED = (
    "pyarrow.parquet",
    "ottla.storage.file",
    "ottla.storage.jsonl",
    "ottla.testing.crash_writer",
    "ottla.testing.jobs",
)


class WorkerFailed(Exception):
    """A worker ended by an error of its own, or took too long."""


class Workers:
    """Starts workers. Use it as a context manager: leaving it kills whatever still runs."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-workers-")
        self._count = 0
        command = [sys.executable, "-m", "ottla.testing.workers"]
        self._helper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )

    def start(self, target: Callable[..., Any] | str, **arguments: Any) -> "Worker":
        """A process that calls *target*, a module-level function, with these JSON arguments."""
        name = target if isinstance(target, str) else f"{target.__module__}:{target.__qualname__}"
        self._count += 1
        path = Path(self._folder.name, str(self._count))
        pid = self.ask({"start": name, "arguments": arguments, "path": str(path)})
        return Worker(self, pid, path)

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        self._helper.stdin.write(json.dumps(request) + "\n")
        self._helper.stdin.flush()
        return json.loads(self._helper.stdout.readline())

    def close(self) -> None:
        self._helper.communicate()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Worker:
    """One process."""

    def __init__(self, workers: Workers, pid: int, path: Path) -> None:
        self._workers = workers
        self._status: int | None = None
        self.pid = pid
        self.path = path

    def status(self) -> int | None:
        """How it ended: an exit code, or minus the signal that killed it; `None` while it runs."""
        if self._status is None:
            self._status = self._workers.ask({"status": self.pid})
        return self._status

    def kill(self) -> None:
        """SIGKILL: no handler, no flush, no goodbye. Returns when the process is gone."""
        if self.status() is None:
            os.kill(self.pid, signal.SIGKILL)  # a worker that just ended is the helper's zombie: its pid is not reused
            self.wait()

    def wait(self, timeout_s: float = 60.0) -> int:
        """How it ended; it is killed when it takes too long."""
        deadline, pause = time.monotonic() + timeout_s, 0.0005
        while (status := self.status()) is None:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                raise WorkerFailed(f"process {self.pid} did not end within {timeout_s:g} s")
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return status

    def result(self, timeout_s: float = 60.0) -> Any:
        """What the function returned."""
        status = self.wait(timeout_s)
        if status != 0:
            raise WorkerFailed(f"process {self.pid} ended with {status}: {self.error()}")
        return json.loads(self.path.with_suffix(".result").read_bytes())

    def error(self) -> str:
        """The traceback of a function that failed; empty where there is none."""
        with contextlib.suppress(FileNotFoundError):
            return self.path.with_suffix(".error").read_text()
        return ""


def main() -> None:
    """The helper process."""
    for module in PRELOADED:
        import_module(module)
    columns_of_values([b"x"])  # the first Arrow array looks for pandas, which takes its time
    running: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _fork(request) if "start" in request else _reap(request["status"])
        if "start" in request:
            running.add(cast("int", answer))
        elif answer is not None:
            running.remove(request["status"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        module, _, name = request["start"].partition(":")
        result = getattr(import_module(module), name)(**request["arguments"])
        Path(request["path"]).with_suffix(".result").write_text(json.dumps(result))
        code = 0
    except BaseException:  # noqa: BLE001  (whatever it is, the owner reads it)
        Path(request["path"]).with_suffix(".error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _reap(pid: int) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    main()
