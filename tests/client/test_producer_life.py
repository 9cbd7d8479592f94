"""The producer across forks and at the end of its process: nothing is lost and nothing is sent twice (row W5)."""

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.lifetime import _finish_all
from ottla.client.producer import Producer
from ottla.clock import ManualClock
from ottla.errors import StorageFull
from ottla.log.topics import TopicHandle
from ottla.model import Topic
from ottla.storage import open_engine

PRELUDE = """
import atexit, multiprocessing, os, sys, threading, time
from ottla.batch import Messages
from ottla.client.producer import Producer
from ottla.clock import SystemClock
from ottla.errors import Closed
from ottla.log.topics import TopicHandle
from ottla.model import Topic
from ottla.storage import open_engine

class Printing(TopicHandle):
    def append(self, partition, batches, *, expected_next=None):
        who = "parent" if os.getpid() == PARENT else "child"
        for batch in batches:
            os.write(1, f"{who} {batch.columns().values.to_pylist()} {batch.header.sequence}\\n".encode())
        IDS.update(batch.header.producer_id for batch in batches)
        return super().append(partition, batches, expected_next=expected_next)

PARENT, IDS = os.getpid(), set()
engine = open_engine("memory:")
topic = Printing(engine, engine.create_topic(Topic(name="deliveries", id="0" * 32, created_ms=0)))

def producer(**options):
    return Producer(lambda: topic, clock=SystemClock(), **{"linger_ms": 600_000, **options})
"""


