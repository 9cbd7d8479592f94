"""A disk that refuses: what it refused is never in the log, a failed sync is final, and appending goes on."""

import contextlib
import errno
import logging
import resource
import signal
import time
from collections.abc import Callable, Sequence

import pytest

from ottla.batch import Batch
from ottla.errors import StorageFailed, StorageFull, Uncertain
from ottla.storage.disk.files import Buffer
from ottla.storage.file.partition import FilePartition
from ottla.testing.faults import Fault, FaultyFiles
from ottla.testing.filelog import FileLog
from ottla.testing.samples import Sender, batch_of, values_of
from ottla.testing.steps import Unsynced

WRITER = Sender.number(1)


def check_stored_once(log: FileLog, partition: FilePartition) -> None:
    """A retry of the refused batch is stored, once, in this engine, in another, and after a restart."""
    before = values_of(log.partition())
    assert b"1" not in before
    (appended,) = partition.append([WRITER.batch(1)])
    assert appended == (len(before) + 1, 1, False)
    assert log.partition().append([WRITER.batch(1)]) == [(appended.first, 1, True)]
    assert partition.append([WRITER.batch(2)])[0].first == appended.first + 1
    assert values_of(partition) == values_of(log.partition()) == [*before, b"1", b"2"]
    copy = log.copy("after-restart")
    assert values_of(copy.partition()) == [*before, b"1", b"2"]
    copy.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["pwritev", "sync"])
@pytest.mark.parametrize("on", [".log", "control"])
def test_one_failed_call(log: FileLog, operation: str, on: str, error: int) -> None:
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    files.fail(Fault(operation, error=error, on=on))  # type: ignore[arg-type]  # one of the operations
    if (operation, on) == ("sync", "control"):
        partition.append([WRITER.batch(1)])  # a commit does not sync it
        return
    with pytest.raises(StorageFull if error in {errno.ENOSPC, errno.EDQUOT} else StorageFailed):
        partition.append([WRITER.batch(1)])
    check_stored_once(log, partition)


def test_a_failed_sync_is_final(log: FileLog) -> None:
    """The segment is never appended to again, by nobody: the log goes on in another, in whatever process."""
    files = FaultyFiles(Fault("sync", nth=2, on=".log"))
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    (failed,) = log.files(".log")
    with pytest.raises(StorageFailed):
        partition.append([WRITER.batch(1)])
    before = failed.read_bytes()
    other = log.partition()
    assert other.append([batch_of(b"other")])[0].first == 2
    assert failed.read_bytes() == before
    assert len(log.files(".log")) == 2
    assert values_of(partition) == [b"0", b"other"]
    check_stored_once(log, partition)


def test_a_sync_that_fails_in_a_segment_without_messages(log: FileLog) -> None:
    """There is no number for another segment: the file itself is replaced, and stale descriptors notice."""
    files = FaultyFiles(Fault("sync", on=".log"))
    partition = log.create(files=files)
    reader = log.partition()
    assert reader.bounds() == (1, 1)
    stale = log.partition()
    with stale.locked() as (_, control):
        stale.active_file(control)
    inode = log.files(".log")[0].stat().st_ino
    with pytest.raises(StorageFailed):
        partition.append([WRITER.batch(0)])
    assert stale.append([WRITER.batch(0)]) == [(1, 1, False)]
    assert log.files(".log")[0].stat().st_ino != inode
    assert partition.append([WRITER.batch(0)]) == [(1, 1, True)]
    assert values_of(reader) == [b"0"]
    check_stored_once(log, partition)


def test_a_disk_that_fails_for_good_leaves_it_uncertain(log: FileLog) -> None:
    """If it cannot even be taken back, the error says so; retrying when the disk works stores it once."""
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    files.fail(Fault("sync", times=1000), Fault("truncate", times=1000))
    with pytest.raises(Uncertain):
        partition.append([WRITER.batch(1)])
    files.fail()
    check_stored_once(log, partition)


@pytest.mark.parametrize("keep", [0, 1, 87, 88, 100])
def test_writing_less_than_asked_goes_on_with_the_rest(log: FileLog, keep: int) -> None:
    """A short write is no failure; one of nothing at all is."""
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    files.fail(Fault("pwritev", action="half", keep=keep, on=".log"))
    if keep:
        assert partition.append([WRITER.batch(1, b"x" * 1000)])[0].first == 2
        assert values_of(log.partition()) == [b"0", b"x" * 1000]
    else:
        with pytest.raises(StorageFailed, match="nothing was written"):
            partition.append([WRITER.batch(1)])
        check_stored_once(log, partition)


def test_a_control_write_that_fails_but_is_there(log: FileLog) -> None:
    """What readers see already is acknowledged."""
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    files.fail(Fault("pwritev", on="control", when="after"))
    assert partition.append([WRITER.batch(1)]) == [(2, 1, False)]
    assert values_of(log.partition()) == [b"0", b"1"]
    assert partition.append([WRITER.batch(2)]) == [(3, 1, False)]


def test_a_torn_control_write_is_refused_and_stays_out(log: FileLog) -> None:
    """Half of a slot, then an error: what was refused must not be found again by reading on."""
    files = FaultyFiles()
    partition = log.create(files=files)
    partition.append([WRITER.batch(0)])
    files.fail(Fault("pwritev", action="half", keep=50, on="control"), Fault("pwritev", nth=2, on="control"))
    with pytest.raises(StorageFailed):
        partition.append([WRITER.batch(1)])
    check_stored_once(log, partition)


