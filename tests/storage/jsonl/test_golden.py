"""A log that was stored long ago is still read, to the last byte, and goes on."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.batch import Stamp
from ottla.model import Topic
from ottla.storage.jsonl import JsonlEngine
from ottla.testing.samples import Sender, batch_of, messages_of

_FOLDER = Path(__file__).parents[2] / "golden" / "jsonl"
_APPENDED = 1_700_000_000_555
_PRODUCER = bytes.fromhex("000102030405060708090a0b0c0d0e0f")

Open = Callable[..., JsonlEngine]


@pytest.fixture
def engine(folder: Path, opened: Open) -> JsonlEngine:
    """A copy: another incarnation than that which wrote it, as on another machine."""
    shutil.copytree(_FOLDER, folder)
    return opened()


def rows(engine: JsonlEngine, topic: Topic, index: int) -> list[tuple[object, ...]]:
    return [message[2:] for message in messages_of(engine.partition(topic, index))]


def test_a_stored_log_is_read(engine: JsonlEngine) -> None:
    deliveries = engine.topic("deliveries")
    assert engine.brokers(deliveries) == 2
    assert rows(engine, deliveries, 0) == [
        (2, -1, None, None, ()),
        (3, 2**60, b"", b"", (("é", b"\xff"),)),
        (4, 0, b"\xff", b"\x00\xff", (("", b""),)),
        (5, 5, b"k", "line\none \u2028 \U0001f69a".encode(), ()),
        (7, _APPENDED + 1000, None, b"last", ()),
    ]
    assert rows(engine, deliveries, 1) == [(1, _APPENDED, None, b"other broker", ())]
    assert rows(engine, deliveries, 2) == [(1, _APPENDED + 1000, None, b"a", ()), (2, _APPENDED + 1000, None, b"b", ())]
    assert [engine.partition(deliveries, index).bounds() for index in range(3)] == [(2, 8), (1, 2), (1, 3)]
    assert engine.partition(deliveries, 0).find(_APPENDED + 1) == 7
    assert engine.partition(engine.topic("emptied"), 0).bounds() == (3, 3)
    assert list(engine.verify()) == []


def test_a_stored_log_goes_on(engine: JsonlEngine) -> None:
    """Numbers, and the sequences of producers, also of one whose messages are gone."""
    deliveries, writer = engine.topic("deliveries"), Sender(_PRODUCER, 3)
    assert engine.partition(deliveries, 0).append([writer.batch(0)]) == [(1, 5, True)]
    assert engine.partition(deliveries, 0).append([writer.batch(1)]) == [(8, 1, False)]
    sink = batch_of(b"x", stamp=Stamp(b"ottla-spark-sink", 0, 42, sparse=True))
    assert engine.partition(deliveries, 1).append([sink]) == [(1, 1, True)]
    emptied = engine.partition(engine.topic("emptied"), 0)
    assert emptied.append([writer.batch(0)]) == [(1, 2, True)]
    assert emptied.append([writer.batch(1)]) == [(3, 1, False)]


def test_a_stored_log_is_read_without_touching_it(folder: Path, opened: Open) -> None:
    shutil.copytree(_FOLDER, folder)
    engine = opened(read_only=True)
    assert [len(rows(engine, engine.topic("deliveries"), index)) for index in range(3)] == [5, 1, 2]
