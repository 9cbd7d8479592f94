"""Faults on command, and what the disk engines make of them: an error is never an acknowledgement, nor the end."""

import errno
import os
from pathlib import Path

import pytest

from ottla.errors import StorageError, StorageFailed, StorageFull
from ottla.storage import PartitionStore, open_engine
from ottla.testing import Fault, FaultyFiles
from ottla.testing.checker import History, Mark, Place, check, marked
from ottla.testing.faults import OPERATIONS, Operation, failing
from ottla.testing.samples import Sender, batch_of, messages_of, new_topic, values_of

DATA = {"file": ".log", "jsonl": ".txt"}


@pytest.fixture(params=["file", "jsonl"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return f"{kind}://{tmp_path / 'log'}"


def opened(url: str, **settings: str) -> tuple[PartitionStore, FaultyFiles]:
    """A partition that holds one message, and the files it is on, without faults so far."""
    with failing() as files:
        engine = open_engine(url)
    partition = engine.partition(new_topic(engine, **settings), 0)
    partition.append([batch_of(b"before")])
    return partition, files


def reopened(url: str) -> PartitionStore:
    engine = open_engine(url)
    return engine.partition(engine.topic("deliveries"), 0)


def test_bytes_are_synced_before_they_are_published(kind: str, url: str) -> None:
    """The order of an append: write, sync, publish."""
    partition, files = opened(url)
    files.calls.clear()
    partition.append([batch_of(b"a")])
    changes = [(operation, Path(path).suffix or Path(path).name) for operation, path in files.calls]
    assert changes == [("pwritev", DATA[kind]), ("sync", DATA[kind]), ("pwritev", "control")]


def test_a_failed_sync_is_final(kind: str, url: str) -> None:
    """The append is refused, nothing of it is in the log, and appending goes on without it."""
    partition, files = opened(url)
    files.fail(Fault("sync", error=errno.EIO, on=DATA[kind]))
    with pytest.raises(StorageFailed, match="could not be made durable"):
        partition.append([batch_of(b"refused")])
    assert values_of(partition) == [b"before"]
    assert partition.append([batch_of(b"after")])[0].first == 2
    assert values_of(partition) == values_of(reopened(url)) == [b"before", b"after"]


def test_after_a_failed_sync_other_processes_are_warned(kind: str, url: str) -> None:
    """Whoever appends next finds the mark and does not trust the file either."""
    partition, files = opened(url)
    files.fail(Fault("sync", error=errno.EIO, on=DATA[kind]))
    with pytest.raises(StorageFailed):
        partition.append([batch_of(b"refused")])
    other = reopened(url)
    assert values_of(other) == [b"before"]
    assert other.append([batch_of(b"after")])[0].first == 2
    assert values_of(partition) == [b"before", b"after"]


def test_a_full_disk_refuses_and_recovers(kind: str, url: str) -> None:
    """Refused with a clear error, reading goes on, and appending works again when there is space."""
    partition, files = opened(url)
    files.fail(Fault("pwritev", error=errno.ENOSPC, on=DATA[kind], times=3))
    for _ in range(3):
        with pytest.raises(StorageFull, match="no space left"):
            partition.append([batch_of(b"refused")])
        assert values_of(partition) == [b"before"]
    assert partition.append([batch_of(b"after")])[0].first == 2
    assert values_of(reopened(url)) == [b"before", b"after"]


def test_a_disk_that_fills_up_in_the_middle_of_a_write(kind: str, url: str) -> None:
    """Half of the batch was written when the disk was full: it is as if nothing had been."""
    partition, files = opened(url)
    files.fail(Fault("pwritev", 1, "half", on=DATA[kind]), Fault("pwritev", 2, error=errno.ENOSPC, on=DATA[kind]))
    with pytest.raises(StorageFull):
        partition.append([batch_of(b"refused" * 100)])
    assert values_of(partition) == values_of(reopened(url)) == [b"before"]
    assert partition.append([batch_of(b"after")])[0].first == 2


def test_short_writes_are_continued(kind: str, url: str) -> None:
    """A system call may write less than it was given, a byte at a time if it likes."""
    partition, files = opened(url)
    files.fail(Fault("pwritev", 1, "half", on=DATA[kind], keep=1, times=50))
    values = [b"%d" % n * 40 for n in range(20)]
    partition.append([batch_of(*values)])
    assert values_of(partition) == values_of(reopened(url)) == [b"before", *values]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_publication_that_fails_is_told_as_it_is(url: str, when: str) -> None:
    """Whether or not the bytes reached the control file: what is refused is not there, and a retry is stored once."""
    partition, files = opened(url)
    files.fail(Fault("pwritev", error=errno.EIO, on="control", when=when))  # type: ignore[arg-type]
    try:
        partition.append([Sender.number(1).batch(0, b"tried")])
    except StorageError:
        assert values_of(partition) == [b"before"]
    else:
        assert values_of(partition) == [b"before", b"tried"]
    files.fail()
    (appended,) = partition.append([Sender.number(1).batch(0, b"tried")])
    assert appended.first == 2
    assert values_of(partition) == values_of(reopened(url)) == [b"before", b"tried"]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_an_error_at_every_call(url: str, operation: Operation, error: int) -> None:
    """Any call may fail once, at any time: what was acknowledged is there, what was refused is not, and it goes on."""
    partition, files = opened(url, segment_bytes="2KiB")
    partition.trim(2)
    history, batch, sent = History(), 0, 0
    for nth in range(1, 9):
        files.fail(Fault(operation, nth, error=error))
        for _ in range(8):
            mark = Mark(1, sent)
            sent += 1
            history.attempted.add(mark)
            try:
                (appended,) = partition.append([Sender.number(1).batch(batch, marked(mark, 300))])
            except StorageError:
                history.refused.add(mark)
                continue
            batch += 1
            history.acknowledged[mark] = Place(0, appended.first)
    files.fail()
    for store in (partition, reopened(url)):
        read = [(message.number, message.value) for message in messages_of(store)]
        assert check(history, {0: read}, first={0: 2}) == []


def test_faults_count_the_calls_that_they_are_for(tmp_path: Path) -> None:
    """The nth call on files whose path ends so, and as many after it as it says."""
    files = FaultyFiles(Fault("unlink", 2, error=errno.EIO, on=".log", times=2))
    outcomes = []
    for name in ("a.log", "a.txt", "b.log", "c.log", "d.log"):
        try:
            files.unlink(tmp_path / name)
            outcomes.append("done")
        except OSError as failure:
            outcomes.append(os.strerror(failure.errno or 0))
    assert outcomes == ["done", "done", "Input/output error", "Input/output error", "done"]
