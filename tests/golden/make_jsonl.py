"""Wrote the folder `jsonl/`. Do not run it to make a test pass: stored logs must be readable for ever.

Run it for a new format version only, as `python tests/golden/make_jsonl.py <new folder>`.
"""

import sys
from pathlib import Path

from ottla.batch import Batch, Stamp, columns_of_lists, columns_of_values
from ottla.clock import ManualClock
from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.storage import open_engine
from ottla.storage.jsonl import JsonlEngine

STAMP = Stamp(bytes.fromhex("000102030405060708090a0b0c0d0e0f"), epoch=3, sequence=0)
SPARSE_STAMP = Stamp(b"ottla-spark-sink", epoch=0, sequence=42, sparse=True)


def main(folder: Path) -> None:
    clock = ManualClock(1_700_000_000_555)
    engine = open_engine(f"jsonl://{folder}?brokers=2", clock=clock)
    assert isinstance(engine, JsonlEngine)
    deliveries = engine.create_topic(
        Topic(name="deliveries", id="1" * 32, created_ms=1_700_000_000_000, settings=TopicSettings(partitions=3))
    )
    everything = columns_of_lists(
        [b"truck 1021 on time", None, b"", b"\x00\xff", "line\none \u2028 \U0001f69a".encode()],
        [b"melbourne", None, b"", b"\xff", b"k"],
        [(("route", b"7"), ("route", None)), (), (("é", b"\xff"),), (("", b""),), ()],
        [1_700_000_000_000, -1, 2**60, 0, 5],
    )
    engine.partition(deliveries, 0).append([Batch.pack(everything, stamp=STAMP)])
    engine.partition(deliveries, 1).append([Batch.pack(columns_of_values([b"other broker"]), stamp=SPARSE_STAMP)])
    clock.advance(1000)
    engine.partition(deliveries, 2).append([Batch.pack(columns_of_values([b"a", b"b"]))])
    for value in (b"lost", b"last"):
        engine.partition(deliveries, 0).append([Batch.pack(columns_of_values([value]))])
    text = folder / "deliveries-1.txt"
    text.write_bytes(text.read_bytes().replace(b'"value":"lost"', b'"value":"LOST"'))
    list(engine.repair())
    engine.partition(deliveries, 0).trim(2)
    emptied = engine.create_topic(Topic(name="emptied", id="2" * 32, created_ms=1_700_000_000_000))
    engine.partition(emptied, 0).append([Batch.pack(columns_of_values([b"gone", b"gone"]), stamp=STAMP)])
    engine.partition(emptied, 0).trim(3)
    engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
