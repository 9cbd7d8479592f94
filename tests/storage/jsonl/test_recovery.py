"""A process dies, or the machine does: what was acknowledged is there, and a batch is whole or absent."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.errors import CorruptLog
from ottla.storage.jsonl import JsonlEngine
from ottla.testing.samples import Sender, batch_of, new_topic, values_of

Open = Callable[..., JsonlEngine]
ALICE = Sender.number(1)


class Copies:
    """Copies of a log: another incarnation each, as after a restart of the machine."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source = source
        self._target = target
        self._count = 0

    def __call__(self, text: bytes | None = None, control: bytes | None = None) -> Path:
        self._count += 1
        copy = self._target / f"copy-{self._count}"
        shutil.copytree(self._source, copy)
        if text is not None:
            (copy / "deliveries-1.txt").write_bytes(text)
        if control is not None:
            control_of(copy).write_bytes(control)
        return copy


def control_of(folder: Path) -> Path:
    (path,) = folder.glob("topics/deliveries/*/1/control")
    return path


@pytest.fixture
def copies(folder: Path, tmp_path: Path) -> Copies:
    return Copies(folder, tmp_path)


def test_a_torn_tail_after_a_restart(opened: Open, folder: Path, copies: Copies) -> None:
    """Cut the last batch at every byte: it is absent unless it is whole, and the next append goes on."""
    engine = opened()
    partition = engine.partition(new_topic(engine), 0)
    partition.append([ALICE.batch(0, b"a", b"b")])
    control, before = control_of(folder).read_bytes(), (folder / "deliveries-1.txt").stat().st_size
    partition.append([ALICE.batch(1, b"c", b"", None)])
    text = (folder / "deliveries-1.txt").read_bytes()
    for size in range(before, len(text) + 1):
        copy = opened(copies(text[:size], control))
        again = copy.partition(copy.topic("deliveries"), 0)
        kept = [b"a", b"b", b"c", b"", None] if size == len(text) else [b"a", b"b"]
        assert values_of(again) == kept
        assert again.append([ALICE.batch(1, b"c", b"", None)])[0] == (3, 3, size == len(text))
        assert again.append([batch_of(b"d")])[0].first == 6
        assert values_of(again) == [b"a", b"b", b"c", b"", None, b"d"]


def test_garbage_behind_the_end_after_a_restart(opened: Open, folder: Path, copies: Copies) -> None:
    """Sectors that never made it are zeros, or somebody else's bytes; they are cut like any torn tail."""
    engine = opened()
    engine.partition(new_topic(engine), 0).append([batch_of(b"a")])
    text = (folder / "deliveries-1.txt").read_bytes()
    for garbage in (
        b"\0" * 1000,
        b"\n",
        b"{}\n",
        text,
        text[:-1],
        b"\xff" * 70_000,
        text.replace(b'"offset":1', b'"offset":3'),
    ):
        path = copies(text + garbage)
        partition = opened(path).partition(opened(path).topic("deliveries"), 0)
        assert values_of(partition) == [b"a"]
        assert partition.append([batch_of(b"b")])[0].first == 2
        assert values_of(partition) == [b"a", b"b"]
        assert list(opened(path).verify()) == []


def test_what_a_killed_process_left_is_cut(opened: Open, folder: Path) -> None:
    """In the same incarnation only what is published counts, be the rest whole or not."""
    engine = opened()
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"a")])
    text = folder / "deliveries-1.txt"
    whole = text.read_bytes().replace(b'"offset":1', b'"offset":2')
    for left in (whole, whole[:20], b"\0" * 500):
        number = partition.bounds().next
        with text.open("ab") as file:
            file.write(left)
        assert partition.bounds().next == number
        assert values_of(opened().partition(opened().topic("deliveries"), 0))[-1] != b""
        assert opened().partition(opened().topic("deliveries"), 0).append([batch_of(b"n")])[0].first == number
    assert values_of(partition) == [b"a", b"n", b"n", b"n"]
    assert list(engine.verify()) == []


