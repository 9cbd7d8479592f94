"""The gate that a fork waits at: nobody is inside when it happens, and it comes through however busy others are."""

import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.disk import forks
from ottla.storage.disk.files import Files
from ottla.storage.disk.forks import _Gate
from ottla.storage.disk.handles import OpenFiles

WAIT_S = 20


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def waiting(gate: _Gate) -> None:
    """Until somebody waits to close the gate."""
    deadline = time.monotonic() + WAIT_S
    while not gate._closing:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def close_and_open(gate: _Gate) -> None:
    gate.close()
    gate.open()


def enter_and_tell(gate: _Gate, entered: threading.Event) -> None:
    with gate:
        entered.set()


@pytest.fixture
def gate() -> _Gate:
    return _Gate()


def test_closing_waits_for_those_inside(gate: _Gate) -> None:
    gate.enter()
    closer = started(gate.close)
    waiting(gate)
    closer.join(0.02)
    assert closer.is_alive()
    gate.leave()
    closer.join(WAIT_S)
    assert not closer.is_alive()


def test_while_one_waits_to_close_nobody_new_comes_in(gate: _Gate) -> None:
    """Otherwise busy threads, of which one is always inside, would keep a fork waiting for ever."""
    entered = threading.Event()
    gate.enter()
    closer = started(lambda: close_and_open(gate))
    waiting(gate)
    late = started(lambda: enter_and_tell(gate, entered))
    assert not entered.wait(0.05)
    gate.leave()
    assert entered.wait(WAIT_S)
    closer.join(WAIT_S)
    late.join(WAIT_S)


def test_who_is_inside_may_go_deeper(gate: _Gate) -> None:
    """Or the one inside would wait for the fork, and the fork for the one inside."""
    gate.enter()
    closer = started(lambda: close_and_open(gate))
    waiting(gate)
    with gate:
        pass
    gate.leave()
    closer.join(WAIT_S)
    assert not closer.is_alive()


def test_a_fork_waits_while_a_file_is_opened(tmp_path: Path) -> None:
    """A child closes what it inherits, so it must know every descriptor: none is opened but not yet noted."""
    opening, go_on = threading.Event(), threading.Event()

    class Slow(Files):
        def open(self, path: Path, flags: int) -> int:
            fd = super().open(path, flags)
            opening.set()
            go_on.wait(WAIT_S)
            return fd

    (tmp_path / "x").touch()
    handles = OpenFiles(Slow(), os.O_RDONLY)
    opener = started(lambda: handles.get(tmp_path / "x"))
    assert opening.wait(WAIT_S)
    codes: list[int] = []
    forker = started(lambda: codes.append(open_in_child(tmp_path / "x")))
    waiting(forks.unforkable)
    go_on.set()
    opener.join(WAIT_S)
    forker.join(WAIT_S)
    assert codes == [0]


def open_in_child(path: Path) -> int:
    """How often the file is open in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what is tested
        pid = os.fork()
    if pid == 0:
        links = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        os._exit(links.count(path))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
