"""Damage is reported with file and position and never served; repair sets it aside and loses nothing else."""

import contextlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.errors import CorruptLog, OttlaError
from ottla.model import Damage, Topic
from ottla.storage import Repairable
from ottla.storage.jsonl import JsonlEngine
from ottla.storage.jsonl.lines import encode_batch
from ottla.testing.faults import Fault, failing
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, new_topic, values_of

Open = Callable[..., JsonlEngine]
ALICE = Sender.number(1)
VALUES = [b"%d" % n for n in range(1, 11)]


@pytest.fixture
def topic(opened: Open) -> Topic:
    """Ten messages in batches of 1, 3, 1, 3, 2 by one producer."""
    engine = opened()
    topic = new_topic(engine)
    sizes = [1, 3, 1, 3, 2]
    for sequence, size in enumerate(sizes):
        first = sum(sizes[:sequence])
        engine.partition(topic, 0).append([ALICE.batch(sequence, *VALUES[first : first + size])])
    engine.close()
    return topic


@pytest.fixture
def text(folder: Path) -> Path:
    return folder / "deliveries-1.txt"


def edited(line: bytes) -> bytes:
    return line.replace(b"value", b"VALUE")


def damage_line(text: Path, number: int, change: Callable[[bytes], bytes] = edited) -> None:
    lines = text.read_bytes().splitlines(keepends=True)
    lines[number - 1] = change(lines[number - 1])
    text.write_bytes(b"".join(lines))


def beside(folder: Path, name: str) -> Path:
    (path,) = folder.glob(f"topics/deliveries/{name}")
    return path


def kept(engine: JsonlEngine, topic: Topic) -> list[bytes | None]:
    return values_of(engine.partition(topic, 0))


def assert_sound(engine: JsonlEngine, topic: Topic, lost: set[int]) -> None:
    """All but the lost messages are there, verify finds nothing, and the log goes on."""
    assert list(engine.verify()) == []
    values = [value for value in VALUES if int(value) not in lost]
    assert kept(engine, topic) == values
    assert engine.partition(topic, 0).append([batch_of(b"new")])[0].first == 11
    assert kept(engine, topic) == [*values, b"new"]
    assert list(engine.verify()) == []


def test_an_engine_can_be_verified_and_repaired(opened: Open, topic: Topic) -> None:
    engine = opened()
    assert isinstance(engine, Repairable)
    assert list(engine.verify()) == list(engine.repair()) == []
    assert_sound(engine, topic, set())


@pytest.mark.parametrize("number", range(1, 11))
def test_a_damaged_line_is_reported_and_set_aside(opened: Open, topic: Topic, text: Path, number: int) -> None:
    """Verify names the line and the message that is lost with it; after repair just that one is missing."""
    damage_line(text, number)
    before = text.read_bytes()
    engine = opened()
    with pytest.raises(CorruptLog) as refused:
        kept(engine, topic)
    assert refused.value.path == str(text)
    position = sum(len(line) for line in before.splitlines(keepends=True)[: number - 1])
    (found,) = engine.verify()
    expected = Damage(
        topic="deliveries",
        partition=0,
        path=str(text),
        position=position,
        reason="the line's checksum does not match",
        lost=range(number, number + 1),
    )
    assert found == expected
    assert text.read_bytes() == before
    (mended,) = engine.repair()
    assert mended.set_aside is not None
    assert Path(mended.set_aside).read_bytes() == before.splitlines(keepends=True)[number - 1]
    assert_sound(engine, topic, {number})
    assert_sound_for_producer(opened(), topic, number)


def assert_sound_for_producer(engine: JsonlEngine, topic: Topic, damaged: int) -> None:
    """What the producer's batches were is known as far as their first lines are whole."""
    if damaged not in {9, 10}:
        assert engine.partition(topic, 0).append([ALICE.batch(4)]) == [(9, 2, True)]


