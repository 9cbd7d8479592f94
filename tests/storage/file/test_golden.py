"""A file log of format 1, as it was once written: read, and gone on with, by every version that comes."""

import shutil
from pathlib import Path

import pytest

import ottla
from ottla.batch import Batch, Messages, Stamp, columns_of_values
from ottla.clock import ManualClock
from ottla.model import Message
from ottla.settings import TopicSettings
from ottla.testing.filelog import FileLog
from ottla.testing.samples import messages_of

GOLDEN = Path(__file__).parents[2] / "golden" / "file-v1"
PRODUCER = bytes(range(1, 17))
LOST = {15, 16}
"""The numbers of the gap."""


def expected(number: int) -> Message:
    n = (number - 1) // 2
    if number % 2 == 0:
        return Message("", 0, number, n * 1000 + 1, None, None, ())
    headers = (("n", b"%d" % n), ("none", None))
    return Message("", 0, number, n * 1000, b"key %d" % n, b"value %d" % n, headers)


@pytest.fixture
def golden(tmp_path: Path, clock: ManualClock) -> FileLog:
    shutil.copytree(GOLDEN, tmp_path / "log")
    return FileLog(tmp_path / "log", clock)


def test_every_stored_form_is_there(golden: FileLog) -> None:
    """The golden log is worth something only if it has one of each."""
    names = {path.suffix or path.name for path in golden.root.rglob("*") if path.is_file()}
    assert names >= {".log", ".index", ".producers", ".parquet", ".gap", ".json", "control", "changes", "0="}


@pytest.mark.parametrize("read_only", [True, False])
def test_its_messages(golden: FileLog, read_only: bool) -> None:
    engine = golden.open(read_only=read_only)
    partition = engine.partition(engine.topic("deliveries"), 0)
    assert partition.bounds() == (4, 41)
    assert messages_of(partition, 4) == [expected(number) for number in range(4, 41) if number not in LOST]
    assert [batch.count for batch in engine.partition(engine.topic("deliveries"), 1).read(1, 1)] == [2]
    golden.close()


def test_its_times_and_numbers(golden: FileLog) -> None:
    partition = golden.partition()
    assert partition.find(1_700_000_004_000) == 9
    assert partition.find(1_700_000_015_500) == 33
    assert partition.find(1_700_000_020_000) == 41
    (message,) = Messages.of("", 0, partition.read(25, 1), 25, 1)
    assert message == expected(25)
    golden.close()


def test_its_topics_and_metadata(golden: FileLog) -> None:
    engine = golden.open(read_only=True)
    topic = engine.topic("deliveries")
    assert topic.id == "0123456789abcdef0123456789abcdef"
    assert topic.created_ms == 1_700_000_000_000
    assert topic.settings == TopicSettings(partitions=2, segment_bytes=600, partitioner="key-hash")
    assert [each.name for each in engine.topics()] == ["deliveries", "empty"]
    assert engine.load("groups/billing/0") == (b'{"position": 12}', 2)
    assert engine.keys("groups") == ["groups/billing/0"]
    golden.close()


def test_it_goes_on(golden: FileLog) -> None:
    """Producers are known, numbers go on, what is sealed can be compacted, and nothing is damaged."""
    partition = golden.partition()

    def batch(sequence: int) -> Batch:
        return Batch.pack(columns_of_values([b"new"]), stamp=Stamp(PRODUCER, 1, sequence))

    assert partition.append([batch(19)]) == [(39, 2, True)]
    assert partition.append([batch(20)]) == [(41, 1, False)]
    partition.compact()
    assert [message.number for message in messages_of(partition, 4)] == [n for n in range(4, 42) if n not in LOST]
    golden.close()
    assert ottla.verify(golden.url) == []
