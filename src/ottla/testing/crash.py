"""Crash rounds: writer processes are killed, the log is opened again, and the checker compares.

In each round some processes write to one topic and are killed with SIGKILL: at a random moment, one after another
or all at once, or by themselves at a chosen system call. Then a fresh engine reads everything. Rounds accumulate in
a topic, so that every writer meets what its killed predecessor left. A janitor process may trim and compact beside
them, and is killed as they are. A reader that stays open throughout looks on: what it saw must never change.
"""

import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ottla.errors import OttlaError
from ottla.storage import Engine, PartitionStore, open_engine
from ottla.testing.checker import Anomaly, History, check
from ottla.testing.crash_writer import Mode, Sabotage, tidy, write
from ottla.testing.faults import Fault
from ottla.testing.journal import add_to_history, read_journal
from ottla.testing.samples import messages_of, new_topic
from ottla.testing.workers import Worker, Workers

KILLED = -9
SETTINGS = {"partitions": 2, "segment_bytes": "16KiB"}
"""Small segments, so that rolling is as likely to be hit as writing."""

Seen = dict[int, list[tuple[int, bytes | None]]]


@dataclass(slots=True)
class Report:
    """What the rounds did and found. Sound is: no anomalies, no failures."""

    rounds: int = 0
    killed: int = 0
    attempted: int = 0
    acknowledged: int = 0
    faults: int = 0
    """How many processes died at the call that they were to die at."""
    kept: int = 0
    """Messages in the log at the end of each topic."""
    anomalies: list[Anomaly] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Errors that processes ended with, other than by being killed."""

    @property
    def sound(self) -> bool:
        return not self.anomalies and not self.failures


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is the same in every round."""

    url: str
    writers: int
    threads: int
    mode: Mode
    janitor: bool
    sabotage: Sabotage
    longest_ms: float
    workers: Workers
    random: random.Random


def run_rounds(
    url: str,
    *,
    rounds: int = 200,
    writers: int = 1,
    threads: int = 1,
    mode: Mode = "stamped",
    janitor: bool = False,
    faults: Sequence[Fault] = (),
    sabotage: Sabotage = "none",
    rounds_per_topic: int = 20,
    longest_ms: float = 20.0,
    settings: Mapping[str, Any] = SETTINGS,
    seed: int = 0,
    workers: Workers | None = None,
) -> Report:
    """Run *rounds* on the log at *url*, until the first that finds something.

    With *faults*, each round gives one of them, in turn, to one of its processes, which dies by it if it gets there:
    the janitor, if there is one, or else a writer.
    The same *seed* makes the same choices, though not the same timing.
    """
    report = Report()
    with ExitStack() as stack:
        plan = _Plan(
            url=url, writers=writers, threads=threads, mode=mode, janitor=janitor, sabotage=sabotage,
            longest_ms=longest_ms, workers=workers or stack.enter_context(Workers()), random=random.Random(seed),
        )  # fmt: skip
        while report.rounds < rounds and report.sound:
            name = f"crash-{seed}-{report.rounds}"
            with _Life(plan, name, settings) as life:
                until = min(report.rounds + rounds_per_topic, rounds)
                while report.rounds < until and report.sound:
                    life.round(report, faults[report.rounds % len(faults)] if faults else None)
                life.add_up(report)
    return report


