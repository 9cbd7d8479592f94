"""What must not grow: the time to open a large log, memory with the log's length and with topics, the import."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ottla
from benchmarks.rows import Row
from ottla.batch import Batch, columns_of_values

_OPEN = """
import time, sys, ottla
start = time.perf_counter()
log = ottla.open(sys.argv[1])
opened = time.perf_counter() - start
bounds = log.bounds("big")
last = log.read("big", 0, bounds.next - 1)
assert len(last) == 1
used = time.perf_counter() - start
print(opened, used, log.bounds("big").next)
"""

_MEMORY = """
import sys, ottla
def rss():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) / 1024
log = ottla.open(sys.argv[1])
low = rss()
next_number = log.bounds("big").next
for number in range(1, next_number, max(1, next_number // 200)):
    assert len(log.read("big", 0, number, max_messages=1)) == 1
print(rss() - low)
"""

_TOPICS = """
import sys, ottla
def rss():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) / 1024
log = ottla.open(sys.argv[1])
for topic in log.topics():
    assert log.bounds(topic.name).next == 2
    assert len(log.read(topic.name)) == 1
print(rss())
"""

_IMPORT = "import time; start = time.perf_counter(); import ottla; print(time.perf_counter() - start)"


def run(*, quick: bool = False) -> Iterator[Row]:
    imports = min(float(_python(_IMPORT)[0]) for _ in range(5))
    pyarrow = min(float(_python(_IMPORT.replace("ottla", "pyarrow"))[0]) for _ in range(5))
    yield Row(
        group="start", what="import ottla", value=imports * 1000, unit="ms",
        limit=pyarrow * 1000, limit_is="import pyarrow", aim="≤ 300 ms",
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        yield from _large(Path(folder), gigabytes=1 if quick else 10)
        yield from _topics(Path(folder), count=1000 if quick else 10_000)


def _large(folder: Path, gigabytes: int) -> Iterator[Row]:
    url = f"file://{folder}/large"
    batch = Batch.pack(columns_of_values([bytes(100)] * 10_000))
    with ottla.open(url) as log:
        topic = log.create_topic("big", sync="never")
        store = log.engine.partition(topic, 0)
        while store.bounds().next * 104 < gigabytes * 10**9:
            store.append([batch] * 10)
    opened, used, _ = map(float, _python(_OPEN, url))
    group = f"a log of {gigabytes} GB"
    yield Row(group=group, what="open", value=opened * 1000, unit="ms", aim="≤ 200 ms")
    yield Row(group=group, what="open and read the last message", value=used * 1000, unit="ms", aim="≤ 200 ms")
    grown = float(_python(_MEMORY, url)[0])
    yield Row(group=group, what="memory after reading at 200 places", value=grown, unit="MB more", aim="flat")


def _topics(folder: Path, count: int) -> Iterator[Row]:
    url = f"file://{folder}/topics"
    with ottla.open(url) as log:
        for number in range(count):
            log.append(f"topic-{number}", [b"one"])
    yield Row(
        group=f"{count:,} topics of one message", what="memory with all of them opened and read",
        value=float(_python(_TOPICS, url)[0]), unit="MB in all", aim="≤ 200 MB",
    )  # fmt: skip


def _python(code: str, *args: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code, *args], check=True, capture_output=True, text=True)
    return done.stdout.split()
