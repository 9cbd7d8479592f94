"""`ottla consume`: messages of a topic, printed."""

from typing import Annotated

import typer

from ottla.cli.exits import MISSING, OK
from ottla.cli.formats import TEMPLATE_FIELDS, format_of
from ottla.cli.options import (
    DEFAULT_URL,
    AsJson,
    TopicArgument,
    Url,
    opened_as_it_is,
    opened_for_reading,
    seconds_of,
    start_of,
)
from ottla.cli.printing import Printer
from ottla.errors import InvalidValue

EXAMPLES = (
    "ottla consume deliveries                         # all there is, then exit",
    "ottla consume deliveries --from '2h ago' --follow",
    r"ottla consume deliveries --format '{number}\t{key}\t{value}'",
    "ottla consume deliveries --json | jq .value",
    "ottla consume deliveries --group billing         # goes on where the group stopped",
    "ottla consume deliveries --count 1 --timeout 10s # wait for one message",
)

FormatWords = Annotated[
    str, typer.Option("--format", help=f"raw, json, events, or a template with {TEMPLATE_FIELDS}.".replace("[", r"\["))
]
Delimiter = Annotated[str, typer.Option(help=r"What is printed after each message; \0 and \t are understood.")]
AsEvents = Annotated[bool, typer.Option("--events", help="Print events, as --format events does.")]


def consume(
    topic: TopicArgument,
    *,
    url: Url = DEFAULT_URL,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="earliest, latest, a message number, '2h ago' or a time such as 2030-01-31T12:00:00Z. "
            "Without it: where the group stopped, else earliest.",
            show_default=False,
        ),
    ] = None,
    partitions: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, help="Only this partition; may be repeated.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is still to come.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.", show_default=False)
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(help="Wait for more at the end, and stop when nothing came for so long: 10s.", show_default=False),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", help="Go on where this group stopped, and store its position.", show_default=False
        ),
    ] = None,
    words: FormatWords = "raw",
    delimiter: Delimiter = r"\n",
    events: AsEvents = False,
    as_json: AsJson = False,
) -> int:
    """Print the messages of a topic, from anywhere, and stop at the end unless told to follow.

    The end is what it was when the command started. A group's position is stored after its messages were printed.
    """
    write = format_of(chosen_format(words, events=events, as_json=as_json), delimiter)
    idle_s = float("inf") if timeout is None else seconds_of(timeout, "--timeout")
    with opened_for_reading(url) if group is None else opened_as_it_is(url) as log:
        consumer = log.consumer(
            topic, start=None if start is None else start_of(start), partitions=partitions or None, group=group
        )
        printer = Printer(consumer, write, count=count)
        if follow or timeout is not None:
            printer.print_all(idle_s)
        else:
            printer.print_until({p: log.bounds(topic, p).next for p in consumer.positions})
    return OK if count is None or printer.complete else MISSING


def chosen_format(words: str, *, events: bool, as_json: bool) -> str:
    """The one format that the options name."""
    named = [name for name, given in (("json", as_json), ("events", events)) if given]
    if len(named) + (words != "raw") > 1:
        raise InvalidValue("format", " and ".join([*named, words]), "choose one of --format, --events and --json")
    return named[0] if named else words