def test_bits_flip_anywhere(opened: Open, topic: Topic, folder: Path, tmp_path: Path) -> None:
    """Whatever is flipped is noticed by verify, never served as something else, and mended."""
    chance = random.Random(7)
    whole = (folder / "deliveries-1.txt").read_bytes()
    for round_number in range(60):
        copy = tmp_path / f"copy-{round_number}"
        shutil.copytree(folder, copy)
        flipped = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 5))):
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        (copy / "deliveries-1.txt").write_bytes(flipped)
        engine = opened(copy)
        assert list(engine.verify())
        with contextlib.suppress(CorruptLog):
            assert kept(engine, topic) == VALUES[: len(kept(engine, topic))]
        lost = {number for damage in engine.repair() for number in damage.lost or ()}
        assert lost
        assert_sound(engine, topic, lost)
        engine.close()
        shutil.rmtree(copy)


def test_readers_step_over_the_gap(opened: Open, topic: Topic, text: Path) -> None:
    damage_line(text, 3)
    damage_line(text, 4)
    engine = opened()
    list(engine.repair())
    partition = engine.partition(topic, 0)
    assert [batch.first_number for batch in partition.read(3, ALL_BYTES)] == [5, 6, 9]
    assert [batch.first_number for batch in partition.read(1, ALL_BYTES)] == [1, 2, 5, 6, 9]
    assert partition.bounds() == (1, 11)
    assert partition.trim(4) == (4, 11)
    assert kept(engine, topic) == VALUES[4:]


def test_a_second_repair_keeps_the_first_gap(opened: Open, topic: Topic, text: Path) -> None:
    damage_line(text, 3)
    list(opened().repair())
    damage_line(text, 5)
    engine = opened()
    assert [damage.lost for damage in engine.repair()] == [range(6, 7)]
    assert_sound(engine, topic, {3, 6})


CHANGES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], set[int]]] = {
    "deleted": (lambda lines: lines[:4] + lines[5:], {5}),
    "last deleted": (lambda lines: lines[:9], {10}),
    "end deleted": (lambda lines: lines[:2], set(range(3, 11))),
    "emptied": (lambda lines: lines[:0], set(range(1, 11))),
    "twice": (lambda lines: [*lines[:5], lines[0], *lines[5:]], set()),
    "moved": (lambda lines: [*lines[:4], lines[8], lines[9], *lines[4:]], {5, 6, 7, 8}),
    "joined": (lambda lines: [*lines[:4], lines[4].rstrip(b"\n"), *lines[5:]], {5, 6}),
    "without an end": (lambda lines: [*lines[:9], lines[9][:-1]], {10}),
    "cut": (lambda lines: [*lines[:9], lines[9][:40]], {10}),
    "zeros": (lambda lines: [b"\0" * len(line) for line in lines], set(range(1, 11))),
    "an empty line": (lambda lines: [*lines[:7], b"\n", *lines[7:]], set()),
}


@pytest.mark.parametrize("how", CHANGES)
def test_lines_that_were_moved_or_removed(opened: Open, topic: Topic, text: Path, how: str) -> None:
    change, lost = CHANGES[how]
    text.write_bytes(b"".join(change(text.read_bytes().splitlines(keepends=True))))
    engine = opened()
    assert list(engine.verify())
    found = list(engine.repair())
    assert {number for damage in found for number in damage.lost or ()} == lost
    assert_sound(engine, topic, lost)


def test_a_file_that_is_gone(opened: Open, topic: Topic, text: Path) -> None:
    """Everything is lost, and no number is given twice."""
    text.unlink()
    engine = opened()
    with pytest.raises(CorruptLog, match="missing"):
        kept(engine, topic)
    assert [damage.reason for damage in engine.verify()] == ["the file is missing"]
    assert [damage.lost for damage in engine.repair()] == [range(1, 11)]
    assert_sound(engine, topic, set(range(1, 11)))


