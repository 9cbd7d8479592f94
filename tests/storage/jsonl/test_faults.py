"""The disk fails: nothing is acknowledged that is not there, and the log goes on when the disk does."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.errors import StorageFailed, StorageFull, Uncertain
from ottla.storage import open_engine
from ottla.testing.faults import Fault, FaultyFiles, failing
from ottla.testing.samples import Sender, new_topic, values_of

ALICE = Sender.number(1)


class Log:
    """A partition on files that fail on command, and another engine that looks at it from outside."""

    def __init__(self, folder: Path, files: FaultyFiles, **settings: str) -> None:
        self.text = folder / "deliveries-1.txt"
        self.files = files
        self.engine = open_engine(f"jsonl://{folder}")
        self.partition = self.engine.partition(new_topic(self.engine, **settings), 0)
        self.partition.append([ALICE.batch(0)])
        self._url = f"jsonl://{folder}"

    def seen(self) -> list[bytes | None]:
        engine = open_engine(self._url)
        values = values_of(engine.partition(engine.topic("deliveries"), 0))
        engine.close()
        assert values == values_of(self.partition)
        return values


@pytest.fixture
def files() -> Iterator[FaultyFiles]:
    with failing() as files:
        yield files


@pytest.fixture
def log(folder: Path, files: FaultyFiles) -> Log:
    return Log(folder, files)


def test_a_failed_sync_is_final(log: Log) -> None:
    """The append is refused, its bytes are cut, and the file is given up for a copy that can be synced."""
    old = log.text.stat().st_ino
    log.files.fail(Fault("sync", on=".txt"))
    with pytest.raises(StorageFailed):
        log.partition.append([ALICE.batch(1)])
    assert log.seen() == [b"0"]
    assert log.partition.append([ALICE.batch(1)]) == [(2, 1, False)]
    assert log.seen() == [b"0", b"1"]
    assert log.text.stat().st_ino != old
    assert log.partition.append([ALICE.batch(1)]) == [(2, 1, True)]


def test_a_disk_whose_syncs_keep_failing(log: Log) -> None:
    """Nothing is acknowledged as long as it lasts, and everything from before stays readable."""
    log.files.fail(Fault("sync", times=1000))
    for _ in range(5):
        with pytest.raises((StorageFailed, Uncertain)):
            log.partition.append([ALICE.batch(1)])
        assert log.seen() == [b"0"]
    log.files.fail()
    assert log.partition.append([ALICE.batch(1)])[0].first == 2
    assert log.seen() == [b"0", b"1"]
    assert list(log.engine.verify()) == []  # type: ignore[attr-defined]


def test_a_full_disk_is_refused_and_recovered_from(log: Log) -> None:
    log.files.fail(Fault("pwritev", error=errno.ENOSPC, on=".txt", times=3))
    for _ in range(3):
        with pytest.raises(StorageFull):
            log.partition.append([ALICE.batch(1)])
        assert log.seen() == [b"0"]
    assert log.partition.append([ALICE.batch(1)])[0].first == 2
    assert log.seen() == [b"0", b"1"]


def test_a_short_write_is_continued(log: Log) -> None:
    log.files.fail(Fault("pwritev", action="half", on=".txt", times=4))
    assert log.partition.append([ALICE.batch(1, b"x" * 5000, b"y")])[0].first == 2
    assert log.seen() == [b"0", b"x" * 5000, b"y"]


def test_a_short_write_and_then_a_full_disk(log: Log) -> None:
    """What was half written is cut."""
    size = log.text.stat().st_size
    log.files.fail(Fault("pwritev", action="half", on=".txt"), Fault("pwritev", nth=2, error=errno.ENOSPC, on=".txt"))
    with pytest.raises(StorageFull):
        log.partition.append([ALICE.batch(1, b"x" * 5000)])
    assert log.text.stat().st_size == size
    assert log.partition.append([ALICE.batch(1)])[0].first == 2
    assert log.seen() == [b"0", b"1"]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_publishing_fails(log: Log, error: int) -> None:
    log.files.fail(Fault("pwritev", error=error, on="control"))
    with pytest.raises((StorageFailed, StorageFull)):
        log.partition.append([ALICE.batch(1)])
    assert log.seen() == [b"0"]
    assert log.partition.append([ALICE.batch(1)])[0].first == 2
    assert log.seen() == [b"0", b"1"]


def test_an_interval_sync_that_fails(folder: Path, files: FaultyFiles, caplog: pytest.LogCaptureFixture) -> None:
    """What was acknowledged without a sync is moved to a file that can be synced by the next append."""
    log = Log(folder, files, sync="interval", sync_interval="1h")
    log.partition.append([ALICE.batch(1)])
    files.fail(Fault("sync", on=".txt"))
    log.engine.close()
    assert "could not be synced" in caplog.text
    engine = open_engine(f"jsonl://{folder}")
    partition = engine.partition(engine.topic("deliveries"), 0)
    assert values_of(partition) == [b"0", b"1"]
    assert partition.append([ALICE.batch(2)])[0].first == 3
    assert values_of(partition) == [b"0", b"1", b"2"]
    engine.close()


REPLACING = [
    Fault("open", on="-1"),
    Fault("pwritev", error=errno.ENOSPC, on="-1"),
    Fault("sync", on="-1"),
    Fault("rename", on="state.new"),
    Fault("pwritev", on="control", nth=2),
    Fault("rename", on="deliveries-1.txt"),
    Fault("rename", on="deliveries-1.txt", when="after"),
    Fault("rename", on="state", nth=2),
    Fault("rename", on="state", nth=2, when="after"),
    Fault("pwritev", on="control", nth=3),
    Fault("sync", on="control", nth=2),
    *(Fault("sync_folder_fd", nth=nth) for nth in range(1, 7)),
]
"""Every step of putting another file in the place of the first, after the state was stored and published."""


@pytest.mark.parametrize("fault", REPLACING, ids=str)
def test_dropping_removed_lines_fails_at_any_step(log: Log, fault: Fault) -> None:
    """What was removed stays removed, what is kept is all there, and the next removal tidies up."""
    for n in range(1, 6):
        log.partition.append([ALICE.batch(n, b"%d" % n * 40_000)])
    log.files.fail(fault)
    try:
        log.partition.trim(5)
    except (StorageFailed, StorageFull):
        assert log.partition.bounds().first in {1, 5}
    log.files.fail()
    assert log.partition.trim(5) == (5, 7)
    assert log.seen() == [b"4" * 40_000, b"5" * 40_000]
    assert log.partition.append([ALICE.batch(5)]) == [(6, 1, True)]
    assert log.partition.append([ALICE.batch(6)]) == [(7, 1, False)]
    assert log.partition.trim(7) == (7, 8)
    assert log.seen() == [b"6"]
    assert len(log.text.read_bytes().splitlines()) == 1
    assert list(log.engine.verify()) == []  # type: ignore[attr-defined]
    assert [path.name for path in log.text.parent.iterdir() if path.name.startswith("~")] == []
