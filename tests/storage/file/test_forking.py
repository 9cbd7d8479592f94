"""Forks: a child lets go of what it inherited, so that no lock lives on in it, and both go on."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.file.partition import FilePartition
from ottla.testing.faults import die
from ottla.testing.filelog import FileLog
from ottla.testing.samples import Sender, batch_of, values_of
from ottla.testing.steps import Unsynced

ALARM_S = 20


def in_child(work: Callable[[], object]) -> int:
    return ended(forked(work))


def forked(work: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, which is what is tested
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(ALARM_S)
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_parent_and_child_append(log: FileLog) -> None:
    """With the handles that the parent opened, and each other's batches known."""
    partition = log.create(segment_bytes="500B")
    partition.append([Sender.number(1).batch(0)])

    def child() -> None:
        assert partition.append([Sender.number(1).batch(0)]) == [(1, 1, True)]
        for n in range(1, 20):
            partition.append([Sender.number(1).batch(n)])
        assert len(values_of(partition)) == 20

    assert in_child(child) == 0
    assert partition.append([Sender.number(1).batch(19)]) == [(20, 1, True)]
    assert partition.append([batch_of(b"parent")])[0].first == 21
    assert len(values_of(partition)) == 21


def test_a_child_has_none_of_its_parents_files_open(log: FileLog) -> None:
    partition = log.create(segment_bytes="300B")
    for _ in range(10):
        partition.append([batch_of(b"x" * 100)])
    partition.compact()
    values_of(partition)
    root = str(log.root)

    def child() -> None:
        links = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
        assert [link for link in links if link.startswith(root)] == []
        assert len(values_of(partition)) == 10

    assert in_child(child) == 0


class Stopping(Unsynced):
    """Stops in the middle of a commit: tells, then waits until it is told to go on."""

    def __init__(self) -> None:
        self.armed = False
        self.deadly = False
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def sync(self, fd: int) -> None:
        if self.deadly:
            die()
        if self.armed:
            self.armed = False
            self.reached.set()
            self.go_on.wait(ALARM_S)
        super().sync(fd)


def test_a_fork_waits_for_the_commit_of_another_thread(log: FileLog) -> None:
    files = Stopping()
    partition = log.create(files=files)
    partition.append([batch_of(b"a")])
    files.armed = True
    appender = threading.Thread(target=partition.append, args=([batch_of(b"b")],))
    appender.start()
    assert files.reached.wait(ALARM_S)
    codes: list[int] = []
    forker = threading.Thread(target=lambda: codes.append(in_child(lambda: check_appends(partition))))
    forker.start()
    time.sleep(0.05)
    assert not codes
    files.go_on.set()
    forker.join()
    appender.join()
    assert codes == [0]
    assert values_of(partition) == [b"a", b"b", b"child"]


def check_appends(partition: FilePartition) -> None:
    partition.append([batch_of(b"child")])


def test_a_killed_parent_leaves_no_lock_behind_in_its_child(log: FileLog, tmp_path: Path) -> None:
    """The parent dies in the middle of a commit, while a child that it forked lives on: others can still append."""
    log.create().append([batch_of(b"a")])
    log.close()
    told = tmp_path / "grandchild"

    def parent() -> None:
        files = Stopping()
        partition = log.partition(files=files)
        partition.append([batch_of(b"b")])
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(ALARM_S)
            time.sleep(ALARM_S)
            os._exit(0)
        told.write_text(str(grandchild))
        files.deadly = True
        partition.append([batch_of(b"never acknowledged")])

    assert in_child(parent) == -signal.SIGKILL
    grandchild = int(told.read_text())
    try:
        assert Path(f"/proc/{grandchild}").exists()
        assert in_child(lambda: check_appends(log.partition())) == 0
    finally:
        os.kill(grandchild, signal.SIGKILL)
    assert values_of(log.partition()) == [b"a", b"b", b"child"]


def test_a_fork_is_not_starved_by_busy_appenders(log: FileLog) -> None:
    """However busy the other threads are, forks come through, and their children work."""
    partition = log.create(sync="never")
    stop = threading.Event()

    def append() -> None:
        while not stop.is_set():
            partition.append([batch_of(b"x")])

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        codes = [in_child(lambda: check_appends(partition)) for _ in range(20)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 20
    assert values_of(partition).count(b"child") == 20


def test_a_fork_while_runs_are_read(log: FileLog) -> None:
    """A child is not stuck in what another thread of its parent was reading."""
    partition = log.create(segment_bytes="2KiB", sync="never")
    for n in range(100):
        partition.append([batch_of(b"%d" % n * 20)])
    partition.compact()
    expected = values_of(partition)
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            partition.start_afresh()
            values_of(partition)

    def child() -> None:
        assert values_of(partition) == expected

    thread = threading.Thread(target=read)
    thread.start()
    try:
        assert [in_child(child) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        thread.join()


def test_a_child_of_a_compacting_parent(log: FileLog) -> None:
    """It does not hold the compaction's lock, and does not end it."""
    partition = log.create(segment_bytes="300B")
    for n in range(20):
        partition.append([batch_of(b"%d" % n * 50)])
    codes: list[int] = []

    def child() -> None:
        assert log.partition().compact().messages == 0
        assert len(values_of(partition)) == 20

    def progress(_: int) -> None:
        if not codes:
            codes.append(in_child(child))

    assert partition.compact(progress=progress).messages > 0
    assert codes == [0]


@pytest.mark.parametrize("sync", ["interval", "always"])
def test_threads_are_started_again_in_the_child(log: FileLog, sync: str) -> None:
    """A child of a process whose syncs run in the background has its own."""
    partition = log.create(sync=sync, sync_interval="1ms")
    partition.append([batch_of(b"a")])

    def child() -> None:
        partition.append([batch_of(b"b")])
        deadline = time.monotonic() + ALARM_S
        while (control := partition.control()) is None or control.synced < control.end:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    assert in_child(child) == 0