def test_lines_of_several_partitions_are_lost(opened: Open, folder: Path) -> None:
    """Where nothing tells whose the last messages were, no partition gives their numbers again."""
    engine = opened()
    topic = new_topic(engine, partitions=2)
    for n in range(4):
        engine.partition(topic, n % 2).append([batch_of(b"%d" % n)])
    text = folder / "deliveries-1.txt"
    lines = text.read_bytes().splitlines(keepends=True)
    text.write_bytes(b"".join(lines[:2]))
    found = list(engine.verify())
    assert [damage.reason for damage in found][-1].startswith("2 messages at its end are lost")
    list(engine.repair())
    assert list(engine.verify()) == []
    for index in range(2):
        assert values_of(engine.partition(topic, index)) == [b"%d" % index]
        assert engine.partition(topic, index).append([batch_of(b"x")])[0].first == 4
        assert values_of(engine.partition(topic, index)) == [b"%d" % index, b"x"]


@pytest.mark.usefixtures("topic")
def test_a_line_of_another_topic_with_a_right_checksum(opened: Open, text: Path) -> None:
    text.write_bytes(text.read_bytes() + encode_batch("other", 0, batch_of(b"x").numbered(11, 1)))
    engine = opened()
    assert list(engine.verify()) == []  # it is behind the acknowledged end: a torn tail, which the next append cuts
    damage_line(text, 1, lambda _: encode_batch("other", 0, batch_of(b"1").numbered(1, 1)))
    assert "topic 'other'" in next(iter(engine.verify())).reason


def test_a_damaged_state(opened: Open, topic: Topic, folder: Path) -> None:
    """It is made again from the lines, producers too."""
    path = beside(folder, "*/1/state")
    stored = path.read_bytes()
    path.write_bytes(stored.replace(b"position", b"POSITION"))
    engine = opened()
    with pytest.raises(CorruptLog, match="state"):
        kept(engine, topic)
    assert [damage.path for damage in engine.verify()] == [str(path)]
    (mended,) = engine.repair()
    assert mended.set_aside is not None
    assert Path(mended.set_aside).read_bytes() != stored
    assert engine.partition(topic, 0).append([ALICE.batch(4)]) == [(9, 2, True)]
    assert_sound(engine, topic, set())


def test_a_lost_state_of_an_emptied_log(opened: Open, topic: Topic, folder: Path) -> None:
    """Even then no number is given twice: the control file has counted them."""
    opened().partition(topic, 0).trim(11)
    beside(folder, "*/1/state").unlink()
    engine = opened()
    assert list(engine.verify())
    list(engine.repair())
    assert list(engine.verify()) == []
    assert engine.partition(topic, 0).append([batch_of(b"new")])[0].first == 11


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 1024, b"\xff" * 1024, None], ids=["empty", "zeros", "ones", "missing"]
)
def test_a_damaged_control_file(opened: Open, topic: Topic, folder: Path, content: bytes | None) -> None:
    """It is made again from the state and the lines."""
    path = beside(folder, "*/1/control")
    path.unlink() if content is None else path.write_bytes(content)
    engine = opened()
    with pytest.raises(CorruptLog, match="control"):
        engine.partition(topic, 0).bounds()
    with pytest.raises(CorruptLog, match="control"):
        engine.partition(topic, 0).append([batch_of(b"x")])
    assert [damage.path for damage in engine.verify()] == [str(path)]
    assert [damage.path for damage in engine.repair()] == [str(path)]
    assert_sound(engine, topic, set())


@pytest.mark.parametrize("slot", [0, 512])
def test_one_damaged_slot_of_the_control_file(opened: Open, topic: Topic, folder: Path, slot: int) -> None:
    """Nothing is lost by it, and repair puts it right."""
    path = beside(folder, "*/1/control")
    content = bytearray(path.read_bytes())
    content[slot + 40] ^= 1
    path.write_bytes(content)
    engine = opened()
    assert kept(engine, topic)[: len(VALUES)] in (VALUES, VALUES[:8])
    assert [damage.path for damage in engine.verify()] == [str(path)]
    assert len(list(engine.repair())) == 1
    assert_sound(engine, topic, set())


