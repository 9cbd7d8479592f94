"""`ottla topics`: make, look at, change and remove topics."""

from typing import Annotated, Any

import typer

from ottla.cli.options import (
    DEFAULT_URL,
    AsJson,
    Partition,
    TopicArgument,
    Url,
    Yes,
    confirmed,
    opened,
    opened_as_it_is,
    opened_for_reading,
    start_of,
)
from ottla.cli.output import Column, counted, moment, number, show_json, show_rows, show_text, size
from ottla.errors import InvalidValue
from ottla.log.catalog import TopicDescription
from ottla.settings import format_duration

EXAMPLES = (
    "ottla topics list",
    "ottla topics create deliveries --partitions 4 --retention 7d",
    "ottla topics describe deliveries",
    "ottla topics alter deliveries --retention forever --set max_message_bytes=1MiB",
    "ottla topics trim deliveries --before '30d ago'",
)

Partitions = Annotated[int | None, typer.Option(help="How many partitions.", show_default=False)]
Retention = Annotated[
    str | None, typer.Option(help="How long messages are kept: 500ms, 10s, 5m, 2h, 7d, forever.", show_default=False)
]
Partitioner = Annotated[
    str | None, typer.Option(help="round-robin, key-hash, or json-field:<name>.", show_default=False)
]
Sync = Annotated[
    str | None, typer.Option(help="When messages are durable: always, interval, never.", show_default=False)
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="name=value for any other setting; may be repeated.", show_default=False),
]

_TOPIC_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partitions", number, right=True),
    Column("MESSAGES", "messages", number, right=True),
    Column("SIZE", "bytes", size, right=True),
    Column("RETENTION", "retention"),
    Column("CREATED", "created"),
]
_PARTITION_COLUMNS = [
    Column("PARTITION", "partition", number, right=True),
    Column("FIRST", "first", number, right=True),
    Column("NEXT", "next", number, right=True),
    Column("MESSAGES", "messages", number, right=True),
    Column("SIZE", "bytes", size, right=True),
]

topics = typer.Typer(no_args_is_help=True)


@topics.command("list")
def list_topics(*, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Every topic with what it holds."""
    with opened_for_reading(url) as log:
        rows = [_row(log.describe(topic.name)) for topic in log.topics()]
    show_rows(rows, _TOPIC_COLUMNS, as_json=as_json)


@topics.command("create")
def create_topic(
    name: TopicArgument,
    *,
    url: Url = DEFAULT_URL,
    partitions: Partitions = None,
    retention: Retention = None,
    partitioner: Partitioner = None,
    sync: Sync = None,
    settings: Settings = None,
    exist_ok: Annotated[bool, typer.Option("--if-missing", help="Leave a topic that is there as it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a topic."""
    words = _words(partitions, retention, partitioner, sync, settings)
    with opened(url) as log:
        log.create_topic(name, exist_ok=exist_ok, **words)
        _show(log.describe(name), as_json=as_json)


@topics.command("describe")
def describe_topic(name: TopicArgument, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """A topic's settings, and what each of its partitions holds."""
    with opened_for_reading(url) as log:
        described = log.describe(name)
    _show(described, as_json=as_json)
    if not as_json:
        show_text("")
        show_rows(_partition_rows(described), _PARTITION_COLUMNS, as_json=False)


@topics.command("alter")
def alter_topic(
    name: TopicArgument,
    *,
    url: Url = DEFAULT_URL,
    partitions: Partitions = None,
    retention: Retention = None,
    partitioner: Partitioner = None,
    sync: Sync = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Change a topic's settings while it is in use. What is not named stays as it is."""
    words = _words(partitions, retention, partitioner, sync, settings)
    if not words:
        raise InvalidValue("change", "of nothing", "name a setting, as in --retention 7d or --set segment_bytes=64MiB")
    with opened_as_it_is(url) as log:
        log.alter_topic(name, **words)
        _show(log.describe(name), as_json=as_json)


@topics.command("add-partitions")
def add_partitions(
    name: TopicArgument,
    total: Annotated[int, typer.Argument(metavar="TOTAL", help="How many there are to be, those of now included.")],
    *,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Raise the number of partitions. A key may go to another partition from then on."""
    with opened_as_it_is(url) as log:
        log.add_partitions(name, total)
        _show(log.describe(name), as_json=as_json)


@topics.command("delete")
def delete_topic(name: TopicArgument, *, url: Url = DEFAULT_URL, yes: Yes = False) -> None:
    """Remove a topic, all its messages, and all groups' positions in it."""
    with opened_as_it_is(url) as log:
        described = log.describe(name)
        confirmed(f"Delete topic {name!r} with {counted(described.messages, 'message')}?", yes=yes)
        log.delete_topic(name)


@topics.command("trim")
def trim_topic(
    name: TopicArgument,
    *,
    before: Annotated[
        str, typer.Option(help="latest (all), a message number, '30d ago' or a time.", show_default=False)
    ],
    url: Url = DEFAULT_URL,
    partition: Partition = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the messages before a number or a time. Numbers go on."""
    with opened_as_it_is(url) as log:
        log.topic(name)
        confirmed(f"Remove messages of topic {name!r} before {before}?", yes=yes)
        log.trim(name, partition, before=start_of(before))
        described = log.describe(name)
    show_rows(_partition_rows(described), _PARTITION_COLUMNS, as_json=as_json)


def _words(
    partitions: int | None, retention: str | None, partitioner: str | None, sync: str | None, settings: list[str] | None
) -> dict[str, Any]:
    """Settings in people's words, from options and name=value pairs."""
    words: dict[str, Any] = {}
    for pair in settings or []:
        name, found, value = pair.partition("=")
        if not found or not name:
            raise InvalidValue("--set", pair, "write it as name=value")
        words[name] = _value(name, value)
    given = {"partitions": partitions, "retention": retention, "partitioner": partitioner, "sync": sync}
    return words | {name: value for name, value in given.items() if value is not None}


def _value(name: str, words: str) -> Any:
    """Counts and milliseconds are numbers; sizes and durations are read by the settings themselves."""
    if words in {"forever", "unlimited"} and name.endswith(("_ms", "_bytes")):
        return None
    return int(words) if words.isascii() and words.isdigit() and not name.endswith("_bytes") else words


def _row(described: TopicDescription) -> dict[str, Any]:
    settings = described.topic.settings
    return {
        "topic": described.topic.name,
        "partitions": settings.partitions,
        "messages": described.messages,
        "bytes": described.bytes,
        "retention": format_duration(settings.retention_ms),
        "created": moment(described.topic.created_ms),
    }


def _partition_rows(described: TopicDescription) -> list[dict[str, Any]]:
    return [
        {
            "partition": partition.index,
            "first": partition.bounds.first,
            "next": partition.bounds.next,
            "messages": partition.bounds.next - partition.bounds.first,
            "bytes": partition.bytes,
        }
        for partition in described.partitions
    ]


def _show(described: TopicDescription, *, as_json: bool) -> None:
    settings = described.topic.settings.to_json()
    if as_json:
        facts = _row(described) | {"id": described.topic.id, "settings": settings}
        show_json(facts | {"partitions": _partition_rows(described)})
        return
    rows = [{"name": name, "value": fact} for name, fact in (_row(described) | {"id": described.topic.id}).items()]
    shown = {"partitions", "retention_ms"}
    rows += [{"name": name, "value": value} for name, value in settings.items() if name not in shown]
    show_rows(rows, [Column("SETTING", "name"), Column("VALUE", "value")], as_json=False)
