"""Starting programs on loopback, waiting until they take calls, and stopping them whatever happens."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.contract import NotRun

HOST = "127.0.0.1"
_START_S = 60.0
_STOP_S = 10.0
_LOG_SHOWN = 300


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        port: int = one.getsockname()[1]
        return port


def program(name: str, get_it: str, *folders: Path) -> str:
    """Where the program is, on the PATH or in one of *folders*; or `NotRun`."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    if (found := shutil.which(name, path=path)) is None:
        raise NotRun(f"{name} is not installed; {get_it}")
    return found


def output(*command: str) -> str:
    """What a program prints."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_START_S)
    return done.stdout.strip()


@contextmanager
def running(
    command: Sequence[str],
    *,
    folder: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Have a program run until the end of the block. What it prints goes to a file in *folder*."""
    written = folder / f"{Path(command[0]).name}.out"
    with written.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
    try:
        _wait(process, written, ready)
        yield
    finally:
        _stop(process)


def listening(port: int) -> Callable[[], bool]:
    """Whether something takes connections on *port*."""

    def look() -> bool:
        with socket.socket() as one:
            one.settimeout(1.0)
            return one.connect_ex((HOST, port)) == 0

    return look


def _wait(process: subprocess.Popen[bytes], written: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _START_S
    while not ready():
        if process.poll() is not None:
            raise NotRun(f"{written.stem} ended with {process.returncode}: {_end_of(written)}")
        if time.monotonic() > deadline:
            raise NotRun(f"{written.stem} took no calls within {_START_S:.0f} s: {_end_of(written)}")
        time.sleep(0.05)


def _end_of(written: Path) -> str:
    return " ".join(written.read_text(errors="replace").split())[-_LOG_SHOWN:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
