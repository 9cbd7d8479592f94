"""A minute's look at ottla: a delivery fleet's events in a folder, written, read, killed and recovered.

Run it with `make demo`, or `python examples/demo.py [folder]`. It cleans up after itself unless a folder is given.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ottla

BEATS = 500
CITIES = ["melbourne", "sydney", "brisbane", "perth"]

WRITER = """
import sys, itertools, ottla
log = ottla.open(sys.argv[1])
for n in itertools.count(1):
    landed = log.append("heartbeats", [b"beat %d" % n])[0]
    print(landed.numbers.start, flush=True)        # acknowledged: from here on it must never be lost
"""


def main() -> None:
    if len(sys.argv) > 1:
        show(Path(sys.argv[1]).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as folder:
        show(Path(folder) / "log")


def show(folder: Path) -> None:
    url = f"file://{folder}"
    title(f"A log is a folder: ottla.open({url!r})")
    with ottla.open(url) as log:
        log.create_topic("deliveries", partitions=4, partitioner="key-hash", retention="7d", exist_ok=True)
        produce(log)
        consume(log)
        analyse(log)
    crash(url)
    title("What it looks like on the disk")
    for path in sorted(folder.rglob("*.log"))[:6]:
        print(f"  {path.relative_to(folder)}  {path.stat().st_size:,} bytes")
    title("Is every byte as it should be?")
    damage = ottla.verify(url)
    print(f"  ottla.verify found {len(damage) or 'no'} damage")
    print("\nNext: README.md, and docs/guarantees.md for what is promised.")


def produce(log: ottla.Log) -> None:
    title("200,000 truck events, keyed by city, each durable before it counts")
    made = list(events(200_000))
    start = time.perf_counter()
    with log.producer("deliveries") as producer:
        print(f"  the first one landed at {producer.send(made[0][1], key=made[0][0]).result()}")
        for city, event in made[1:]:
            producer.send(event, key=city)
    seconds = time.perf_counter() - start
    print(f"  200,000 sent one by one in {seconds:.2f} s: {200_000 / seconds:,.0f} a second")
    for partition in log.describe("deliveries").partitions:
        print(f"  partition {partition.index}: messages {partition.bounds.first} to {partition.bounds.next - 1}")


def events(count: int) -> Iterator[tuple[bytes, bytes]]:
    dice = random.Random(1)
    for number in range(count):
        city = dice.choice(CITIES)
        event = {"truck": dice.randrange(1000, 2000), "city": city, "late_min": max(0, round(dice.gauss(-5, 12)))}
        yield city.encode(), json.dumps({"event": number} | event).encode()


def consume(log: ottla.Log) -> None:
    title("A consumer holds its own position, and removes nothing")
    consumer = log.consumer("deliveries", start="earliest", group="dashboard")
    messages, position = consumer.poll(timeout=1.0, max_messages=3)
    for message in messages:
        print(f"  {message.partition}/{message.number} {(message.value or b'').decode()}")
    consumer.commit()
    print(f"  next position {position}, lag {consumer.lag().total:,}")


def analyse(log: ottla.Log) -> None:
    title("The same messages as an Arrow table: no copy, no loop")
    start = time.perf_counter()
    table = log.read("deliveries").to_arrow()
    milliseconds = (time.perf_counter() - start) * 1000
    print(f"  {table.num_rows:,} rows, {table.nbytes / 1e6:.1f} MB, in {milliseconds:.0f} ms")
    late: dict[str, list[int]] = {city: [] for city in CITIES}
    for value in table["value"].to_pylist():
        event = json.loads(value)
        late[event["city"]].append(event["late_min"])
    for city, minutes in late.items():
        print(f"  {city:<10} on time {minutes.count(0) / len(minutes):.1%} of {len(minutes):,}")


def crash(url: str) -> None:
    title("kill -9 in the middle of writing, then look")
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = 0
    for line in writer.stdout:
        acknowledged = int(line)
        if acknowledged == BEATS:
            os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    with ottla.open(url) as log:
        kept = log.read("heartbeats")
        print(f"  acknowledged before the kill: {acknowledged}; in the log: {len(kept)}; the last: {kept[-1].value!r}")
        assert len(kept) >= acknowledged
        print(f"  the next message gets number {log.append('heartbeats', [b'back'])[0].numbers.start}")


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


if __name__ == "__main__":
    main()
