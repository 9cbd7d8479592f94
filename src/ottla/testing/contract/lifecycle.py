"""Opening, reading only, closing."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import Closed, OttlaError, ReadOnly
from ottla.storage import Engine, PartitionStore
from ottla.testing.contract.base import Contract, Storage
from ottla.testing.samples import ALL_BYTES, Sender, batch_of, new_topic, values_of

WRITES: dict[str, Callable[[Engine, PartitionStore], Any]] = {
    "append": lambda _, partition: partition.append([batch_of(b"x")]),
    "trim": lambda _, partition: partition.trim(2),
    "expire": lambda _, partition: partition.expire(max_bytes=1),
    "create": lambda engine, _: new_topic(engine, "another"),
    "alter": lambda engine, _: engine.alter_topic(engine.topic("deliveries")),
    "delete": lambda engine, _: engine.delete_topic("deliveries"),
    "store": lambda engine, _: engine.store("a/c", b"x", 0),
    "discard": lambda engine, _: engine.discard("a/b"),
}
READS: dict[str, Callable[[Engine, PartitionStore], Any]] = {
    "read": lambda _, partition: partition.read(1, ALL_BYTES),
    "bounds": lambda _, partition: partition.bounds(),
    "find": lambda _, partition: partition.find(0),
    "size": lambda _, partition: partition.size(),
    "topic": lambda engine, _: engine.topic("deliveries"),
    "topics": lambda engine, _: engine.topics(),
    "load": lambda engine, _: engine.load("a/b"),
    "keys": lambda engine, _: engine.keys("a"),
}


class LifecycleContract(Contract):
    """Reopening, read-only, closing."""

    def test_everything_survives_reopening(self, lasting_storage: Storage) -> None:
        """Again and again: all messages at their numbers, and the next append goes on."""
        new_topic(lasting_storage.open(), segment_bytes="1KiB")
        values: list[bytes | None] = []
        for n in range(10):
            engine = lasting_storage.reopen()
            partition = engine.partition(engine.topic("deliveries"), 0)
            assert values_of(partition) == values
            values += [b"%d" % n * 50, None, b""]
            assert partition.append([batch_of(*values[-3:])])[0].first == len(values) - 2

    def test_what_was_acknowledged_needs_no_closing(self, shared_storage: Storage) -> None:
        """An engine that was never closed has kept its promises already."""
        engine = shared_storage.open()
        engine.partition(new_topic(engine), 0).append([Sender.number(1).batch(0), batch_of(b"a")])
        engine.store("a/b", b"data", 0)
        other = shared_storage.open()
        partition = other.partition(other.topic("deliveries"), 0)
        assert values_of(partition) == [b"0", b"a"]
        assert partition.append([Sender.number(1).batch(0)]) == [(1, 1, True)]
        assert other.load("a/b") is not None

    def test_opening_creates_nothing_to_see(self, engine: Engine) -> None:
        """A new log is empty."""
        assert engine.topics() == []
        assert engine.keys("groups") == []

    @pytest.mark.parametrize("write", WRITES)
    def test_read_only_refuses_to_write(self, lasting_storage: Storage, tmp_path: Path, write: str) -> None:
        """Every change is refused with a sentence, and the storage is untouched, byte for byte."""
        _prepare(lasting_storage)
        before = _snapshot(tmp_path)
        engine = lasting_storage.open(read_only=True)
        with pytest.raises(ReadOnly):
            WRITES[write](engine, engine.partition(engine.topic("deliveries"), 0))
        lasting_storage.close()
        assert _snapshot(tmp_path) == before

    def test_read_only_reads(self, lasting_storage: Storage, tmp_path: Path) -> None:
        """Everything can be read, and reading leaves no trace."""
        _prepare(lasting_storage)
        before = _snapshot(tmp_path)
        engine = lasting_storage.open(read_only=True)
        partition = engine.partition(engine.topic("deliveries"), 0)
        assert values_of(partition) == [b"a", b"b"]
        assert partition.bounds() == (1, 3)
        assert partition.find(0) == 1
        assert not engine.wait({partition: 3}, 0.01)
        for read in READS.values():
            read(engine, partition)
        lasting_storage.close()
        assert _snapshot(tmp_path) == before

    def test_read_only_follows_a_writer(self, shared_storage: Storage) -> None:
        """A read-only engine sees what others append after it was opened."""
        writer = shared_storage.open()
        partition = writer.partition(new_topic(writer), 0)
        reader = shared_storage.open(read_only=True)
        followed = reader.partition(reader.topic("deliveries"), 0)
        for n in range(1, 4):
            partition.append([batch_of(b"%d" % n)])
            assert reader.wait({followed: n}, 60)
            assert values_of(followed, n) == [b"%d" % n]

    def test_read_only_creates_nothing(self, storage: Storage, tmp_path: Path) -> None:
        """A storage that is not there is not made by looking at it."""
        before = _snapshot(tmp_path)
        with contextlib.suppress(OttlaError):
            assert storage.open(read_only=True).topics() == []
        assert _snapshot(tmp_path) == before

    @pytest.mark.parametrize("use", [*WRITES, *READS])
    def test_a_closed_engine_says_so(self, engine: Engine, partition: PartitionStore, use: str) -> None:
        """Whatever is asked of a closed engine, or of its partitions, the answer is that it is closed."""
        engine.close()
        with pytest.raises(Closed):
            (WRITES | READS)[use](engine, partition)

    def test_closing_twice_is_no_error(self, engine: Engine, partition: PartitionStore) -> None:
        """The second close finds nothing to do."""
        partition.append([batch_of(b"a")])
        engine.close()
        engine.close()

    def test_closing_one_engine_leaves_the_other(self, shared_storage: Storage) -> None:
        """Engines on the same storage do not share their fate."""
        one, other = shared_storage.open(), shared_storage.open()
        topic = new_topic(one)
        one.partition(topic, 0).append([batch_of(b"a")])
        one.close()
        assert other.partition(topic, 0).append([batch_of(b"b")])[0].first == 2


def _prepare(storage: Storage) -> None:
    engine = storage.open()
    engine.partition(new_topic(engine), 0).append([batch_of(b"a", b"b")])
    engine.store("a/b", b"data", 0)
    storage.close()


def _snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below *folder*: when it was last written, and what is in it."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    }
