"""Several processes on one storage: writers, readers, waiting, and a fork in the middle of it."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.jobs import append_stamped, append_texts, count_up, read_texts
from ottla.testing.samples import Sender, batch_of, is_dense, messages_of, new_topic, numbers_of, values_of
from ottla.testing.workers import Workers

LONG_S = 60.0
FORKS = 12


class ProcessesContract(Contract):
    """Safe from many processes, where the engine says so; a fork is survived by every engine."""

    @pytest.fixture(scope="class")
    @classmethod
    def workers(cls) -> Iterator[Workers]:
        with Workers() as workers:
            yield workers

    def test_another_process_reads_what_was_acknowledged(self, shared_storage: Storage, workers: Workers) -> None:
        """What one process appended, another one reads."""
        engine = shared_storage.open()
        engine.partition(new_topic(engine), 0).append([batch_of(b"a", b"b"), batch_of(b"c")])
        assert workers.start(read_texts, url=shared_storage.url).result() == ["a", "b", "c"]

    def test_processes_append_together(self, shared_storage: Storage, workers: Workers) -> None:
        """Four processes on one partition: dense, each in its own order, at the numbers that each was told."""
        partition = _partition(shared_storage.open(), segment_bytes="8KiB")
        running = [workers.start(append_texts, url=shared_storage.url, name=f"{n}", times=40) for n in range(4)]
        told = [worker.result() for worker in running]
        messages = messages_of(partition)
        assert [message.number for message in messages] == list(range(1, 4 * 40 * 2 + 1))
        for n, numbers in enumerate(told):
            own = [message for message in messages if message.value and message.value.startswith(b"%d:" % n)]
            assert [message.value for message in own] == [
                b"%d:%d:%s" % (n, i, x) for i in range(40) for x in (b"a", b"b")
            ]
            assert [message.number for message in own[::2]] == numbers

    def test_a_reader_beside_another_process(self, shared_storage: Storage, workers: Workers) -> None:
        """A reader that follows the tail of a log that another process writes sees a dense prefix."""
        engine = shared_storage.open()
        partition = _partition(engine, segment_bytes="4KiB")
        writer = workers.start(append_texts, url=shared_storage.url, name="0", times=100)
        seen: list[int] = []
        while len(seen) < 200:
            assert engine.wait({partition: len(seen) + 1}, LONG_S)
            seen += numbers_of(partition, len(seen) + 1)
            assert is_dense(seen)
        assert seen == list(range(1, 201))
        writer.result()

    def test_an_append_in_another_process_ends_the_wait(self, shared_storage: Storage, workers: Workers) -> None:
        """A reader at the tail is woken by another process."""
        engine = shared_storage.open()
        partition = _partition(engine)
        worker = workers.start(append_texts, url=shared_storage.url, name="0", times=1)
        assert engine.wait({partition: 1}, LONG_S)
        worker.result()

    def test_a_retry_from_another_process(self, shared_storage: Storage, workers: Workers) -> None:
        """A stamped batch is recognised whichever process sends it again."""
        partition = _partition(shared_storage.open())
        partition.append([batch_of(b"before"), Sender.number(7).batch(0)])
        assert workers.start(append_stamped, url=shared_storage.url, sender=7, sequence=0).result() == [2, True]
        assert workers.start(append_stamped, url=shared_storage.url, sender=7, sequence=1).result() == [3, False]
        assert partition.append([Sender.number(7).batch(1)]) == [(3, 1, True)]

    def test_metadata_is_shared(self, shared_storage: Storage, workers: Workers) -> None:
        """Processes that change the same metadata by compare-and-swap lose no update."""
        running = [workers.start(count_up, url=shared_storage.url, times=20) for _ in range(3)]
        for worker in running:
            worker.result()
        loaded = shared_storage.open().load("counter")
        assert loaded is not None
        assert loaded.data == b"60"

    def test_parent_and_child_append_after_a_fork(self, engine: Engine, partition: PartitionStore) -> None:
        """A fork while other threads append: the child is not stuck in their locks, and both go on."""
        batch_of(b"")  # Arrow imports pandas at its first conversion: a fork in the middle of that ends badly
        stop = threading.Event()
        threads = [threading.Thread(target=_append_until, args=(partition, stop)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            codes = [_in_child(lambda: _append_and_check(engine, partition)) for _ in range(FORKS)]
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert codes == [0] * FORKS
        partition.append([batch_of(b"the parent goes on")])
        numbers = numbers_of(partition)
        assert numbers == list(range(1, len(numbers) + 1))
        children = values_of(partition).count(b"child")
        assert children == (FORKS * 10 if self.shared_between_processes else 0)

    def test_a_child_may_close_what_it_inherited(self, engine: Engine, partition: PartitionStore) -> None:
        """Closing the engine in a child takes nothing from the parent."""
        partition.append([batch_of(b"a")])
        assert _in_child(engine.close) == 0
        partition.append([batch_of(b"b")])
        assert values_of(partition) == [b"a", b"b"]

    def test_waiting_after_a_fork(self, engine: Engine, partition: PartitionStore) -> None:
        """A child of a process whose threads wait can wait and append by itself."""
        with _waiter(engine, partition):
            assert _in_child(lambda: _wait_and_append(engine, partition)) == 0
            partition.append([batch_of(b"x")])


class _waiter:  # noqa: N801  (used like a function)
    """A thread that waits while the block runs."""

    def __init__(self, engine: Engine, partition: PartitionStore) -> None:
        self._thread = threading.Thread(target=engine.wait, args=({partition: partition.bounds().next}, LONG_S))

    def __enter__(self) -> None:
        self._thread.start()
        time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def _partition(engine: Engine, **settings: str) -> PartitionStore:
    return engine.partition(new_topic(engine, **settings), 0)


def _append_until(partition: PartitionStore, stop: threading.Event) -> None:
    while not stop.is_set():
        partition.append([batch_of(b"parent")])


def _append_and_check(engine: Engine, partition: PartitionStore) -> None:
    other = engine.partition(engine.topic("deliveries"), 0)
    for store in (partition, other):
        for _ in range(5):
            (appended,) = store.append([batch_of(b"child")])
            batch = store.read(appended.first, 1)[0]  # not all that follows: the parent's threads never pause
            assert (batch.first_number, batch.columns().values.to_pylist()) == (appended.first, [b"child"])


def _wait_and_append(engine: Engine, partition: PartitionStore) -> None:
    number = partition.bounds().next
    assert not engine.wait({partition: number}, 0.01)
    partition.append([batch_of(b"child")])
    assert engine.wait({partition: number}, LONG_S)


def _in_child(work: Callable[[], object]) -> int:
    """Run *work* in a fork of this very process, threads and all; 0 if it went well, -14 if it got stuck."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
