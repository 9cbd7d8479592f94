"""The machine stops at any system call: what was acknowledged with `sync="always"` is there after the restart."""

import random
from pathlib import Path

import pytest

from ottla.errors import OttlaError
from ottla.storage import open_engine
from ottla.storage.disk import files as disk_files
from ottla.testing.checker import Anomaly, History, Mark, Place, check, marked
from ottla.testing.powercut import VolatileFiles
from ottla.testing.samples import Sender, messages_of, new_topic

ENGINES = ["file", "jsonl"]
WRITER = Sender.number(1)


class Machine:
    """A machine that appends, and pictures of its disk at random moments."""

    def __init__(self, scheme: str, folder: Path, seed: int, sync: str) -> None:
        self._scheme = scheme
        self._folder = folder
        self._chance = random.Random(seed)
        self._history = History()
        self._volatile = VolatileFiles(folder / "log", self._maybe_cut)
        self._armed = False
        self._batch = 0
        self._sent = 0
        self._trimmed = 1
        self.cuts = 0
        self.anomalies: list[Anomaly] = []
        self._system, disk_files.SYSTEM = disk_files.SYSTEM, self._volatile
        try:
            self._engine = open_engine(f"{scheme}://{folder / 'log'}")
        finally:
            disk_files.SYSTEM = self._system
        topic = new_topic(self._engine, sync=sync, segment_bytes="2KiB")
        self._partition = self._engine.partition(topic, 0)
        self._volatile.settle()

    def append(self, times: int) -> None:
        self._armed = True
        for _ in range(times):
            if self._chance.random() < 0.05:
                self._trimmed = self._chance.randint(self._trimmed, self._sent + 1)
                self._partition.trim(self._trimmed)
            marks = [Mark(1, self._sent + i) for i in range(self._chance.choice((1, 2, 9)))]
            self._sent += len(marks)
            self._history.attempted.update(marks)
            values = [marked(mark, self._chance.choice((20, 150, 900))) for mark in marks]
            (appended,) = self._partition.append([WRITER.batch(self._batch, *values)])
            self._batch += 1
            for i, mark in enumerate(marks):
                self._history.acknowledged[mark] = Place(0, appended.first + i)
        self._armed = False
        self._engine.close()

    def _maybe_cut(self) -> None:
        if self._armed and self._chance.random() < 0.25:
            self.cuts += 1
            target = self._folder / f"cut-{self.cuts}"
            self._volatile.cut(target, self._chance)
            self.anomalies += self._look(target)

    def _look(self, target: Path) -> list[Anomaly]:
        """Start the machine again: read, go on writing, read again."""
        system, disk_files.SYSTEM = disk_files.SYSTEM, self._system
        try:
            engine = open_engine(f"{self._scheme}://{target}")
            partition = engine.partition(engine.topic("deliveries"), 0)
            first, number = partition.bounds()
            read = [(m.number, m.value) for m in messages_of(partition)]
            found = check(self._history, {0: read}, first={0: min(first, self._trimmed)})
            again = partition.append([Sender.number(2).batch(0, marked(Mark(2, 0)))])
            after = [(m.number, m.value) for m in messages_of(partition)]
            if again != [(number, 1, False)] or after[-1] != (number, marked(Mark(2, 0))):
                found.append(Anomaly("moved", f"an append after the restart got {again} where {number} was next"))
            engine.close()
        except OttlaError as error:
            return [Anomaly("unreadable", str(error))]
        finally:
            disk_files.SYSTEM = system
        return found


@pytest.fixture(params=ENGINES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_acknowledged_is_lost(scheme: str, tmp_path: Path, seed: int) -> None:
    machine = Machine(scheme, tmp_path, seed, "always")
    machine.append(40)
    assert machine.anomalies == []
    assert machine.cuts > 20


@pytest.mark.parametrize("skipped", ["sync", "sync_folder"])
def test_a_skipped_sync_is_found(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipped: str) -> None:
    """The test can fail: an engine that leaves out either kind of sync loses what it acknowledged."""
    machine = Machine(scheme, tmp_path, 0, "always")
    monkeypatch.setattr(VolatileFiles, skipped, lambda *_: None)
    machine.append(60)
    assert machine.anomalies


def test_without_a_sync_it_would_be(scheme: str, tmp_path: Path) -> None:
    """A log that its settings leave unsynced loses what it acknowledged, and nothing else happens to it."""
    machine = Machine(scheme, tmp_path, 0, "never")
    machine.append(60)
    assert {anomaly.kind for anomaly in machine.anomalies} == {"lost"}
