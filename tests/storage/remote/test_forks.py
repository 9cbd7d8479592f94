"""A log on a server, used across forks: parent and child go on with the same object, each on its own connection."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla.testing.servers import ServerProcess


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory:") as server:
        yield server


@pytest.fixture
def log(server: ServerProcess) -> Iterator[ottla.Log]:
    with ottla.open(f"grpc://{server.address}") as log:
        log.create_topic("deliveries")
        yield log
        log.delete_topic("deliveries")


def in_child(work: Callable[[], object]) -> int:
    """Run *work* in a fork of this process; 0 if it went well, -14 if it got stuck."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def values(log: ottla.Log) -> list[bytes | None]:
    return log.read("deliveries").values()


def test_parent_and_child_append_and_read_through_the_same_log(log: ottla.Log) -> None:
    log.append("deliveries", [b"parent"])

    def child() -> None:
        log.append("deliveries", [b"child"])
        assert values(log)[-1] == b"child"

    for n in range(1, 6):
        assert in_child(child) == 0
        log.append("deliveries", [b"parent"])
        assert values(log) == [b"parent"] + [b"child", b"parent"] * n


def test_a_producer_goes_on_in_both(log: ottla.Log) -> None:
    with log.producer("deliveries") as producer:
        producer.send(b"parent").result()

        def child() -> None:
            producer.send(b"child").result()
            producer.close()

        assert in_child(child) == 0
        producer.send(b"parent").result()
    assert values(log) == [b"parent", b"child", b"parent"]


def test_a_consumer_goes_on_in_both(log: ottla.Log) -> None:
    log.append("deliveries", [b"%d" % n for n in range(10)])
    with log.consumer("deliveries") as consumer:
        assert len(consumer.poll(max_messages=3)[0]) == 3

        def child() -> None:
            messages, _ = consumer.poll()
            assert [message.number for message in messages] == list(range(4, 11))
            log.append("deliveries", [b"more"])
            assert len(consumer.poll(timeout=10)[0]) == 1

        assert in_child(child) == 0
        assert len(consumer.poll()[0]) == 7 or len(consumer.poll()[0]) == 1


def test_what_the_child_closes_the_parent_keeps(log: ottla.Log) -> None:
    log.append("deliveries", [b"a"])
    assert in_child(log.close) == 0
    log.append("deliveries", [b"b"])
    assert values(log) == [b"a", b"b"]


def _append_in_process(url: str, log: ottla.Log | None) -> None:
    """Through the inherited log, or through one that is opened after the fork."""
    opened = log or ottla.open(url)
    opened.append("deliveries", [b"child"])
    opened.close()


@pytest.mark.parametrize("inherited", [True, False])
def test_processes_of_multiprocessing(log: ottla.Log, server: ServerProcess, inherited: bool) -> None:
    log.append("deliveries", [b"parent"])
    context = multiprocessing.get_context("fork")
    arguments = (f"grpc://{server.address}", log if inherited else None)
    processes = [context.Process(target=_append_in_process, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    log.append("deliveries", [b"parent"])
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert sorted(value or b"" for value in values(log)) == [b"child"] * 3 + [b"parent"] * 2


def test_a_grandchild(log: ottla.Log) -> None:
    log.append("deliveries", [b"a"])

    def child() -> None:
        log.append("deliveries", [b"b"])
        assert in_child(lambda: log.append("deliveries", [b"c"])) == 0
        log.append("deliveries", [b"d"])

    assert in_child(child) == 0
    assert values(log) == [b"a", b"b", b"c", b"d"]
