"""What the contract's tests have other processes do. Nothing here needs pytest: a worker starts in milliseconds."""

from ottla.errors import MetadataConflict
from ottla.storage import Engine, open_engine
from ottla.testing.samples import Sender, batch_of, values_of

TOPIC = "deliveries"


def read_texts(url: str) -> list[str]:
    """Everything in the topic, as text."""
    engine = open_engine(url)
    return [(value or b"").decode() for value in values_of(engine.partition(engine.topic(TOPIC), 0))]


def append_texts(url: str, name: str, times: int) -> list[int]:
    """Append batches of two that say who wrote them; returns their first numbers."""
    engine = open_engine(url)
    partition = engine.partition(engine.topic(TOPIC), 0)
    batches = [batch_of(f"{name}:{n}:a".encode(), f"{name}:{n}:b".encode()) for n in range(times)]
    return [partition.append([batch])[0].first for batch in batches]


def append_stamped(url: str, sender: int, sequence: int) -> tuple[int, bool]:
    """Append one stamped batch; returns its number, and whether it was there already."""
    engine = open_engine(url)
    (appended,) = engine.partition(engine.topic(TOPIC), 0).append([Sender.number(sender).batch(sequence)])
    return appended.first, appended.duplicate


def count_up(url: str, times: int) -> None:
    """Add to a counter."""
    count_up_with(open_engine(url), times)


def count_up_with(engine: Engine, times: int) -> None:
    """Add to a counter by compare-and-swap, again and again on a conflict."""
    done = 0
    while done < times:
        data, version = engine.load("counter") or (b"0", 0)
        try:
            engine.store("counter", b"%d" % (int(data) + 1), version)
        except MetadataConflict:
            continue
        done += 1
