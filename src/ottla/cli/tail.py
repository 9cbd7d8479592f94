"""`ottla tail`: the last messages of a topic, then what comes."""

import sys
from typing import Annotated

import typer

from ottla.cli.consume import AsEvents, Delimiter, FormatWords, chosen_format
from ottla.cli.formats import Format, format_of
from ottla.cli.options import DEFAULT_URL, AsJson, Partition, TopicArgument, Url, opened_for_reading
from ottla.cli.printing import Printer
from ottla.client.log import Log
from ottla.errors import UnknownPartition
from ottla.model import Message

EXAMPLES = (
    "ottla tail deliveries",
    "ottla tail deliveries -n 100 --no-follow --json",
    "ottla tail deliveries --format '{timestamp} {partition}:{number} {value}'",
)


def tail(
    topic: TopicArgument,
    *,
    url: Url = DEFAULT_URL,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last messages.")] = 10,
    partition: Partition = None,
    follow: Annotated[bool, typer.Option(help="Go on with what is still to come.")] = True,
    words: FormatWords = "raw",
    delimiter: Delimiter = r"\n",
    events: AsEvents = False,
    as_json: AsJson = False,
) -> None:
    """Print the last messages of a topic, the newest of all partitions, then those that come, until Ctrl-C."""
    write = format_of(chosen_format(words, events=events, as_json=as_json), delimiter)
    with opened_for_reading(url) as log:
        ends = _ends(log, topic, partition)
        _print_last(log, topic, ends, lines, write)
        if follow:
            consumer = log.consumer(topic, start=dict(ends), partitions=None if partition is None else [partition])
            Printer(consumer, write).print_all(float("inf"))


def _ends(log: Log, topic: str, partition: int | None) -> dict[int, int]:
    partitions = log.topic(topic).settings.partitions
    if partition is not None and partition >= partitions:
        raise UnknownPartition(topic, partition, partitions)
    indices = range(partitions) if partition is None else [partition]
    return {index: log.bounds(topic, index).next for index in indices}


def _print_last(log: Log, topic: str, ends: dict[int, int], count: int, write: Format) -> None:
    """The newest messages before *ends*, in the order of their times; those of a partition stay in theirs."""
    newest: list[Message] = []
    for partition, end in ends.items():
        if count and end > 1:
            newest += log.read(topic, partition, max(end - count, 1), max_messages=count)
    newest.sort(key=lambda message: message.timestamp_ms)  # stable
    sys.stdout.buffer.write(write(newest[-count:] if count else []))
    sys.stdout.buffer.flush()
