"""`ottla copy`: topics from one log to another; also backup and restore."""

from typing import Annotated

import typer

from ottla.cli.copying import Copied, TopicCopy, copy_positions
from ottla.cli.exits import say
from ottla.cli.options import AsJson, opened, opened_for_reading, start_of
from ottla.cli.output import Column, number, show_json, show_rows
from ottla.cli.progress import Waiting

EXAMPLES = (
    "ottla copy grpc://localhost:9999 file:///backup           # back up every topic; repeat it for what is new",
    "ottla copy /backup grpc://localhost:9999 deliveries       # restore one",
    "ottla copy file:///data jsonl:///readable deliveries --from '1d ago'",
)

_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number, right=True),
    Column("COPIED", "copied", number, right=True),
    Column("SOURCE NEXT", "source_next", number, right=True),
    Column("COPY NEXT", "next", number, right=True),
]


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The log to copy from.", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="TO", help="The log to copy to.", show_default=False)],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPICS]...", help="All, if none is named.", show_default=False)
    ] = None,
    *,
    start: Annotated[
        str, typer.Option("--from", "--since", help="Where a new copy starts: a number, '2h ago' or a time.")
    ] = "earliest",
    groups: Annotated[bool, typer.Option("--groups", help="Also the positions of groups.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy topics from one log to another: partitions, settings, keys, headers, timestamps and order are kept.

    Repeat it to go on where it stopped, also after Ctrl-C or a crash: nothing is lost and nothing is there twice.
    Numbers are the same as at the source as long as nothing had been removed there; otherwise they start at 1.
    """
    copied: list[Copied] = []
    with opened_for_reading(source) as from_log, opened(target) as to_log:
        topics = names or [topic.name for topic in from_log.topics()]
        for name in topics:
            from_log.topic(name)  # all of them are there before the first is copied
        copies = [TopicCopy(from_log, to_log, name) for name in topics]
        left = sum(one.left(start_of(start)) for one in copies)
        with Waiting("copying", left) as waiting:
            for one in copies:
                copied += one.copy(start_of(start), waiting.advance)
        stored = copy_positions(from_log, to_log, copied) if groups else 0
    rows = [
        {field: getattr(one, field) for field in ("topic", "partition", "copied", "source_next", "next")}
        for one in copied
    ]
    if as_json:
        show_json({"messages": sum(one.copied for one in copied), "groups": stored, "partitions": rows})
    elif rows:
        show_rows(rows, _COLUMNS, as_json=False)
    else:
        say("there is no topic to copy")
