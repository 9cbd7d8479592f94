"""A server that is killed with SIGKILL under load and started again: nothing acknowledged is lost or doubled.

`OTTLA_ROUNDS=100 pytest -m campaign tests/storage/remote/test_server_crash.py` kills it so many times.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.batch import Batch, Stamp, columns_of_values
from ottla.client.consumer import Consumer
from ottla.client.log import Log
from ottla.errors import Uncertain
from ottla.testing import run_rounds as run_crash_rounds
from ottla.testing.checker import History, Mark, Place, check, marked
from ottla.testing.servers import ServerProcess

CAMPAIGN_ROUNDS = int(os.environ.get("OTTLA_ROUNDS", "0"))
TOPIC = "deliveries"
PARTITIONS = 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Load:
    """Writers and readers, each a thread with a log of its own, and what they were told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []
        self.history = History()
        self.seen: dict[int, list[tuple[int, bytes | None]]] = {partition: [] for partition in range(PARTITIONS)}
        self.uncertain = 0

    def start(self, work: Callable[[Log, int], None]) -> None:
        """Do *work* again and again until the end."""
        number = len(self._threads)

        def run() -> None:
            try:
                with ottla.open(self._url) as log:
                    work(log, number)
            except BaseException as error:  # noqa: BLE001  (the test looks at them)
                self.errors.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _attempt(self, writer: int, first: int, count: int) -> list[bytes]:
        marks = [Mark(writer, first + n) for n in range(count)]
        with self._lock:
            self.history.attempted.update(marks)
        return [marked(mark, 40) for mark in marks]

    def _acknowledge(self, writer: int, sequence: int, partition: int, number: int) -> None:
        with self._lock:
            self.history.acknowledged[Mark(writer, sequence)] = Place(partition, number)

    def produce(self, log: Log, writer: int) -> None:
        """Through a producer, with many small batches on their way at once."""
        done = 0
        with log.producer(TOPIC, max_batch_bytes=2000, linger_ms=0, send_timeout="60s") as producer:
            while not self._stop.is_set():
                sent = [producer.send(value) for value in self._attempt(writer, done, 200)]
                for sequence, future in enumerate(sent, done):
                    landed = future.result()
                    self._acknowledge(writer, sequence, landed.partition, landed.number)
                done += len(sent)

    def append_stamped(self, log: Log, writer: int) -> None:
        """Straight to the engine: stamped batches are repeated by themselves."""
        store = log.handle(TOPIC).partition(writer % PARTITIONS)
        producer, done = os.urandom(16), 0
        while not self._stop.is_set():
            values = self._attempt(writer, done, 3)
            batch = Batch.pack(columns_of_values(values), stamp=Stamp(producer, 0, done // 3))
            (appended,) = store.append([batch])
            for n in range(3):
                self._acknowledge(writer, done + n, writer % PARTITIONS, appended.first + n)
            done += 3

    def append_plain(self, log: Log, writer: int) -> None:
        """Without a stamp an append that was on its way is uncertain, and nobody repeats it."""
        done = 0
        while not self._stop.is_set():
            try:
                (landed,) = log.append(TOPIC, self._attempt(writer, done, 2), partition=0)
            except Uncertain:
                self.uncertain += 1
            else:
                for n, number in enumerate(landed.numbers):
                    self._acknowledge(writer, done + n, 0, number)
            done += 2

    def consume(self, log: Log, _: int) -> None:
        """One group over all partitions, opened anew now and then at what it committed."""
        while not self._stop.is_set():
            with log.consumer(TOPIC, group="billing") as consumer:
                for _ in range(20):
                    self._poll(consumer)
                consumer.commit()

    def _poll(self, consumer: Consumer) -> None:
        messages, _ = consumer.poll(timeout=0.05)
        for message in messages:
            seen = self.seen[message.partition]
            assert message.number == len(seen) + 1, "positions are kept: nothing twice, nothing left out"
            seen.append((message.number, message.value))


def run_rounds(folder: Path, rounds: int, seed: int) -> None:
    choose = random.Random(seed)
    arguments = (f"file://{folder}/log", "--grpc", f"127.0.0.1:{free_port()}")
    server = ServerProcess(*arguments).wait_until_listening()
    url = f"grpc://{server.address}?timeout=60s"
    with ottla.open(url) as log:
        log.create_topic(TOPIC, partitions=PARTITIONS, segment_bytes="64KiB")
        load = Load(url)
        try:
            for work in (load.produce, load.produce, load.append_stamped, load.append_plain, load.consume):
                load.start(work)
            for _ in range(rounds):
                acknowledged = len(load.history.acknowledged)
                while len(load.history.acknowledged) < acknowledged + 500 and not load.errors:
                    time.sleep(0.01)
                time.sleep(choose.uniform(0, 0.2))
                server.kill()
                server.close()
                server = ServerProcess(*arguments).wait_until_listening()
        finally:
            load.stop()
        assert load.errors == []
        committed = log.committed("billing", TOPIC)
        server.kill()
        server.close()
        server = ServerProcess(*arguments).wait_until_listening()
        try:
            assert log.committed("billing", TOPIC) == committed
            read = {
                partition: [(message.number, message.value) for message in log.read(TOPIC, partition)]
                for partition in range(PARTITIONS)
            }
        finally:
            server.close()
    assert check(load.history, read, seen=load.seen) == []
    assert all(load.seen.values())


def test_a_server_killed_under_load(tmp_path: Path) -> None:
    """Producers, direct appends and a consumer group find it again by themselves."""
    run_rounds(tmp_path, 3, 1)


def test_clients_killed_at_random(tmp_path: Path) -> None:
    """What is left of their requests disturbs nobody, and what they were told is in the log."""
    with ServerProcess(f"file://{tmp_path}/log") as server:
        report = run_crash_rounds(f"grpc://{server.address}", rounds=12, writers=2, longest_ms=50)
    assert report.anomalies == []
    assert report.failures == []
    assert report.acknowledged <= report.kept <= report.attempted


@pytest.mark.campaign
@pytest.mark.skipif(not CAMPAIGN_ROUNDS, reason="set OTTLA_ROUNDS to say how many")
@pytest.mark.timeout(0)
def test_campaign(tmp_path: Path) -> None:
    run_rounds(tmp_path, CAMPAIGN_ROUNDS, CAMPAIGN_ROUNDS)
