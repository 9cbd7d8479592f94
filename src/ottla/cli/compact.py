"""`ottla compact`: sealed segments into Parquet."""

from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_URL, AsJson, UrlArgument, opened_as_it_is
from ottla.cli.output import Column, number, show_rows, size
from ottla.cli.progress import Waiting

EXAMPLES = ("ottla compact file:///var/lib/ottla", "ottla compact ./data deliveries --json")

_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("SEGMENTS", "segments", number, right=True),
    Column("MESSAGES", "messages", number, right=True),
    Column("BEFORE", "bytes_before", size, right=True),
    Column("AFTER", "bytes_after", size, right=True),
]


def compact(
    url: UrlArgument = DEFAULT_URL,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPICS]...", help="All, if none is named.", show_default=False)
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Turn the sealed segments of a file: log into Parquet, smaller and faster for Spark. Work goes on meanwhile."""
    with opened_as_it_is(url) as log, Waiting("compacting") as waiting:
        topics = names or [topic.name for topic in log.topics()]
        for name in topics:
            log.topic(name)
        rows = [{"topic": name, **log.compact(name, progress=waiting.advance)._asdict()} for name in topics]
    show_rows(rows, _COLUMNS, as_json=as_json)
