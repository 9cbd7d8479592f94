"""The process that a crash round kills: it appends as fast as it can and journals every outcome.

A writer that is started again with the same number and journal goes on where the last one died. A *stamped*
one first sends again what it does not know the outcome of, by the same producer and sequences; a *plain* one and
a *producer* (which goes the whole way through `ottla.open`) leave that open and go on. Beside writers there may be a
janitor, which removes and compacts what they wrote.
"""

import random
import signal
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import ottla
from ottla.batch import Batch, Stamp, columns_of_values
from ottla.errors import StorageFailed, StorageFull
from ottla.model import Appended
from ottla.storage import Compactable, open_engine
from ottla.storage.disk import files as disk_files
from ottla.testing.checker import Mark, marked
from ottla.testing.faults import Fault, FaultyFiles, HastyPartition, skip_locks
from ottla.testing.journal import Journal, Line, progress_of, read_journal
from ottla.testing.samples import Sender

Mode = Literal["stamped", "plain", "producer"]
Sabotage = Literal["none", "skip locks", "acknowledge first"]


def write(
    url: str,
    topic: str,
    writers: dict[str, str],
    *,
    seed: int,
    mode: Mode = "stamped",
    fault: dict[str, Any] | None = None,
    sabotage: Sabotage = "none",
    appends: int = 100,
) -> None:
    """Write until killed, with a thread for each of *writers*: number and journal.

    Each rests after so many *appends*, lest a slow killer, on a busy machine, gets more than it can check.
    """
    _prepare(fault)
    if sabotage == "skip locks":
        skip_locks()
    run = _through_log if mode == "producer" else partial(_through_engine, stamped=mode == "stamped", hasty=sabotage)
    threads = [
        threading.Thread(target=run, args=(url, topic, int(number), Path(journal), seed, appends))
        for number, journal in writers.items()
    ]
    failures: list[BaseException] = []
    threading.excepthook = lambda failed: failures.append(failed.exc_value or SystemExit(1))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    while True:
        signal.pause()


def message(writer: int, sequence: int) -> bytes:
    """The value of a message: the same whenever it is asked for; mostly small, a few larger than a page."""
    size = 9000 if sequence % 97 == 96 else 20 + sequence * 7919 % 200
    return marked(Mark(writer, sequence), size)


class _Writer:
    """One writer's identity, its journal, and what it appends next."""

    def __init__(self, number: int, path: Path, seed: int, partitions: int) -> None:
        self._number = number
        self._sender = Sender.number(number)
        self._partitions = partitions
        self.random = random.Random(f"{seed} {number}")
        self.progress = progress_of(read_journal(path))
        self.journal = Journal(path)

    def plan(self) -> list[Line]:
        """One or two new batches for one partition, announced in the journal."""
        progress, partition = self.progress, self.random.randrange(self._partitions)
        planned = []
        for _ in range(self.random.choice((1, 1, 1, 2))):
            line = Line(
                "A", progress.sequence, self.random.choice((1, 2, 7, 30)), partition, self._next_batch(partition)
            )
            progress.sequence += line.length
            progress.batches[partition] = line.number + 1
            planned.append(line)
        self.journal.note(planned)
        return planned

    def _next_batch(self, partition: int) -> int:
        return self.progress.batches.get(partition, 0)

    def values(self, line: Line) -> list[bytes]:
        return [message(self._number, line.sequence + i) for i in range(line.length)]

    def batch(self, line: Line, *, stamped: bool) -> Batch:
        stamp = Stamp(self._sender.producer_id, self._sender.epoch, line.number) if stamped else None
        return Batch.pack(columns_of_values(self.values(line)), stamp=stamp)

    def acknowledge(self, planned: Sequence[Line], results: Sequence[Appended]) -> None:
        self.journal.note(
            line._replace(kind="K", number=result.first) for line, result in zip(planned, results, strict=True)
        )

    def refuse(self, planned: Sequence[Line]) -> None:
        """The log says that none of it is stored: the same batch sequences are used again, for other messages."""
        self.journal.note(line._replace(kind="R", number=0) for line in planned)
        self.progress.batches[planned[0].partition] = planned[0].number


def _through_engine(
    url: str, topic: str, number: int, path: Path, seed: int, appends: int, *, stamped: bool, hasty: Sabotage
) -> None:
    engine = open_engine(url)
    found = engine.topic(topic)
    partitions: list[Any] = [engine.partition(found, index) for index in range(found.settings.partitions)]
    if hasty == "acknowledge first":
        partitions = [HastyPartition(partition) for partition in partitions]
    writer = _Writer(number, path, seed, len(partitions))

    def append(planned: Sequence[Line]) -> None:
        batches = [writer.batch(line, stamped=stamped) for line in planned]
        try:
            results = partitions[planned[0].partition].append(batches)
        except (StorageFull, StorageFailed):
            writer.refuse(planned)
        else:
            writer.acknowledge(planned, results)

    if stamped and writer.progress.pending:
        append(writer.progress.pending)
    for _ in range(appends):
        append(writer.plan())


def _through_log(url: str, topic: str, number: int, path: Path, seed: int, appends: int) -> None:
    with ottla.open(url) as log, log.producer(topic, linger_ms=0) as producer:
        writer = _Writer(number, path, seed, len(log.describe(topic).partitions))
        for _ in range(appends):
            planned = writer.plan()
            futures = [
                (line, [producer.send(v, partition=line.partition) for v in writer.values(line)]) for line in planned
            ]
            for line, sent in futures:
                numbers = [future.result().number for future in sent]
                writer.journal.note(
                    Line("K", line.sequence + i, 1, line.partition, landed) for i, landed in enumerate(numbers)
                )


def tidy(url: str, topic: str, journal: str, *, seed: int, fault: dict[str, Any] | None = None) -> None:
    """Trim and compact until killed, leaving most of each partition."""
    _prepare(fault)
    engine = open_engine(url)
    found, chance, notes = engine.topic(topic), random.Random(seed), Journal(Path(journal))
    while True:
        index = chance.randrange(found.settings.partitions)
        partition = engine.partition(found, index)
        first, following = partition.bounds()
        before = first + chance.randint(0, (following - first) // 4)
        notes.note([Line("T", 0, 0, index, before)])
        partition.trim(before)
        if isinstance(partition, Compactable) and chance.random() < 0.5:
            partition.compact()


def _prepare(fault: dict[str, Any] | None) -> None:
    if fault is not None:
        disk_files.SYSTEM = FaultyFiles(Fault(**fault))