class Quota(Unsynced):
    """A disk of so many bytes."""

    def __init__(self, size: int) -> None:
        self.left = size

    def pwritev(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        grows = max(position + sum(map(len, parts)) - max(self.size(fd), 0), 0)
        if grows > self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= grows
        return super().pwritev(fd, parts, position)


def fits(partition: FilePartition, batch: Batch) -> bool:
    try:
        partition.append([batch])
    except StorageFull:
        return False
    return True


def test_a_full_disk_refuses_appends_reads_go_on_and_it_resumes_by_itself(log: FileLog) -> None:
    """Rolling on a full disk is refused too; nothing is half done."""
    disk = Quota(20_000)
    partition = log.create(files=disk, segment_bytes="2KiB")
    stored = 0
    for _ in range(3):
        while fits(partition, WRITER.batch(stored, b"%d" % stored * 100)):
            stored += 1
        assert values_of(partition) == [b"%d" % n * 100 for n in range(stored)]
        assert partition.bounds() == (1, stored + 1)
        disk.left += 5_000
    assert partition.append([WRITER.batch(stored)])[0].first == stored + 1
    assert list(log.open().verify()) == []


@pytest.mark.parametrize("left", range(0, 700, 20))
def test_a_disk_that_fills_up_while_rolling(quick_log: FileLog, left: int) -> None:
    """With so many bytes left, whatever of a roll does not fit any more: refused, and later finished."""
    disk = Quota(100_000)
    partition = quick_log.create(files=disk, segment_bytes="500B")
    for n in range(2):
        partition.append([WRITER.batch(n, b"x" * 200)])
    disk.left = left
    with contextlib.suppress(StorageFull):
        partition.append([WRITER.batch(2, b"y" * 200)])
    disk.left = 100_000
    assert partition.append([WRITER.batch(2, b"y" * 200)])[0].first == 3
    assert values_of(quick_log.partition()) == [b"x" * 200] * 2 + [b"y" * 200]
    assert list(quick_log.open().verify()) == []


def test_a_limit_of_the_operating_system(log: FileLog) -> None:
    """A real refusal, not a pretended one: files of this process may not grow beyond a size."""
    partition = log.create()
    partition.append([WRITER.batch(0)])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
        with pytest.raises(StorageFailed, match="File too large"):
            partition.append([WRITER.batch(1, b"x" * 10_000)])
        assert values_of(partition) == [b"0"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    check_stored_once(log, partition)


def test_metadata_and_topics_on_a_full_disk(log: FileLog) -> None:
    disk = Quota(100_000)
    engine = log.open(files=disk)
    engine.store("a", b"1", 0)
    disk.left = 0
    with pytest.raises(StorageFull):
        engine.store("a", b"2" * 100, 1)
    with pytest.raises(StorageFull):
        log.create("other", files=disk)
    assert engine.load("a") == (b"1", 1)
    assert engine.topics() == []
    disk.left = 100_000
    assert engine.store("a", b"3", 1) == 2
    log.create("other", files=disk).append([batch_of(b"x")])
    assert not [name for name in log.tree() if "~" in name], "unfinished files were left behind"


class TestSyncingAtIntervals:
    """`sync="interval"`: acknowledged at once, durable soon."""

    def test_the_background_sync_publishes_what_is_durable(self, log: FileLog) -> None:
        partition = log.create(sync="interval", sync_interval="1ms")
        partition.append([WRITER.batch(0)])
        wait_until(lambda: synced(partition) == log.files(".log")[0].stat().st_size)

    def test_closing_makes_the_rest_durable(self, log: FileLog) -> None:
        files = FaultyFiles()
        engine = log.open(files=files)
        partition = log.create("other", files=files, sync="interval", sync_interval="1h")
        partition.append([WRITER.batch(0)])
        assert ("sync", str(log.files(".log", "other")[0])) not in files.calls
        log.close()
        assert ("sync", str(log.files(".log", "other")[0])) in files.calls
        engine.close()
        end = log.files(".log", "other")[0].stat().st_size
        assert synced(log.partition("other")) == end

    def test_a_failure_is_logged_and_the_segment_given_up(self, log: FileLog, caplog: pytest.LogCaptureFixture) -> None:
        files = FaultyFiles(Fault("sync", on=".log"))
        partition = log.create(files=files, sync="interval", sync_interval="1ms")
        with caplog.at_level(logging.ERROR, "ottla"):
            partition.append([WRITER.batch(0)])
            wait_until(lambda: "could not be synced" in caplog.text)
        assert partition.append([WRITER.batch(1)]) == [(2, 1, False)]
        assert len(log.files(".log")) == 2
        assert values_of(partition) == [b"0", b"1"]

    def test_never_means_never(self, log: FileLog) -> None:
        files = FaultyFiles()
        partition = log.create(files=files, sync="never")
        partition.append([WRITER.batch(0)])
        log.close()
        assert ("sync", str(log.files(".log")[0])) not in files.calls

    def test_a_topic_that_is_deleted_before_the_sync(self, log: FileLog, caplog: pytest.LogCaptureFixture) -> None:
        """There is nothing left to sync, and nothing to complain about."""
        engine = log.open()
        partition = log.create(sync="interval", sync_interval="20ms")
        partition.append([WRITER.batch(0)])
        engine.delete_topic("deliveries")
        log.close()
        assert caplog.text == ""


def synced(partition: FilePartition) -> int:
    control = partition.control()
    assert control is not None
    return control.synced


def wait_until(done: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.001)