def printed(script: str) -> list[str]:
    """What a fresh interpreter prints, which must end well and complain of nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return sorted(ran.stdout.splitlines())


def test_unsent_messages_are_sent_at_the_end_of_the_interpreter() -> None:
    assert printed("producer().send(b'a'); kept = producer(); kept.send_many([b'b', b'c'])") == [
        "parent [b'a'] 0",
        "parent [b'b', b'c'] 0",
    ]


def test_the_end_of_the_interpreter_after_an_error_sends_them_too() -> None:
    script = PRELUDE + "producer().send(b'a'); sys.exit(3)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (3, "parent [b'a'] 0\n")


def test_a_forked_child_sends_only_its_own_messages_and_the_parent_its_own() -> None:
    assert printed(
        """
        p = producer()
        p.send(b"acknowledged").result()
        future = p.send(b"of the parent")
        child = os.fork()
        if not child:
            assert not future.done()
            try:
                future.result()
            except Closed as error:
                assert "parent process" in str(error)
            ids = set(IDS)
            assert p.send(b"of the child").result().number == 2
            assert IDS - ids, "the child is another producer"
            p.send(b"at the child's end")
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        assert future.result().number == 2
        """
    ) == [
        'child [b"at the child\'s end"] 1',
        "child [b'of the child'] 0",
        "parent [b'acknowledged'] 0",
        "parent [b'of the parent'] 1",
    ]


def test_what_was_sent_together_is_the_parents_too() -> None:
    assert printed(
        """
        from ottla.settings import TopicSettings
        os.write = lambda *_: None
        many = Topic(name="many", id="1" * 32, created_ms=0, settings=TopicSettings(partitions=4))
        topic = Printing(engine, engine.create_topic(many))
        p = producer()
        future = p.send_many([b"of the parent"] * 8)
        while p._outbox.sleeping_until < 0:
            time.sleep(0.001)
        child = os.fork()
        if not child:
            try:
                future.result()
            except Closed as error:
                os._exit(0 if "parent process" in str(error) else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert len(future.result()) == 4
        print("well")
        """
    ) == ["well"]


def test_a_child_of_multiprocessing_sends_what_it_took() -> None:
    assert printed(
        """
        p = producer()
        p.send(b"of the parent")
        child = multiprocessing.get_context("fork").Process(target=p.send, args=(b"of the child",))
        child.start()
        child.join()
        assert child.exitcode == 0
        """
    ) == ["child [b'of the child'] 0", "parent [b'of the parent'] 0"]


def test_a_fork_in_the_middle_of_sending_leaves_both_sides_working() -> None:
    """Locks that other threads hold at that moment, and threads that are gone in the child, harm nobody."""
    assert printed(
        """
        os.write = lambda *_: None
        p = producer(linger_ms=0)
        p.send(b"a").result()
        stop = threading.Event()
        def send_on():
            while not stop.is_set():
                p.send(b"a")
        threads = [threading.Thread(target=send_on) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            time.sleep(0.005)
            child = os.fork()
            if not child:
                try:
                    p._handle = TopicHandle(fresh := open_engine("memory:"), fresh.create_topic(
                        Topic(name="deliveries", id="1" * 32, created_ms=0)))
                    os._exit(0 if p.send(b"b").result(30).number == 1 else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads:
            thread.join()
        p.close()
        print("well")
        """
    ) == ["well"]


class Stuck(TopicHandle):
    """A topic whose appends hang until they are let go, and then fail."""

    def __init__(self, engine: Any, topic: Topic) -> None:
        super().__init__(engine, topic)
        self.gate = threading.Event()

    def append(self, partition: int, batches: Any, *, expected_next: int | None = None) -> Any:
        del partition, batches, expected_next
        assert self.gate.wait(60)
        raise StorageFull("deliveries/0")


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    engine = open_engine("memory:")
    handle = Stuck(engine, engine.create_topic(Topic(name="deliveries", id="0" * 32, created_ms=0)))
    yield handle
    handle.gate.set()


def test_the_end_of_a_process_waits_only_so_long(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says what was not stored, as nobody else will."""
    monkeypatch.setattr("ottla.client.lifetime.EXIT_S", 0.1)
    monkeypatch.setattr("ottla.client.sender._INLINE_S", 0.0)  # this thread would append by itself
    producer = Producer(lambda: stuck, clock=ManualClock())
    future = producer.send(b"a")
    _finish_all()
    assert "were not stored before the process ended" in caplog.text
    stuck.gate.set()
    assert isinstance(future.exception(), StorageFull)
    producer.close()


def test_the_end_of_a_process_logs_errors_that_nobody_saw(stuck: Stuck, caplog: pytest.LogCaptureFixture) -> None:
    stuck.gate.set()
    producer = Producer(lambda: stuck, clock=ManualClock())
    producer.send(b"a")
    _finish_all()
    assert "no space left" in caplog.text
    producer.close()


class Gated(TopicHandle):
    """A topic whose appends wait until they are let go."""

    def __init__(self, engine: Any, topic: Topic) -> None:
        super().__init__(engine, topic)
        self.gate = threading.Event()

    def append(self, partition: int, batches: Any, *, expected_next: int | None = None) -> Any:
        assert self.gate.wait(60)
        return super().append(partition, batches, expected_next=expected_next)


def test_what_waits_behind_a_long_append_is_sent_although_the_background_thread_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.sender._IDLE_S", 0.01)
    engine = open_engine("memory:")
    handle = Gated(engine, engine.create_topic(Topic(name="slow", id="0" * 32, created_ms=0)))
    stored = threading.Event()
    with Producer(lambda: handle, clock=ManualClock(), linger_ms=20) as producer:
        waiter = threading.Thread(target=producer.send(b"a").result)
        waiter.start()
        while not producer._outbox.lanes[0].busy:
            time.sleep(0.001)
        producer.send(b"b").add_done_callback(lambda _: stored.set())
        while any("slow" in thread.name for thread in threading.enumerate()):
            time.sleep(0.002)
        handle.gate.set()
        assert stored.wait(30)
        waiter.join()
    assert handle.bounds(0).next == 3


def test_an_idle_producer_keeps_no_thread_and_starts_one_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.sender._IDLE_S", 0.01)
    engine = open_engine("memory:")
    handle = TopicHandle(engine, engine.create_topic(Topic(name="quiet", id="0" * 32, created_ms=0)))
    with Producer(lambda: handle, clock=ManualClock(), linger_ms=1) as producer:
        for number in range(3):
            stored = threading.Event()
            producer.send(b"%d" % number).add_done_callback(lambda _, stored=stored: stored.set())  # type: ignore[misc]
            assert stored.wait(30)
            while any("quiet" in thread.name for thread in threading.enumerate()):
                time.sleep(0.002)
    assert handle.bounds(0).next == 4
