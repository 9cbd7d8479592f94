"""Many threads wait for what comes in on one line, and take turns at reading it."""

import queue
import threading
import time
from collections.abc import Callable

import pytest

from ottla.storage.remote.relay import Relay

LONG_S = 60.0


class Line:
    """Brings names, one at a time; each thread waits for its own."""

    def __init__(self) -> None:
        self._incoming: queue.Queue[str | BaseException] = queue.Queue()
        self.lock = threading.Lock()
        self.relay = Relay(self.lock, self._step)
        self.came: set[str] = set()
        self.readers: set[threading.Thread] = set()
        self.reading = threading.Event()

    def bring(self, *names: str | BaseException) -> None:
        for name in names:
            self._incoming.put(name)

    def _step(self, timeout: float) -> None:
        self.readers.add(threading.current_thread())
        self.reading.set()
        try:
            name = self._incoming.get(timeout=min(timeout, 0.02))
        except queue.Empty:
            return
        if isinstance(name, BaseException):
            raise name
        with self.lock:
            self.came.add(name)
            self.relay.wake(name)

    def wait(self, name: str, seconds: float = LONG_S) -> bool:
        return self.relay.wait(name, lambda: name in self.came, time.monotonic() + seconds)


@pytest.fixture
def line() -> Line:
    return Line()


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_one_that_is_alone_reads_itself(line: Line) -> None:
    line.bring("a")
    assert line.wait("a")
    assert line.readers == {threading.current_thread()}


def test_what_is_there_needs_no_reading(line: Line) -> None:
    line.came.add("a")
    assert line.wait("a", 0)
    assert line.readers == set()


def test_the_time_runs_out(line: Line) -> None:
    assert not line.wait("a", 0.03)


def test_the_time_of_one_that_does_not_read_runs_out_too(line: Line) -> None:
    thread = started(lambda: line.wait("a"))
    assert line.reading.wait(LONG_S)
    assert not line.wait("b", 0.03)
    line.bring("a")
    thread.join()


def test_everybody_gets_what_it_waits_for_in_any_order(line: Line) -> None:
    names = [str(n) for n in range(30)]
    threads = [started(lambda name=name: line.wait(name)) for name in names]  # type: ignore[misc]
    line.bring(*reversed(names[10:]), *names[:10])
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive()


def test_another_takes_over_when_the_reader_has_its_own(line: Line) -> None:
    first = started(lambda: line.wait("a"))
    assert line.reading.wait(LONG_S)
    second = started(lambda: line.wait("b"))
    while not line.relay._waiting:
        time.sleep(0.001)
    line.bring("a")
    first.join(LONG_S)
    line.bring("b")
    second.join(LONG_S)
    assert line.readers == {first, second}


def test_another_takes_over_when_the_reader_is_interrupted(line: Line) -> None:
    def interrupted() -> None:
        with pytest.raises(KeyboardInterrupt):
            line.wait("a")

    first = started(interrupted)
    assert line.reading.wait(LONG_S)
    second = started(lambda: line.wait("b"))
    while not line.relay._waiting:
        time.sleep(0.001)
    line.bring(KeyboardInterrupt())
    first.join(LONG_S)
    line.bring("b")
    second.join(LONG_S)
    assert not second.is_alive()


def test_looking_whether_something_is_there_wakes_who_waits(line: Line) -> None:
    line.bring("a")
    line.relay.try_step()
    assert line.came == {"a"}
    line.relay.try_step()
