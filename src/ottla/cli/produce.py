"""`ottla produce`: messages from standard input or files into a topic."""

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from ottla.cli.exits import say
from ottla.cli.lines import Stream, chunks_of_lines, whole
from ottla.cli.options import DEFAULT_URL, AsJson, Partition, Url, opened, unescaped
from ottla.cli.output import counted, show_json
from ottla.cli.parsing import Lot, Parsed, Parser, Plain, with_events, with_key_field, with_separator
from ottla.cli.progress import Waiting
from ottla.cli.sending import Pace, Sending
from ottla.client.log import Log
from ottla.clock import SystemClock
from ottla.errors import InvalidValue, UnknownTopic
from ottla.model import Headers
from ottla.settings import check_name

EXAMPLES = (
    "echo 'truck 1021 on time' | ottla produce deliveries",
    "ottla produce deliveries --file today.csv --key-separator ,",
    "ottla produce --events < events.jsonl      # each event to its own topic_name",
    "ottla produce deliveries --whole --file photo.jpg --header type=image/jpeg",
    "tail -f access.log | ottla produce access -u file:///var/lib/ottla",
)


class Compressed(StrEnum):
    """How batches are compressed."""

    none = "none"
    lz4 = "lz4"
    zstd = "zstd"


def produce(
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="The topic; events may name their own.", show_default=False)
    ] = None,
    *,
    url: Url = DEFAULT_URL,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", help="Read this file instead of standard input; may be repeated.", show_default=False
        ),
    ] = None,
    entire: Annotated[
        bool, typer.Option("--whole", help="Each file, or all of standard input, is one message.")
    ] = False,
    delimiter: Annotated[str, typer.Option(help=r"What ends a message; \0 and \t are understood.")] = r"\n",
    events: Annotated[
        bool, typer.Option("--events", "--json-events", help='Lines are events: {"message": …} and anything else.')
    ] = False,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every message.", show_default=False)
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option(help=r"Lines start with a key that this ends, such as \t.", show_default=False)
    ] = None,
    key_field: Annotated[
        str | None,
        typer.Option(help="Lines are JSON, and this field is the key; a.b looks into a.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", help="name=value for every message; may be repeated.", show_default=False),
    ] = None,
    partition: Partition = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Send at most so many messages a second.", show_default=False)
    ] = None,
    compression: Annotated[Compressed, typer.Option(help="How to compress batches.")] = Compressed.none,
    skip_invalid: Annotated[
        bool, typer.Option(help="Leave out what cannot be sent, instead of stopping there.")
    ] = False,
    create: Annotated[bool, typer.Option(help="Make a topic that does not exist.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing when all is well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send messages to a topic: one for each line of standard input, as soon as the line is there.

    What was sent is durable when the command ends, and the first message makes the topic.
    """
    parser = _parser(topic, events, key, key_separator, key_field, skip_invalid, entire)
    headers = _headers(header or [])
    end = unescaped(delimiter).encode()
    if not end:
        raise InvalidValue("--delimiter", delimiter, r"give at least one character, or use --whole")
    paths = _readable(files or [])
    started = time.monotonic()
    with opened(url, auto_create=create) as log, Waiting("sending", quiet=quiet or sys.stdin.isatty()) as waiting:
        sending = Sending(
            log,
            key=None if key is None else key.encode(),
            headers=headers,
            partition=partition,
            pace=None if rate is None else Pace(rate),
            skip=skip_invalid,
            compression=compression.value,
            **({"max_buffer_bytes": "16MiB"} if topic is None else {}),
        )
        limit = _limit(log, topic, create=create)
        try:
            for stream in _streams(paths, quiet=quiet):
                for lot in _lots(stream, parser, topic, end, limit, entire=entire):
                    sending.send(lot)
                    waiting.advance(len(lot.values))
        finally:
            try:
                sending.close()
            finally:
                skipped = parser.skipped + sending.skipped
                _report(sending, skipped, time.monotonic() - started, quiet=quiet, as_json=as_json)


def _parser(
    topic: str | None,
    events: bool,
    key: str | None,
    key_separator: str | None,
    key_field: str | None,
    skip: bool,
    entire: bool,
) -> Parser:
    """How lines are read, after a look at options that exclude each other."""
    if topic is not None:
        check_name(topic)
    ways = {
        "--key": key is not None,
        "--key-separator": key_separator is not None,
        "--key-field": key_field is not None,
    }
    given = [way for way, chosen in ways.items() if chosen]
    if len(given) > 1:
        raise InvalidValue("key", " and ".join(given), "a message has one key: choose one of the options")
    if entire and (events or key_separator is not None or key_field is not None):
        raise InvalidValue(
            "--whole", "with lines", "--events, --key-separator and --key-field read lines: leave it out"
        )
    if events:
        if key_separator is not None:
            raise InvalidValue("--key-separator", key_separator, "events are JSON: use --key-field")
        return Parsed(with_events(topic, key_field, SystemClock()), skip=skip)
    if topic is None:
        raise InvalidValue("TOPIC", None, "name the topic; only --events have one of their own")
    if key_separator is not None:
        separator = unescaped(key_separator).encode()
        if not separator:
            raise InvalidValue("--key-separator", key_separator, "give at least one character")
        return Parsed(with_separator(topic, separator), skip=skip)
    return Plain(topic) if key_field is None else Parsed(with_key_field(topic, key_field), skip=skip)


def _headers(words: list[str]) -> Headers:
    pairs = [word.partition("=") for word in words]
    for name, found, _ in pairs:
        if not found or not name:
            raise InvalidValue("--header", name, "write it as name=value")
    return tuple((name, value.encode()) for name, _, value in pairs)


def _readable(paths: list[Path]) -> list[Path]:
    """The files, once it is clear that all of them can be read, so that a typing error sends nothing."""
    for path in paths:
        with path.open("rb"):
            pass
    return paths


def _limit(log: Log, topic: str | None, *, create: bool) -> int:
    """The size of the longest message to wait for."""
    try:
        return log.defaults.max_message_bytes if topic is None else log.topic(topic).settings.max_message_bytes
    except UnknownTopic:
        if not create:
            raise
        return log.defaults.max_message_bytes


def _streams(paths: list[Path], *, quiet: bool) -> Iterator[Stream]:
    if not paths:
        if sys.stdin.isatty() and not quiet:
            say("type one message a line; Ctrl-D ends")
        yield cast("Stream", sys.stdin.buffer)
    for path in paths:
        with path.open("rb") as file:
            yield file


def _lots(stream: Stream, parser: Parser, topic: str | None, end: bytes, limit: int, *, entire: bool) -> Iterator[Lot]:
    if entire:
        assert topic is not None
        yield Lot(topic, [whole(stream, limit)])
        return
    for lines in chunks_of_lines(stream, end, limit):
        yield from parser.lots(lines)


def _report(sending: Sending, skipped: int, seconds: float, *, quiet: bool, as_json: bool) -> None:
    tally = sending.tally
    if as_json:
        show_json({"messages": tally.messages, "skipped": skipped, "seconds": round(seconds, 3), "next": tally.ends})
    if quiet:
        return
    where = "; ".join(f"{topic} is at {_positions(ends)}" for topic, ends in tally.ends.items())
    left_out = f", {skipped:,} left out" if skipped else ""
    say(f"sent {counted(tally.messages, 'message')}{left_out}{f' ({where})' if where else ''}")


def _positions(ends: dict[int, int]) -> str:
    if len(ends) == 1:
        return f"{next(iter(ends.values())):,}"
    return ", ".join(f"{partition}:{end:,}" for partition, end in sorted(ends.items()))
