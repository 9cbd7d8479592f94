"""What a stopped machine or a killed process leaves behind the acknowledged end is cut; nothing else ever is."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.clock import ManualClock
from ottla.errors import CorruptLog, Uncertain
from ottla.testing.faults import Fault, FaultyFiles
from ottla.testing.filelog import FileLog, flip
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, values_of

JUNK = b"OTLB" + bytes(range(200))


class Commits(NamedTuple):
    """A log of three commits: batches of one, three and two messages."""

    log: FileLog
    control: bytes
    """As it was before the first of them: it is not synced at every commit, and may be that old after a restart."""
    ends: list[int]
    """The bytes at which each ends."""

    def restarted(self) -> FileLog:
        """A copy as it may be found after a restart."""
        copy = self.log.copy("copy")
        (copy.folder() / "control").write_bytes(self.control)
        return copy


@pytest.fixture
def commits(log: FileLog, clock: ManualClock) -> Commits:
    partition = log.create()
    with partition.locked():
        control = (log.folder() / "control").read_bytes()
    ends = []
    for sequence, count in enumerate((1, 3, 2)):
        partition.append([Sender.number(1).batch(sequence, *(b"%d" % sequence * 20 for _ in range(count)))])
        ends.append(log.files(".log")[0].stat().st_size)
        clock.advance(1)
    return Commits(log, control, ends)


def test_truncated_at_every_byte_batches_are_whole_or_absent(commits: Commits) -> None:
    """After a restart everything below the cut is there, and the next append goes on from it."""
    counts = [0, 1, 4, 6]
    for position in range(commits.ends[-1] + 1):
        copy = commits.restarted()
        with copy.files(".log")[0].open("r+b") as segment:
            segment.truncate(position)
        expected = counts[sum(end <= position for end in commits.ends)]
        partition = copy.partition()
        assert partition.bounds() == (1, expected + 1), position
        assert partition.append([batch_of(b"next")])[0].first == expected + 1
        values = values_of(partition)
        assert len(values) == expected + 1
        assert values[-1] == b"next"
        copy.close()


def test_a_retry_after_the_restart_is_recognised_if_its_batch_survived(commits: Commits) -> None:
    """The producers' table is made again from what was found, no more and no less."""
    copy = commits.restarted()
    with copy.files(".log")[0].open("r+b") as segment:
        segment.truncate(commits.ends[1] + 50)
    partition = copy.partition()
    assert partition.append([Sender.number(1).batch(1, b"x")]) == [(2, 3, True)]
    assert partition.append([Sender.number(1).batch(2, b"x")]) == [(5, 1, False)]
    copy.close()


@pytest.mark.parametrize("junk", [b"\0", JUNK, bytes(5000)])
def test_junk_behind_the_published_end_is_never_seen(log: FileLog, junk: bytes) -> None:
    """A killed process leaves it: readers pass it over, and the next appender cuts it."""
    log.create().append([batch_of(b"a")])
    segment = log.files(".log")[0]
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(junk)
    for reader in (log.partition(read_only=True), log.partition()):
        assert values_of(reader) == [b"a"]
    assert segment.stat().st_size == size + len(junk)
    partition = log.partition()
    assert partition.append([batch_of(b"b")])[0].first == 2
    control = partition.control()
    assert control is not None
    assert segment.stat().st_size == control.end
    assert values_of(log.partition()) == [b"a", b"b"]


def test_a_whole_batch_behind_the_published_end_is_not_adopted_without_a_restart(log: FileLog) -> None:
    """Within one run of the machine, what was not published was not acknowledged."""
    partition = log.create()
    partition.append([batch_of(b"a")])
    control = (log.folder() / "control").read_bytes()
    partition.append([batch_of(b"refused")])
    (log.folder() / "control").write_bytes(control)
    log.close()
    partition = log.partition()
    assert values_of(partition) == [b"a"]
    assert partition.append([batch_of(b"b")])[0].first == 2
    assert values_of(partition) == [b"a", b"b"]


def test_after_a_restart_a_whole_batch_behind_control_is_adopted(log: FileLog) -> None:
    """`control` is not synced at every commit: after a restart it may be behind what was acknowledged."""
    partition = log.create()
    partition.append([batch_of(b"a")])
    control = (log.folder() / "control").read_bytes()
    partition.append([batch_of(b"b")])
    (log.folder() / "control").write_bytes(control)
    log.reboot()
    assert values_of(log.partition()) == [b"a", b"b"]
    assert log.partition().append([batch_of(b"c")])[0].first == 3


def test_later_segments_are_adopted_too(log: FileLog) -> None:
    """A control file from before several rolls finds its way through the segments since."""
    partition = log.create(segment_bytes="1KiB")
    partition.append([batch_of(b"0" * 400)])
    control = (log.folder() / "control").read_bytes()
    for n in range(1, 12):
        partition.append([batch_of(b"%d" % n * 400)])
    (log.folder() / "control").write_bytes(control)
    log.reboot()
    partition = log.partition()
    assert values_of(partition) == [b"%d" % n * 400 for n in range(12)]
    assert partition.append([batch_of(b"next")])[0].first == 13


