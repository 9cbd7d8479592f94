"""Rolling, removing and finding, across many segments: by size, by age, by number, by time."""

import pytest

from ottla.clock import ManualClock
from ottla.errors import CorruptLog
from ottla.storage.file.layout import Layout, find_files, leftovers, pieces_of
from ottla.testing.filelog import FileLog
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, numbers_of, values_of

HOUR_MS = 3_600_000


def test_a_segment_is_sealed_by_size(log: FileLog) -> None:
    partition = log.create(segment_bytes="1KiB")
    for _ in range(40):
        partition.append([batch_of(b"x" * 200)])
    segments = log.files(".log")
    assert [int(segment.stem) for segment in segments] == list(range(1, 41, 4))
    assert all(1024 <= segment.stat().st_size < 2048 for segment in segments[:-1])
    assert [segment.with_suffix(".index").exists() for segment in segments] == [True] * 9 + [False]


def test_a_segment_is_sealed_by_age(log: FileLog, clock: ManualClock) -> None:
    """Its age is that of its first message."""
    partition = log.create(segment_age="1h")
    for _ in range(7):
        partition.append([batch_of(b"x")])
        clock.advance(HOUR_MS // 2)
    assert [int(path.stem) for path in log.files(".log")] == [1, 3, 5, 7]


def test_a_clock_that_goes_back_seals_nothing_and_append_times_never_fall(log: FileLog, clock: ManualClock) -> None:
    partition = log.create(segment_age="1h")
    times = []
    for step in (0, 1000, -5 * HOUR_MS, 1000, 5 * HOUR_MS):
        clock.advance(step)
        partition.append([batch_of(b"x")])
        times.append(partition.read(partition.bounds().next - 1, 1)[0].header.append_ms)
    assert times == sorted(times)
    assert len(log.files(".log")) == 1
    assert partition.find(times[1]) == 2


def test_even_a_quiet_partition_expires(log: FileLog, clock: ManualClock) -> None:
    """The active segment is sealed so that it can go; numbers go on."""
    partition = log.create(retention="1h")
    partition.append([batch_of(b"a"), batch_of(b"b")])
    clock.advance(HOUR_MS)
    assert partition.expire(older_than_ms=clock.now_ms() - HOUR_MS) == (1, 3)
    clock.advance(1)
    assert partition.expire(older_than_ms=clock.now_ms() - HOUR_MS) == (3, 3)
    assert [path.stat().st_size for path in log.files(".log")] == [0]
    assert partition.size() == 0
    assert partition.append([batch_of(b"c")])[0].first == 3


def test_expiring_nothing_touches_nothing(log: FileLog) -> None:
    """A culler looks every second: it must not take the lock or write for that."""
    partition = log.create(segment_bytes="500B")
    for _ in range(20):
        partition.append([batch_of(b"x" * 100)])
    log.close()
    before = log.tree()
    partition = log.partition()
    with partition.locked():  # would wait for ever, were it needed
        other = log.partition()
        assert other.expire(older_than_ms=0, max_bytes=10**9) == (1, 21)
        assert other.trim(1) == (1, 21)
    assert log.tree() == before


def test_by_size_the_newest_segment_stays(log: FileLog) -> None:
    partition = log.create(segment_bytes="1KiB")
    for _ in range(20):
        partition.append([batch_of(b"x" * 200)])
    bounds = partition.expire(max_bytes=1)
    assert bounds == (int(log.files(".log")[-1].stem), 21)
    assert numbers_of(partition) == list(range(bounds.first, 21))


def test_a_trimmed_partition_leaves_no_files_behind(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for n in range(30):
        partition.append([Sender.number(1).batch(n, b"x" * 100)])
    partition.compact()
    partition.trim(31)
    assert sorted(path.name for path in log.folder().iterdir()) == [
        f"{31:020d}.log", f"{31:020d}.producers", "compacting", "control",
    ]  # fmt: skip


def test_what_a_killed_trim_left_goes_with_the_next(log: FileLog) -> None:
    partition = log.create(segment_bytes="500B")
    for _ in range(30):
        partition.append([batch_of(b"x" * 100)])
    kept = {path: path.read_bytes() for path in log.folder().iterdir() if path.name != "control"}
    partition.trim(20)
    for path, data in kept.items():
        path.write_bytes(data)
    (log.folder() / "~0123").touch()
    assert numbers_of(log.partition()) == list(range(20, 31))
    log.partition().trim(22)
    names = {path.name for path in log.folder().iterdir()}
    assert not [name for name in names if name.startswith("~")]
    assert all(int(name[:20]) >= 16 for name in names if name.endswith(".log"))
    assert numbers_of(log.partition()) == list(range(22, 31))


@pytest.fixture
def hours(log: FileLog, clock: ManualClock) -> FileLog:
    """Message n was appended at hour n, 100 of them; runs and segments of about four, and a trimmed start."""
    partition = log.create(segment_bytes="1KiB")
    start = clock.now_ms()
    for n in range(1, 101):
        clock.advance(start + n * HOUR_MS - clock.now_ms())
        partition.append([batch_of(b"%d" % n * 100)])
        if n in {30, 60}:
            partition.compact()
    partition.trim(5)
    return log


@pytest.mark.parametrize("fresh", [True, False], ids=["opened", "open"])
def test_finding_by_time_and_number(hours: FileLog, clock: ManualClock, fresh: bool) -> None:
    start = clock.now_ms() - 100 * HOUR_MS
    partition = hours.partition()
    for n in range(1, 101):
        if fresh:
            partition = hours.partition()
        assert partition.find(start + n * HOUR_MS) == max(n, 5), n
        assert partition.find(start + n * HOUR_MS - 1) == max(n, 5), n
        assert partition.find(start + n * HOUR_MS + 1) == max(n + 1, 5), n
        assert partition.read(n, 1)[0].next_number == max(n, 5) + 1
        hours.close() if fresh else None
    assert hours.partition().find(0) == 5
    assert hours.partition().find(2**62) == 101


def test_finding_without_stored_indexes(hours: FileLog, clock: ManualClock) -> None:
    """They are made again as far as they are needed."""
    for path in hours.files(".index"):
        path.unlink()
    partition = hours.partition()
    start = clock.now_ms() - 100 * HOUR_MS
    assert [partition.find(start + n * HOUR_MS) for n in (70, 5, 99)] == [70, 5, 99]


def test_an_index_of_something_else_misleads_nobody(hours: FileLog) -> None:
    """Whole, but of another segment: it is a convenience, and never the truth."""
    indexes = hours.files(".index")
    small, large = indexes[0], indexes[-1]
    small.write_bytes(large.read_bytes())
    number = int(small.stem)
    assert values_of(hours.partition(), number)[0] == b"%d" % number * 100


def test_reading_past_a_missing_file_is_an_error_and_not_a_skip(hours: FileLog) -> None:
    """Only what repair declared lost is stepped over."""
    run = hours.files(".parquet")[0]
    first, end = (int(number) for number in run.stem.split("-"))
    run.unlink()
    partition = hours.partition()
    with pytest.raises(CorruptLog, match=f"no file holds messages {max(first, 5)} to {end - 1}"):
        partition.read(1, ALL_BYTES)
    assert partition.read(end, 1)[0].first_number == end


def test_what_lies_behind_a_sealed_segment_is_passed_over(log: FileLog) -> None:
    """A refused batch that came back after a power cut, in a segment that is no longer the active one."""
    partition = log.create(segment_bytes="300B")
    for n in range(4):
        partition.append([batch_of(b"%d" % n * 100)])
    sealed = log.files(".log")[0]
    end = int(log.files(".log")[1].stem)
    refused = batch_of(b"refused").numbered(end, log.clock.now_ms()).to_bytes()
    for junk in (refused, b"OTLB" + bytes(100), bytes(10)):
        whole = sealed.read_bytes()
        sealed.write_bytes(whole + junk)
        assert values_of(log.partition()) == [b"%d" % n * 100 for n in range(4)]
        assert log.partition().find(0) == 1
        assert list(log.open().verify()) == []
        sealed.write_bytes(whole)


class TestLayout:
    """Which files count, by their names alone."""

    @staticmethod
    def pieces(folder: FileLog, *names: str, active: int, first: int = 1) -> list[tuple[int, int, str]]:
        folder.root.mkdir(exist_ok=True)
        for name in names:
            stem, _, kind = name.partition(".")
            padded = "-".join(f"{int(number):020d}" for number in stem.split("-"))
            (folder.root / f"{padded}.{kind}").touch()
        return [piece[:3] for piece in pieces_of(folder.root, active, active + 5, first)]

    def test_segments_end_where_the_next_one_starts(self, log: FileLog) -> None:
        assert self.pieces(log, "1.log", "5.log", active=5) == [(1, 5, "log"), (5, 10, "log")]

    def test_a_run_wins_over_the_segments_within_it(self, log: FileLog) -> None:
        names = ("1.log", "3.log", "1-5.parquet", "5.log")
        assert self.pieces(log, *names, active=5) == [(1, 5, "parquet"), (5, 10, "log")]
        assert [path.name for path in leftovers(log.root, 5, 1) if path.suffix == ".log"] == [
            f"{1:020d}.log",
            f"{3:020d}.log",
        ]

    def test_the_longer_run_wins_until_it_is_gone(self, log: FileLog) -> None:
        """Repair makes the parts first, and removes the whole last."""
        names = ("1-9.parquet", "1-3.parquet", "3-5.gap", "5-9.parquet", "9.log")
        assert self.pieces(log, *names, active=9) == [(1, 9, "parquet"), (9, 14, "log")]

    def test_what_is_beyond_the_active_segment_was_never_published(self, log: FileLog) -> None:
        assert self.pieces(log, "1.log", "7.log", active=1) == [(1, 6, "log")]

    def test_what_was_removed_is_left_out(self, log: FileLog) -> None:
        assert self.pieces(log, "1.log", "5.log", "8.log", active=8, first=5) == [(5, 8, "log"), (8, 13, "log")]

    def test_names_that_only_look_like_ours_are_passed_over(self, log: FileLog) -> None:
        self.pieces(log, "1.log", active=1)
        for name in ("1.log", f"{2:020d}-{3:020d}.log", f"{2:020d}.parquet", f"{2:020d}.log.bak", "x.log"):
            (log.root / name).touch()
        assert [file.first for file in find_files(log.root)] == [1]

    def test_without_its_active_segment_there_is_no_layout(self, log: FileLog) -> None:
        self.pieces(log, "1.log", active=1)
        with pytest.raises(FileNotFoundError):
            Layout(log.root, 9, 9, 1)
