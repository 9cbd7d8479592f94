"""verify names every kind of damage and changes nothing; repair sets it aside, and loses nothing else."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.batch import Batch
from ottla.clock import ManualClock
from ottla.errors import CorruptLog, StorageFailed
from ottla.model import Damage, Message
from ottla.testing.filelog import FileLog, flip
from ottla.testing.samples import Sender, batch_of, messages_of, values_of
from ottla.testing.steps import Unsynced

WRITER = Sender.number(1)


@pytest.fixture
def whole(quick_log: FileLog, clock: ManualClock) -> FileLog:
    """Messages 1 to 40: a run of two row groups, three sealed segments, an active one. Every batch holds two."""
    log = quick_log
    partition = log.create(segment_bytes="1KiB")
    for n in range(20):
        partition.append([WRITER.batch(n, b"%d" % n * 50, b"%d" % n * 60)])
        clock.advance(10)
        if n == 9:
            partition.compact()
    log.close()
    return log


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.file.runs._ROW_GROUP_ROWS", 4)


def truncate(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def size_of_batch(path: Path) -> int:
    return Batch.parse(path.read_bytes()).size


def flip_body(log: FileLog) -> Path:
    path = log.files(".log")[0]
    flip(path, size_of_batch(path) + 150)
    return path


def flip_header(log: FileLog) -> Path:
    path = log.files(".log")[0]
    flip(path, size_of_batch(path) + 20)
    return path


def flip_first_header(log: FileLog) -> Path:
    path = log.files(".log")[1]
    flip(path, 3)
    return path


def flip_active(log: FileLog) -> Path:
    path = log.files(".log")[-1]
    flip(path, 150)
    return path


def truncate_sealed(log: FileLog) -> Path:
    path = log.files(".log")[1]
    truncate(path, size_of_batch(path) + 30)
    return path


def truncate_active(log: FileLog) -> Path:
    path = log.files(".log")[-1]
    truncate(path, size_of_batch(path) + 30)
    return path


def remove_sealed(log: FileLog) -> Path:
    path = log.files(".log")[1]
    path.unlink()
    return path


def remove_active(log: FileLog) -> Path:
    path = log.files(".log")[-1]
    path.unlink()
    return path


def flip_row_group(log: FileLog) -> Path:
    path = log.files(".parquet")[0]
    flip(path, 100)
    return path


def flip_footer(log: FileLog) -> Path:
    path = log.files(".parquet")[0]
    flip(path, -100)
    return path


def truncate_run(log: FileLog) -> Path:
    path = log.files(".parquet")[0]
    truncate(path, path.stat().st_size // 2)
    return path


def remove_run(log: FileLog) -> Path:
    path = log.files(".parquet")[0]
    path.unlink()
    return path


def destroy_control(log: FileLog) -> Path:
    path = log.folder() / "control"
    path.write_bytes(b"\xff" * 1024)
    return path


def remove_control(log: FileLog) -> Path:
    path = log.folder() / "control"
    path.unlink()
    return path


def destroy_slot(log: FileLog) -> Path:
    path = log.folder() / "control"
    flip(path, 50)
    return path


def destroy_producers(log: FileLog) -> Path:
    path = log.files(".producers")[-1]
    flip(path, 10)
    return path


def remove_producers(log: FileLog) -> Path:
    path = log.files(".producers")[-1]
    path.unlink()
    return path


def destroy_topic(log: FileLog) -> Path:
    (path,) = log.root.glob("topics/deliveries/*/topic.json")
    path.write_text("{}")
    return path


def zeros_in_the_middle(log: FileLog) -> Path:
    path = log.files(".log")[0]
    data = path.read_bytes()
    path.write_bytes(data[:200] + bytes(300) + data[500:])
    return path


DAMAGES: list[Callable[[FileLog], Path]] = [
    flip_body, flip_header, flip_first_header, flip_active, truncate_sealed, truncate_active, remove_sealed,
    remove_active, flip_row_group, flip_footer, truncate_run, remove_run, destroy_control, remove_control, destroy_slot,
    destroy_producers, remove_producers, destroy_topic, zeros_in_the_middle,
]  # fmt: skip
every_damage = pytest.mark.parametrize("damage", DAMAGES, ids=[each.__name__ for each in DAMAGES])
LOSSLESS = {destroy_control, remove_control, destroy_slot, destroy_producers, remove_producers, destroy_topic}


def lost_in(damages: list[Damage]) -> list[int]:
    return [number for each in damages if each.lost is not None for number in each.lost]


@pytest.mark.usefixtures("small_row_groups")
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@every_damage
def test_every_kind(whole: FileLog, damage: Callable[[FileLog], Path], restarted: bool) -> None:
    original = messages_of(whole.partition())
    whole.close()
    path = damage(whole)
    bytes_then = path.read_bytes() if path.exists() else None
    if restarted:
        whole.reboot()
    before = whole.tree()

    found = ottla.verify(whole.url)
    assert whole.tree() == before, "verify changed something"
    named = {each.path for each in found}
    assert str(path) in named or (bytes_then is None and str(path.parent) in named)
    lost = lost_in(found)
    assert bool(lost) == (damage not in LOSSLESS)
    assert len(lost) <= (20 if "run" in damage.__name__ or damage is flip_footer else 10)

    mended = ottla.repair(whole.url)
    assert lost_in(mended) == lost
    for each in mended:
        assert each.path in {every.path for every in found}
    if bytes_then is not None:
        (saved,) = {each.set_aside for each in mended if each.path == str(path)}
        assert saved is not None
        assert Path(saved).read_bytes() == bytes_then
        assert (whole.root / "damaged") in Path(saved).parents

    assert ottla.verify(whole.url) == []
    kept = [message for message in original if message.number not in lost]
    assert messages_of(whole.partition()) == kept
    check_goes_on(whole, original, lost)


def check_goes_on(log: FileLog, original: list[Message], lost: list[int]) -> None:
    after = log.tree()
    assert ottla.repair(log.url) == []
    assert log.tree() == after, "a second repair changed something"
    partition = log.partition()
    next_number = original[-1].number + 1
    assert partition.bounds() == (1, next_number)
    assert partition.append([batch_of(b"next")])[0].first == next_number
    assert values_of(partition)[-1] == b"next"
    for number in lost:
        batches = partition.read(number, 1)
        assert batches[0].first_number > number
        assert batches[0].first_number not in lost
    assert ottla.verify(log.url) == []
    for _ in range(20):
        partition.append([batch_of(b"x" * 300)])
    partition.compact()
    assert ottla.verify(log.url) == []
    assert values_of(log.partition())[-1] == b"x" * 300


@pytest.mark.usefixtures("small_row_groups")
def test_all_kinds_at_once(whole: FileLog) -> None:
    """Several damages in one partition are all named, and all mended by one repair."""
    original = messages_of(whole.partition())
    whole.close()
    for damage in (flip_header, flip_row_group, truncate_active, destroy_producers):
        damage(whole)
    assert len(ottla.verify(whole.url)) == 4
    lost = lost_in(ottla.repair(whole.url))
    assert ottla.verify(whole.url) == []
    assert messages_of(whole.partition()) == [m for m in original if m.number not in lost]
    assert 0 < len(lost) < 20


def test_producers_are_remembered_through_a_repair(whole: FileLog) -> None:
    """A retry of what the log holds is a duplicate after the control file was lost, too."""
    destroy_control(whole)
    ottla.repair(whole.url)
    partition = whole.partition()
    assert partition.append([WRITER.batch(19, b"again")]) == [(39, 2, True)]
    assert partition.append([WRITER.batch(20, b"new")]) == [(41, 1, False)]


def test_a_lost_control_file_is_never_taken_for_an_empty_partition(whole: FileLog) -> None:
    """Starting again at 1 would overwrite what is there."""
    path = remove_control(whole)
    before = whole.tree()
    partition = whole.partition()
    for attempt in (partition.bounds, lambda: partition.read(1, 1), lambda: partition.append([batch_of(b"x")])):
        with pytest.raises(CorruptLog, match="there are messages") as refused:
            attempt()
        assert refused.value.path == str(path)
    assert whole.tree() == before


def test_an_unpublished_roll_beside_a_lost_control_file_hides_nothing(whole: FileLog) -> None:
    """An empty segment that a killed roll left is not taken for the newest one."""
    original = messages_of(whole.partition())
    whole.close()
    active = whole.files(".log")[-1]
    (active.parent / f"{int(active.stem) + 2:020d}.log").touch()
    assert messages_of(whole.partition()) == original
    whole.close()
    destroy_control(whole)
    assert lost_in(ottla.verify(whole.url)) == []
    ottla.repair(whole.url)
    assert messages_of(whole.partition()) == original
    assert ottla.verify(whole.url) == []


def test_messages_that_look_like_batches_are_not_brought_to_life(quick_log: FileLog) -> None:
    """A message may hold the bytes of a batch: when its own batch is damaged, they are still no batch of this log."""
    partition = quick_log.create()
    inner = batch_of(b"impostor").numbered(2, quick_log.clock.now_ms()).to_bytes()
    partition.append([batch_of(b"first")])
    partition.append([batch_of(*(bytes(n) + inner for n in range(8)))])
    partition.append([batch_of(b"last")])
    path = quick_log.files(".log")[0]
    flip(path, size_of_batch(path) + 100)
    assert lost_in(ottla.repair(quick_log.url)) == list(range(2, 10))
    assert values_of(quick_log.partition()) == [b"first", b"last"]


def test_a_topic_without_its_description_gets_the_default_settings(whole: FileLog) -> None:
    """Its messages are worth more than its settings, and those are set aside."""
    destroy_topic(whole)
    with pytest.raises(CorruptLog):
        whole.topic()
    (damage,) = ottla.repair(whole.url)
    assert damage.topic == "deliveries"
    assert damage.partition is None
    assert whole.topic().settings.partitions == 1
    assert len(values_of(whole.partition())) == 40


def test_damaged_metadata_is_set_aside(whole: FileLog) -> None:
    whole.open().store("groups/billing", b"old", 0)
    whole.close()
    path = whole.root / "metadata/groups/billing="
    flip(path, -1)
    with pytest.raises(CorruptLog):
        whole.open().load("groups/billing")
    assert [damage.path for damage in ottla.verify(whole.url)] == [str(path)]
    (damage,) = ottla.repair(whole.url)
    assert damage.set_aside is not None
    assert Path(damage.set_aside).exists()
    assert whole.open().load("groups/billing") is None
    assert ottla.verify(whole.url) == []


def test_a_reader_of_another_process_goes_on_through_a_repair(whole: FileLog) -> None:
    """It has the damaged file open, and its positions: it meets the damage first, and the gap after the repair."""
    reader = whole.partition()
    values_of(reader)
    flip_active(whole)
    with pytest.raises(CorruptLog):
        values_of(whole.partition())
    lost = lost_in(ottla.repair(whole.url))
    numbers = [message.number for message in messages_of(reader)]
    assert numbers == [number for number in range(1, 41) if number not in lost]


def test_verify_of_a_log_that_is_written_meanwhile(quick_log: FileLog) -> None:
    """Rolls, compaction and retention under its feet are no damage."""
    partition = quick_log.create(segment_bytes="500B")
    engine = quick_log.open(read_only=True)
    for n in range(60):
        partition.append([batch_of(b"%d" % n * 100)])
    looking = iter(engine.verify())
    for n in range(60):
        partition.append([batch_of(b"%d" % n * 100)])
        if n % 20 == 0:
            partition.compact()
            partition.trim(n)
    assert list(looking) == []


class BadSector(Unsynced):
    """A disk that cannot read one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fds: set[int] = set()

    def open(self, path: Path, flags: int) -> int:
        fd = super().open(path, flags)
        self._fds.discard(fd)
        if path == self._path:
            self._fds.add(fd)
        return fd

    def read_at(self, fd: int, size: int, position: int) -> bytes:
        if fd in self._fds:
            raise OSError(errno.EIO, "Input/output error")
        return super().read_at(fd, size, position)


@pytest.mark.parametrize("suffix", [".log", ".parquet"])
def test_what_cannot_be_read_is_named_and_left_alone(whole: FileLog, suffix: str) -> None:
    """There is nothing to set aside: repair says that the disk is broken, and changes nothing."""
    path = whole.files(suffix)[0]
    files = BadSector(path)
    before = whole.tree()
    (damage,) = whole.open(files=files).verify()
    assert damage.path == str(path)
    assert "Input/output error" in damage.reason
    with pytest.raises(StorageFailed):
        list(whole.open(files=files).repair())
    with pytest.raises(StorageFailed):
        values_of(whole.partition(files=files))
    assert whole.tree() == before
    assert len(values_of(whole.partition())) == 40


def test_nothing_is_wrong_with_an_empty_log(quick_log: FileLog) -> None:
    quick_log.create()
    quick_log.close()
    assert ottla.verify(quick_log.url) == []
    assert ottla.repair(quick_log.url) == []
