"""Makes `file-v1/`: a small and complete file log of format 1. Run once; what it made is read by tests for ever.

python tests/golden/make_file_log.py
"""

import shutil
from pathlib import Path

import ottla
from ottla.batch import Batch, Stamp, columns_of_lists
from ottla.clock import ManualClock
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage.contract import EngineOptions
from ottla.storage.file import FileEngine

TARGET = Path(__file__).parent / "file-v1"
TOPIC = Topic(
    name="deliveries",
    id="0123456789abcdef0123456789abcdef",
    created_ms=1_700_000_000_000,
    settings=TopicSettings(partitions=2, retention_ms=None, segment_bytes=600, partitioner="key-hash"),
)
PRODUCER = bytes(range(1, 17))


def batch(n: int) -> Batch:
    """Two messages, of which the second has nothing but nulls."""
    columns = columns_of_lists(
        [b"value %d" % n, None],
        [b"key %d" % n, None],
        [(("n", b"%d" % n), ("none", None)), ()],
        [n * 1000, n * 1000 + 1],
    )
    return Batch.pack(columns, compression="zstd" if n % 2 else "none", stamp=Stamp(PRODUCER, 1, n))


def main() -> None:
    if TARGET.exists():
        raise SystemExit(f"{TARGET.name} is there already, and stays as it is")
    clock = ManualClock(1_700_000_000_000)
    engine = FileEngine(TARGET, EngineOptions(clock=clock))
    engine.create_topic(TOPIC)
    engine.create_topic(Topic(name="empty", id="f" * 32, created_ms=1_700_000_000_001))
    partition = engine.partition(TOPIC, 0)
    for n in range(20):
        partition.append([batch(n)])
        clock.advance(1000)
        if n == 8:
            partition.compact()
    partition.trim(4)
    engine.store("groups/billing/0", b'{"position": 7}', 0)
    engine.store("groups/billing/0", b'{"position": 12}', 1)
    engine.partition(TOPIC, 1).append([batch(0)])
    engine.close()
    damage_one_batch()
    ottla.repair(f"file://{TARGET}")
    shutil.rmtree(TARGET / "damaged")


def damage_one_batch() -> None:
    """So that there is a gap: in the second batch of the first segment behind the run."""
    segment = min((TARGET / "topics" / TOPIC.name / TOPIC.id / "0").glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[Batch.parse(bytes(data)).size + 100] ^= 1
    segment.write_bytes(data)


if __name__ == "__main__":
    main()
