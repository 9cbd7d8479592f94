"""Every operation, failing or killed at each of its system calls in turn: it happened, or it did not.

Afterwards the log is whole, in the same engine, in others, and after a restart of the machine; doing the same again
finishes the work, and appending goes on.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.errors import MetadataConflict, OttlaError, StorageFailed, TopicExists, Uncertain, UnknownTopic
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage.file import FileEngine
from ottla.testing.faults import Fault, FaultyFiles, die
from ottla.testing.filelog import FileLog, flip
from ottla.testing.samples import Sender, batch_of, messages_of, new_topic
from ottla.testing.steps import Steps, fail_with

OTHER = Topic(name="other", id="0" * 32, created_ms=0, settings=TopicSettings())
NEW = Sender.number(7)
LOOKING = ("read", "size")
"""Calls that change nothing."""


def append(engine: FileEngine) -> None:
    engine.partition(engine.topic("deliveries"), 0).append([NEW.batch(0, b"new", b"newer")])


def trim(engine: FileEngine) -> None:
    engine.partition(engine.topic("deliveries"), 0).trim(4)


def trim_all(engine: FileEngine) -> None:
    engine.partition(engine.topic("deliveries"), 0).trim(100)


def expire(engine: FileEngine) -> None:
    engine.partition(engine.topic("deliveries"), 0).expire(older_than_ms=engine.clock.now_ms() + 1)


def compact(engine: FileEngine) -> None:
    engine.partition(engine.topic("deliveries"), 0).compact()


def create(engine: FileEngine) -> None:
    engine.create_topic(OTHER)


def delete(engine: FileEngine) -> None:
    engine.delete_topic("deliveries")


def alter(engine: FileEngine) -> None:
    topic = engine.topic("deliveries")
    engine.alter_topic(replace(topic, version=1, settings=replace(topic.settings, partitions=3)))


def store(engine: FileEngine) -> None:
    engine.store("groups/billing", b"new", 1)


def discard(engine: FileEngine) -> None:
    engine.discard("groups/billing")


def repair(engine: FileEngine) -> None:
    list(engine.repair())


def few(log: FileLog) -> None:
    """A partition with room in its segment."""
    log.create().append([batch_of(b"a"), batch_of(b"b")])


def full(log: FileLog) -> None:
    """Several segments, the last of them full: the next append rolls."""
    partition = log.create(segment_bytes="300B")
    for n in range(6):
        partition.append([Sender.number(1).batch(n, b"%d" % n * 100)])


def half_compacted(log: FileLog) -> None:
    full(log)
    log.partition().compact()
    partition = log.partition()
    for n in range(6, 10):
        partition.append([Sender.number(1).batch(n, b"%d" % n * 100)])


def failed(log: FileLog) -> None:
    """A sync of the active segment failed: the next append goes to another."""
    full(log)
    fail_sync(log)


def failed_while_empty(log: FileLog) -> None:
    """A sync of the active segment failed before anything was in it."""
    full(log)
    log.partition().trim(7)
    fail_sync(log)


def fail_sync(log: FileLog) -> None:
    partition = log.partition(files=FaultyFiles(Fault("sync", on=".log")))
    with pytest.raises(StorageFailed):
        partition.append([batch_of(b"refused")])
    control = partition.control()
    assert control is not None
    assert control.failed


def with_metadata(log: FileLog) -> None:
    few(log)
    log.open().store("groups/billing", b"old", 0)


def never_used(log: FileLog) -> None:
    """A topic that nothing was appended to."""
    new_topic(log.open())


def restarted(log: FileLog) -> None:
    """A torn tail from before the machine was restarted."""
    full(log)
    with log.files(".log")[-1].open("ab") as segment:
        segment.write(b"OTLB torn")
    log.reboot()


def damaged(log: FileLog) -> None:
    """Two damaged batches in a sealed segment, with whole ones around them; and one in the active segment."""
    partition = log.create(segment_bytes="1KiB")
    for n in range(7):
        partition.append([Sender.number(1).batch(n, b"%d" % n * 100)])
    sealed, active = log.files(".log")
    flip(sealed, 300)
    flip(sealed, 750)
    flip(active, 300)


@dataclass(frozen=True)
class Case:
    prepare: Callable[[FileLog], None]
    act: Callable[[FileEngine], None]

    @property
    def name(self) -> str:
        return f"{self.act.__name__}-{self.prepare.__name__}"


CASES = [
    Case(few, append),
    Case(full, append),
    Case(failed, append),
    Case(failed_while_empty, append),
    Case(never_used, append),
    Case(restarted, append),
    Case(half_compacted, trim),
    Case(full, trim),
    Case(full, trim_all),
    Case(half_compacted, expire),
    Case(half_compacted, compact),
    Case(few, create),
    Case(half_compacted, delete),
    Case(few, alter),
    Case(with_metadata, store),
    Case(with_metadata, discard),
    Case(damaged, repair),
]
every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def state(engine: FileEngine) -> Any:
    """All that a program can see of a log."""
    topics = engine.topics()
    partitions = [engine.partition(topic, index) for topic in topics for index in range(topic.settings.partitions)]
    seen = [(partition.bounds(), [m[2:] for m in messages_of(partition)]) for partition in partitions]
    return [(topic.name, topic.settings, topic.version) for topic in topics], seen, engine.load("groups/billing")


def do_again(case: Case, engine: FileEngine) -> None:
    with contextlib.suppress(TopicExists, UnknownTopic, MetadataConflict):
        case.act(engine)


def go_on(engine: FileEngine) -> None:
    for topic in engine.topics():
        partition = engine.partition(topic, 0)
        number = partition.bounds().next
        assert partition.append([batch_of(b"goes on")])[0].first == number
        assert partition.read(number, 1)[0].first_number == number


def is_repair(case: Case) -> bool:
    return case.act is repair


class Rounds:
    """The same log again and again, as it is before the operation; and what it is after."""

    def __init__(self, case: Case, log: FileLog) -> None:
        self.case = case
        self._prepared = FileLog(log.root.with_name("prepared"), log.clock)
        case.prepare(self._prepared)
        self._prepared.close()
        one = self.fresh()
        self.before = None if is_repair(case) else state(one.open())
        steps = Steps()
        engine = one.open(files=steps)
        steps.act_at(0, None)
        case.act(engine)
        self.calls = steps.names
        self.after = state(one.open())
        assert self.after != self.before or case.act is compact
        one.close()

    def fresh(self) -> FileLog:
        """The prepared log, in this run of the machine unless it is of an earlier one."""
        copy = self._prepared.copy("round")
        if self.case.prepare not in {restarted, damaged}:
            engine = copy.open()
            for topic in engine.topics():
                with engine.partition(topic, 0).locked():
                    pass
            copy.close()
        return copy

    def check(self, log: FileLog, allowed: list[Any], where: str) -> None:
        """The log is in one of the *allowed* states, everywhere; it goes on from there to the one after."""
        for each in (log.copy("restart"), log):
            engine = each.open()
            if not is_repair(self.case):
                assert state(each.open(read_only=True)) in allowed, where
                assert state(engine) in allowed, where
                assert list(engine.verify()) == [], where
            do_again(self.case, engine)
            assert state(engine) == self.after, where
            go_on(engine)
            assert list(engine.verify()) == [], where
            each.close()


@pytest.fixture
def rounds(case: Case, quick_log: FileLog) -> Rounds:
    return Rounds(case, quick_log)


@every_case
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_failing_at_every_call(rounds: Rounds, case: Case, error: int) -> None:
    for number, call in enumerate(rounds.calls, 1):
        if error == errno.ENOSPC and call.startswith(LOOKING):
            continue
        log, steps = rounds.fresh(), Steps()
        engine = log.open(files=steps)
        steps.act_at(number, fail_with(error))
        allowed = [rounds.before, rounds.after]
        try:
            case.act(engine)
        except Uncertain:
            pass
        except OttlaError:
            if case.act is append:
                allowed = [rounds.before]
        else:
            allowed = [rounds.after]
        where = f"call {number} of {len(rounds.calls)}: {steps.names[number - 1]}"
        if not is_repair(case):
            assert state(engine) in allowed, where
        rounds.check(log, allowed, where)


@every_case
def test_killed_at_every_call(rounds: Rounds, case: Case) -> None:
    for number, call in enumerate(rounds.calls, 1):
        if call.startswith(LOOKING):
            continue  # the next call that changes something finds the same
        log = rounds.fresh()
        killed = in_child(partial(act_and_die, log, case, number))
        assert killed == -signal.SIGKILL, number
        rounds.check(log, [rounds.before, rounds.after], f"call {number} of {len(rounds.calls)}: {call}")


def act_and_die(log: FileLog, case: Case, number: int) -> None:
    steps = Steps()
    engine = log.open(files=steps)
    steps.act_at(number, die)
    case.act(engine)


def in_child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(20)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_reading_fails_with_our_errors_and_works_again(log: FileLog, clock: ManualClock) -> None:
    """A call that only looks may fail too: with one of our errors, and nothing is forgotten."""
    half_compacted(log)
    clock.advance(1000)
    steps = Steps()
    expected = state(log.open())
    engine = log.open(files=steps)
    steps.act_at(0, None)
    state(engine)
    for number in range(1, steps.count + 1):
        steps = Steps()
        engine = log.open(files=steps)
        steps.act_at(number, fail_with(errno.EIO))
        with contextlib.suppress(OttlaError):
            state(engine)
        assert state(engine) == expected
        log.close()