def test_everything_is_damaged_at_once(opened: Open, topic: Topic, folder: Path, text: Path) -> None:
    damage_line(text, 5)
    beside(folder, "*/1/state").write_bytes(b"?")
    beside(folder, "*/1/control").write_bytes(b"?")
    beside(folder, "*/brokers.json").write_bytes(b"?")
    beside(folder, "*/topic.json").write_bytes(b"?")
    engine = opened()
    assert len(list(engine.verify())) == 1  # what is behind it cannot be named
    found = [Path(damage.path).name for damage in engine.repair()]
    assert sorted(found) == ["brokers.json", "control", "deliveries-1.txt", "state", "topic.json"]
    assert_sound(engine, topic, {5})


def test_a_lost_number_of_brokers_is_found_by_where_the_messages_are(opened: Open, folder: Path) -> None:
    engine = opened(query="?brokers=3")
    topic = new_topic(engine, partitions=7)
    for index in range(7):
        engine.partition(topic, index).append([batch_of(b"%d" % index)])
    beside(folder, "*/brokers.json").unlink()
    again = opened()
    assert [Path(damage.path).name for damage in again.repair()] == ["brokers.json"]
    assert again.brokers(topic) == 3
    assert [values_of(again.partition(topic, index)) for index in range(7)] == [[b"%d" % index] for index in range(7)]
    assert list(again.verify()) == []


def test_text_of_no_topic_is_set_aside(opened: Open, topic: Topic, folder: Path) -> None:
    for name in ("gone-1.txt", "deliveries-2.txt"):
        (folder / name).write_text("{}\n")
    (folder / "notes.txt").write_text("mine")
    engine = opened()
    assert [Path(damage.path).name for damage in engine.verify()] == ["deliveries-2.txt", "gone-1.txt"]
    moved = [damage.set_aside for damage in engine.repair()]
    assert [Path(path or "").read_text() for path in moved] == ["{}\n", "{}\n"]
    assert (folder / "notes.txt").exists()
    assert_sound(engine, topic, set())


def test_damage_behind_a_restart(opened: Open, topic: Topic, folder: Path, tmp_path: Path) -> None:
    """In another incarnation, where the file must be read on to know what counts, repair works all the same."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    damage_line(copy / "deliveries-1.txt", 6)
    engine = opened(copy)
    with pytest.raises(CorruptLog):
        engine.partition(topic, 0).append([batch_of(b"x")])
    assert [damage.lost for damage in engine.verify()] == [range(6, 7)]
    assert [damage.lost for damage in engine.repair()] == [range(6, 7)]
    assert_sound(engine, topic, {6})


MENDING = [
    *(Fault("sync_folder_fd", nth=nth) for nth in range(1, 9)),
    Fault("open", on=".txt", nth=2),
    Fault("sync", on=".txt"),
    Fault("rename", on="state.new"),
    Fault("pwritev", on="control"),
    Fault("rename", on="deliveries-1.txt"),
    Fault("rename", on="deliveries-1.txt", when="after"),
    Fault("rename", on="state"),
    Fault("pwritev", on="control", nth=2),
    Fault("pwritev", on="control", nth=3),
    Fault("sync", on="control"),
]
"""Every step of a repair."""


@pytest.mark.parametrize("fault", MENDING, ids=str)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_a_repair_that_is_cut_short_is_repeated(
    opened: Open, topic: Topic, folder: Path, tmp_path: Path, fault: Fault, restarted: bool
) -> None:
    """Wherever it ends, nothing more is lost, and the next one does the work."""
    copy = shutil.copytree(folder, tmp_path / "copy") if restarted else folder
    damage_line(copy / "deliveries-1.txt", 6)
    with failing() as files:
        engine = opened(copy)
        files.fail(fault)
        with contextlib.suppress(OttlaError):
            list(engine.repair())
        files.fail()
        list(engine.repair())
    assert_sound(opened(copy), topic, {6})


def test_what_is_left_of_a_batch_is_json_too(opened: Open, topic: Topic, text: Path) -> None:
    damage_line(text, 3)
    list(opened().repair())
    lines = [json.loads(line) for line in text.read_text().splitlines()]
    assert [line["offset"] for line in lines] == [1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert [line.get("batch") for line in lines][:4] == [None, None, None, None]
    assert topic.name == lines[0]["topic"]
