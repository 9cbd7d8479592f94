"""The machine stops at any system call of anything that changes a log, beside killed processes and failed syncs.

What was acknowledged is there after the restart, what was refused is not, and what was never answered may be.
"""

import random
import shutil
from collections.abc import Callable

import pytest

from ottla.clock import ManualClock
from ottla.errors import StorageFailed
from ottla.storage.file.partition import FilePartition
from ottla.testing.filelog import FileLog
from ottla.testing.powercut import VolatileFiles
from ottla.testing.samples import batch_of, messages_of

Values = list[bytes | None]
CUTS = 0.15
"""The chance that the power goes at a call."""


class Killed(BaseException):
    """The process ends here; its files are what they are, and its locks are gone."""


class Disk(VolatileFiles):
    """A volatile disk, whose users can be killed, and whose syncs can fail."""

    kill_in = 0
    fail_in = 0
    deadly = False

    def sync(self, fd: int) -> None:
        if self.deadly:
            raise Killed
        if self.fail_in and str(self._paths.get(fd, "")).endswith(".log"):
            self.fail_in -= 1
            if not self.fail_in:
                self._before()
                raise OSError(5, "Input/output error")
        super().sync(fd)


class Machine:
    """A program that appends, trims and compacts, and what it knows of its log."""

    def __init__(self, log: FileLog, clock: ManualClock, seed: int) -> None:
        self._log, self._clock, self._chance = log, clock, random.Random(seed)
        self._disk = Disk(log.root, self._before)
        self._armed = False
        self.cuts = 0
        self._acknowledged: Values = []
        self._under_way: list[Values] = []
        """Appends that nobody answered: the one that runs now, and those whose process was killed."""
        self._trimmed = (1, 1)
        """The lowest and the highest that the first number may be."""
        self._partition = log.create(files=self._disk, segment_bytes="700B")
        self._disk.settle()

    def run(self, steps: int) -> None:
        self._armed = True
        for number in range(steps):
            self._clock.advance(self._chance.choice([0, 1, 5]))
            trouble = self._chance.random()
            self._disk.kill_in = self._chance.randrange(1, 14) if trouble < 0.2 else 0
            self._disk.fail_in = self._chance.randrange(1, 3) if trouble > 0.8 else 0
            step = self._chance.choice([self._append] * 7 + [self._trim, self._compact])
            self._survive(step, number)
        self._armed = False

    def _survive(self, step: Callable[[int], None], number: int) -> None:
        try:
            step(number)
        except Killed:
            self._disk.kill_in = 0
            self._partition = self._log.partition(files=self._disk)
            self._take_stock()
        except StorageFailed:
            self._under_way = [values for values in self._under_way if values is not self._under_way[-1]]
            assert visible(self._partition) == self._acknowledged[self._partition.bounds().first - 1 :]

    def _append(self, number: int) -> None:
        batches = []
        for i in range(self._chance.choice([1, 2, 5])):
            size = self._chance.choice([1, 30])
            batches.append(batch_of(*(b"%d:%d:%d" % (number, i, j) * size for j in range(self._chance.choice([1, 3])))))
        self._under_way.append([value for batch in batches for value in batch.columns().values.to_pylist()])
        self._partition.append(batches)
        self._acknowledged += self._under_way[-1]
        self._under_way = []

    def _trim(self, _: int) -> None:
        before = max(len(self._acknowledged) - self._chance.randrange(15), 1)
        self._trimmed = (self._trimmed[0], max(self._trimmed[1], before))
        self._partition.trim(before)

    def _compact(self, _: int) -> None:
        self._partition.compact()

    def _take_stock(self) -> None:
        """After a kill: what the killed one published counts, whether it told anybody or not."""
        first = self._partition.bounds().first
        seen, known = visible(self._partition), self._acknowledged[first - 1 :]
        assert seen[: len(known)] == known
        published = seen[len(known) :]
        if published:
            assert published == self._under_way[-1]
            self._acknowledged, self._under_way = self._acknowledged + published, []

    def _before(self) -> None:
        if self._armed and self._chance.random() < CUTS:
            self.cuts += 1
            self._look()
        if self._disk.kill_in:
            self._disk.kill_in -= 1
            if not self._disk.kill_in:
                raise Killed

    def _look(self) -> None:
        """Start the machine again: look, go on, look again."""
        target = self._log.root.with_name("restarted")
        shutil.rmtree(target, ignore_errors=True)
        self._disk.cut(target, self._chance)
        restarted = FileLog(target, self._clock)
        partition = restarted.partition()
        first, number = partition.bounds()
        assert self._trimmed[0] <= first <= self._trimmed[1]
        seen, known = visible(partition), self._acknowledged[first - 1 :]
        assert seen[: len(known)] == known
        assert len(seen) == number - first
        more = seen[len(known) :]
        assert not more or any(more == values[: len(more)] for values in self._under_way)
        assert partition.append([batch_of(b"after")])[0].first == number
        partition.compact()
        assert visible(partition) == [*seen, b"after"]
        assert list(restarted.open(read_only=True).verify()) == []
        restarted.close()


def visible(partition: FilePartition) -> Values:
    return [message.value for message in messages_of(partition)]


@pytest.mark.parametrize("seed", range(6))
def test_at_any_call_of_anything(quick_log: FileLog, clock: ManualClock, seed: int) -> None:
    machine = Machine(quick_log, clock, seed)
    machine.run(40)
    assert machine.cuts > 20


def test_a_trim_that_is_not_durable_yet_loses_no_files(quick_log: FileLog) -> None:
    """Killed before `control` was synced, then a roll by somebody else: not before that is durable do files go."""
    log, restarts = quick_log, 0

    def restart() -> None:
        nonlocal restarts
        for seed in range(5):
            restarts += 1
            target = log.root.with_name(f"cut-{restarts}")
            disk.cut(target, random.Random(seed))
            restarted = FileLog(target, log.clock)
            assert len(visible(restarted.partition())) in {2, 3, 10, 11}
            restarted.close()

    disk = Disk(log.root)
    partition = log.create(files=disk, segment_bytes="300B")
    for n in range(10):
        partition.append([batch_of(b"%d" % n * 100)])
    disk.settle()
    disk.deadly = True
    with pytest.raises(Killed):
        partition.trim(9)
    disk.deadly = False
    partition = log.partition(files=disk)
    assert partition.bounds() == (9, 11)
    disk._before = restart
    partition.append([batch_of(b"x" * 100)])
    assert restarts > 20