def test_acknowledged_bytes_that_are_gone_are_damage(opened: Open, folder: Path, copies: Copies) -> None:
    """A file that ends before its acknowledged end is reported, with file and position, and nothing is cut."""
    engine = opened()
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"a")])
    partition.append([batch_of(b"b")])
    text = (folder / "deliveries-1.txt").read_bytes()
    for size in (0, 10, len(text) // 2, len(text) - 1):
        path = copies(text[:size])
        broken = opened(path).partition(opened(path).topic("deliveries"), 0)
        with pytest.raises(CorruptLog, match=r"deliveries-1\.txt"):
            broken.bounds()
        with pytest.raises(CorruptLog, match=r"deliveries-1\.txt"):
            broken.append([batch_of(b"c")])
        assert (path / "deliveries-1.txt").stat().st_size == size
    (folder / "deliveries-1.txt").write_bytes(text[:-1])
    with pytest.raises(CorruptLog, match="acknowledged"):
        partition.append([batch_of(b"c")])


def test_a_longer_line_is_not_a_torn_tail(opened: Open, folder: Path) -> None:
    """An edit by hand moved the acknowledged end into a line: that is damage, and cutting would lose more."""
    engine = opened()
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"a"), batch_of(b"b")])
    text = folder / "deliveries-1.txt"
    text.write_bytes(text.read_bytes().replace(b'"value":"a"', b'"value":"aaa"'))
    size = text.stat().st_size
    with pytest.raises(CorruptLog, match="within a line"):
        partition.append([batch_of(b"c")])
    assert text.stat().st_size == size


def test_a_read_only_reader_recovers_nothing(opened: Open, folder: Path, copies: Copies) -> None:
    """It believes what an appender would find, and leaves the torn tail where it is."""
    engine = opened()
    engine.partition(new_topic(engine), 0).append([batch_of(b"a")])
    text = (folder / "deliveries-1.txt").read_bytes()
    path = copies(text + b'{"v":1,"topic":')
    reader = opened(path, read_only=True)
    assert values_of(reader.partition(reader.topic("deliveries"), 0)) == [b"a"]
    assert (path / "deliveries-1.txt").stat().st_size == len(text) + 15


def test_many_partitions_come_back(opened: Open, copies: Copies) -> None:
    """Numbers and producers of every partition in the file are found again by reading it."""
    engine = opened()
    topic = new_topic(engine, partitions=4)
    for n in range(12):
        engine.partition(topic, n % 4).append([Sender.number(n % 4).batch(n // 4, b"%d" % n)])
    again = opened(copies())
    for index in range(4):
        partition = again.partition(topic, index)
        assert partition.append([Sender.number(index).batch(2, b"x")]) == [(3, 1, True)]
        assert partition.append([Sender.number(index).batch(3, b"x")]) == [(4, 1, False)]
        assert values_of(partition) == [b"%d" % n for n in range(index, 12, 4)] + [b"x"]


def test_only_the_end_of_a_long_file_is_read_to_open_it(
    opened: Open, folder: Path, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is stored now and then: damage before it is not even seen by an appender."""
    monkeypatch.setattr("ottla.storage.jsonl.ledger._SAVE_BYTES", 1000)
    engine = opened()
    partition = engine.partition(new_topic(engine), 0)
    for n in range(30):
        partition.append([ALICE.batch(n)])
    text = (folder / "deliveries-1.txt").read_bytes()
    path = copies(b"X" + text[1:])
    again = opened(path).partition(opened(path).topic("deliveries"), 0)
    assert again.append([ALICE.batch(29)]) == [(30, 1, True)]
    assert again.append([ALICE.batch(30)]) == [(31, 1, False)]
    assert values_of(again, 25) == [b"%d" % n for n in range(24, 31)]
    with pytest.raises(CorruptLog):
        again.read(1, 1)