class _Life:
    """One topic, from its creation through the rounds that it sees."""

    def __init__(self, plan: _Plan, topic: str, settings: Mapping[str, Any]) -> None:
        self._plan = plan
        self._topic = topic
        self._watcher = open_engine(plan.url)
        new_topic(self._watcher, topic, **settings)
        self._folder = tempfile.TemporaryDirectory(prefix="ottla-crash-")
        self._seen: Seen = {}
        self._unreadable: list[Anomaly] = []
        self._history = History()
        self._kept = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        self._watcher.close()
        self._folder.cleanup()

    def round(self, report: Report, fault: Fault | None) -> None:
        plan = self._plan
        before = [self._size(number) for number in range(plan.writers)]
        to_writer = None if plan.janitor else fault
        running = [self._start(number, to_writer if number == 0 else None) for number in range(plan.writers)]
        self._await_first_lines(running, before)
        if plan.janitor:
            running.insert(0, self._start_janitor(fault))
        if fault is not None and fault.dies:
            self._watch(running[0], 10_000.0)
            report.faults += running[0].status() == KILLED
        for worker in plan.random.sample(running, len(running)):
            self._watch(worker, plan.random.choice((0.0, plan.random.uniform(0, plan.longest_ms))))
            worker.kill()
        for worker in running:
            if worker.status() != KILLED:
                report.failures.append(f"a process ended with {worker.status()}: {worker.error()}")
        report.rounds += 1
        report.killed += len(running)
        report.anomalies += self._check()

    def _start(self, number: int, fault: Fault | None) -> Worker:
        plan = self._plan
        return plan.workers.start(
            write,
            url=plan.url,
            topic=self._topic,
            writers={str(writer): str(path) for writer, path in self._journals(number)},
            seed=plan.random.randrange(2**31),
            mode=plan.mode,
            fault=None if fault is None else fault.to_json(),
            sabotage=plan.sabotage,
        )

    def _start_janitor(self, fault: Fault | None) -> Worker:
        return self._plan.workers.start(
            tidy,
            url=self._plan.url,
            topic=self._topic,
            journal=str(self._janitors_journal),
            seed=self._plan.random.randrange(2**31),
            fault=None if fault is None else fault.to_json(),
        )

    @property
    def _janitors_journal(self) -> Path:
        return Path(self._folder.name, "janitor")

    def _journals(self, number: int) -> list[tuple[int, Path]]:
        """The writers, one for each thread, of the process of that number."""
        first = number * self._plan.threads + 1
        return [(writer, Path(self._folder.name, str(writer))) for writer in range(first, first + self._plan.threads)]

    def _size(self, number: int) -> int:
        return sum(path.stat().st_size for _, path in self._journals(number) if path.exists())

    def _await_first_lines(self, running: Sequence[Worker], before: Sequence[int]) -> None:
        """Until every process has begun to write, or has died: killing them earlier shows nothing."""
        deadline = time.monotonic() + 30.0
        for number, worker in enumerate(running):
            while self._size(number) == before[number] and worker.status() is None and time.monotonic() < deadline:
                time.sleep(0.0005)

    def _watch(self, worker: Worker, milliseconds: float) -> None:
        """Read along for a while, or until the worker is dead."""
        deadline = time.monotonic() + milliseconds / 1000
        while (left := deadline - time.monotonic()) > 0 and worker.status() is None:
            self._see()
            time.sleep(min(left, 0.002))

    def _see(self) -> None:
        starts = {partition: messages[-1][0] + 1 for partition, messages in self._seen.items() if messages}
        try:
            for partition, messages in _everything(self._watcher, self._topic, starts):
                self._seen.setdefault(partition, []).extend(messages)
        except OttlaError as error:
            self._unreadable.append(Anomaly("unreadable", str(error)))

    def _check(self) -> list[Anomaly]:
        self._history = History()
        for number in range(self._plan.writers):
            for writer, path in self._journals(number):
                add_to_history(self._history, writer, read_journal(path))
        try:
            with _opened(self._plan.url) as engine:
                read = dict(_everything(engine, self._topic, {}))
                first = {index: part.bounds().first for index, part in _partitions(engine, self._topic)}
        except OttlaError as error:
            return [*self._unreadable, Anomaly("unreadable", str(error))]
        self._kept = sum(map(len, read.values()))
        return self._unreadable + self._too_much(first) + check(self._history, read, seen=self._seen, first=first)

    def _too_much(self, first: Mapping[int, int]) -> list[Anomaly]:
        """Partitions of which more is gone than the janitor ever tried to remove."""
        lines = read_journal(self._janitors_journal)
        allowed = {index: max([1, *(line.number for line in lines if line.partition == index)]) for index in first}
        return [
            Anomaly("lost", f"partition {index} starts at {first[index]}, and nobody removed more than to {most}")
            for index, most in allowed.items()
            if first[index] > most
        ]

    def add_up(self, report: Report) -> None:
        report.attempted += len(self._history.attempted)
        report.acknowledged += len(self._history.acknowledged)
        report.kept += self._kept


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url, read_only=True)
    try:
        yield engine
    finally:
        engine.close()


def _everything(
    engine: Engine, name: str, starts: Mapping[int, int]
) -> Iterator[tuple[int, list[tuple[int, bytes | None]]]]:
    for index, partition in _partitions(engine, name):
        messages = messages_of(partition, starts.get(index, 1))
        yield index, [(message.number, message.value) for message in messages]


def _partitions(engine: Engine, name: str) -> Iterator[tuple[int, PartitionStore]]:
    topic = engine.topic(name)
    for index in range(topic.settings.partitions):
        yield index, engine.partition(topic, index)