def test_what_failed_and_was_stored_again_is_there_once(log: FileLog) -> None:
    """A batch that could not be synced, nor be taken back, is still whole in its segment; its retry is in the next."""
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([Sender.number(1).batch(0)])
    control = (log.folder() / "control").read_bytes()
    files.fail(Fault("sync", on=".log", times=2), Fault("truncate", on=".log", times=10))
    with pytest.raises(Uncertain):
        partition.append([Sender.number(1).batch(1, b"first try")])
    files.fail()
    failed = log.files(".log")[0].read_bytes()
    partition.append([Sender.number(1).batch(1, b"retry")])
    partition.append([Sender.number(1).batch(2, b"last")])
    log.files(".log")[0].write_bytes(failed)
    (log.folder() / "control").write_bytes(control)
    log.reboot()
    assert values_of(log.partition()) == [b"0", b"retry", b"last"]
    assert log.partition().append([Sender.number(1).batch(1, b"retry")]) == [(2, 1, True)]


def test_a_segment_shorter_than_its_published_end_is_damage(log: FileLog) -> None:
    """It is an error that names file and position; nothing is cut, and what is left can be read."""
    partition = log.create()
    partition.append([batch_of(b"a" * 100)])
    end = log.files(".log")[0].stat().st_size
    partition.append([batch_of(b"b" * 100)])
    segment = log.files(".log")[0]
    with segment.open("r+b") as file:
        file.truncate(end + 10)
    before = segment.read_bytes()
    partition = log.partition()
    for attempt in (lambda: partition.append([batch_of(b"c")]), lambda: partition.read(2, ALL_BYTES)):
        with pytest.raises(CorruptLog) as damage:
            attempt()
        assert damage.value.path == str(segment)
        assert damage.value.position == end
    assert segment.read_bytes() == before
    assert [batch.first_number for batch in partition.read(1, ALL_BYTES)] == [1]


def test_damage_below_later_commits_is_never_taken_for_a_torn_tail(commits: Commits) -> None:
    """After a restart a bad batch with whole ones of later commits behind it is an error, and nothing is cut."""
    damaged_at = commits.ends[0]
    for position in (damaged_at + 100, commits.ends[1] - 1):
        copy = commits.restarted()
        segment = copy.files(".log")[0]
        flip(segment, position)
        before = segment.read_bytes()
        partition = copy.partition()
        with pytest.raises(CorruptLog) as damage:
            partition.append([batch_of(b"x")])
        assert (damage.value.path, damage.value.position) == (str(segment), damaged_at)
        assert segment.read_bytes() == before
        copy.close()


def test_reading_and_opening_cut_nothing_after_a_restart(log: FileLog) -> None:
    """Recovery belongs to the next appender."""
    log.create().append([batch_of(b"a")])
    with log.files(".log")[0].open("ab") as file:
        file.write(JUNK)
    log.reboot()
    before = log.tree()
    for read_only in (True, False):
        partition = log.partition(read_only=read_only)
        assert values_of(partition) == [b"a"]
        assert partition.bounds() == (1, 2)
        assert partition.find(0) == 1
    assert log.tree() == before


def test_what_a_reader_believes_is_what_the_appender_makes_true(log: FileLog) -> None:
    """A reader that looked before the recovery goes on after it."""
    log.create(segment_bytes="1KiB").append([batch_of(b"%d" % n) for n in range(5)])
    log.reboot()
    reader = log.partition()
    assert len(values_of(reader)) == 5
    writer = log.partition()
    for n in range(5, 60):
        writer.append([batch_of(b"%d" % n)])
        assert values_of(reader)[-1] == b"%d" % n
    assert values_of(reader) == [b"%d" % n for n in range(60)]


def test_an_unpublished_roll_is_swept_up(log: FileLog) -> None:
    """An empty segment of a process that was killed while rolling changes nothing, before and after a restart."""
    partition = log.create(segment_bytes="2KiB")
    partition.append([batch_of(b"a")])
    stale = log.folder() / f"{2:020d}.log"
    stale.touch()
    partition.append([batch_of(b"b"), batch_of(b"c")])
    assert values_of(log.partition()) == [b"a", b"b", b"c"]
    copy = log.copy("copy")
    assert values_of(copy.partition()) == [b"a", b"b", b"c"]
    assert copy.partition().append([batch_of(b"d")])[0].first == 4
    copy.close()
    for n in range(50):
        partition.append([batch_of(b"%d" % n * 50)])
    assert len(values_of(log.partition())) == 53
    assert stale not in log.files(".log")


def test_copying_a_folder_while_it_is_closed_copies_the_log(log: FileLog, tmp_path: Path) -> None:
    """A copy is a log of its own: both go on separately."""
    log.create().append([batch_of(b"a")])
    log.close()
    shutil.copytree(log.root, tmp_path / "other")
    other = FileLog(tmp_path / "other", log.clock)
    other.partition().append([batch_of(b"b")])
    log.partition().append([batch_of(b"c")])
    assert values_of(other.partition()) == [b"a", b"b"]
    assert values_of(log.partition()) == [b"a", b"c"]
    other.close()
