"""`ottla groups`: where groups of consumers are, and how far behind."""

from typing import Annotated, Any

import typer

from ottla.cli.exits import MISSING, Failure
from ottla.cli.options import (
    DEFAULT_URL,
    AsJson,
    Partition,
    TopicArgument,
    Url,
    Yes,
    confirmed,
    opened_as_it_is,
    opened_for_reading,
    start_of,
)
from ottla.cli.output import Column, moment, number, show_rows
from ottla.client.log import Log
from ottla.log.groups import GroupPositions

EXAMPLES = (
    "ottla groups list",
    "ottla groups describe billing",
    "ottla groups reset billing deliveries --to '2h ago'",
    "ottla groups reset billing deliveries --to 1204 --partition 0",
)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.", show_default=False)]

_GROUP_COLUMNS = [
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("LAG", "lag", number, right=True),
    Column("UPDATED", "updated"),
]
_POSITION_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number, right=True),
    Column("POSITION", "position", number, right=True),
    Column("FIRST", "first", number, right=True),
    Column("NEXT", "next", number, right=True),
    Column("LAG", "lag", number, right=True),
]

groups = typer.Typer(no_args_is_help=True)


@groups.command("list")
def list_groups(*, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Every group, with how many messages it has still to read in each topic."""
    with opened_for_reading(url) as log:
        rows = [
            {
                "group": found.group,
                "topic": found.topic,
                "lag": sum(row["lag"] for row in _positions(log, found)),
                "updated": moment(found.updated_ms),
            }
            for found in log.groups()
        ]
    show_rows(rows, _GROUP_COLUMNS, as_json=as_json)


@groups.command("describe")
def describe_group(group: GroupArgument, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """A group's position and lag in each partition. A partition without a position is read from its start."""
    with opened_for_reading(url) as log:
        rows = [row for found in _found(log, group) for row in _positions(log, found)]
    show_rows(rows, _POSITION_COLUMNS, as_json=as_json)


@groups.command("reset")
def reset_group(
    group: GroupArgument,
    topic: TopicArgument,
    *,
    to: Annotated[
        str, typer.Option(help="earliest, latest, a message number, '2h ago' or a time.", show_default=False)
    ],
    url: Url = DEFAULT_URL,
    partition: Partition = None,
    as_json: AsJson = False,
) -> None:
    """Set a group's position, forward or back; a group that is not there yet is made."""
    with opened_as_it_is(url) as log:
        partitions = None if partition is None else [partition]
        consumer = log.consumer(topic, start=start_of(to), group=group, partitions=partitions)
        consumer.commit()
        rows = [row for found in _found(log, group) if found.topic == topic for row in _positions(log, found)]
    show_rows(rows, _POSITION_COLUMNS, as_json=as_json)


@groups.command("delete")
def delete_group(
    group: GroupArgument,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Only its position here.", show_default=False)
    ] = None,
    *,
    url: Url = DEFAULT_URL,
    yes: Yes = False,
) -> None:
    """Forget a group's positions, in one topic or in all. Messages stay."""
    with opened_as_it_is(url) as log:
        _found(log, group)
        where = "all topics" if topic is None else f"topic {topic!r}"
        confirmed(f"Forget the positions of group {group!r} in {where}?", yes=yes)
        log.delete_group(group, topic)


def _found(log: Log, group: str) -> list[GroupPositions]:
    found = [positions for positions in log.groups() if positions.group == group]
    if not found:
        raise Failure(f"group {group!r} has stored no position: see `ottla groups list`", MISSING)
    return found


def _positions(log: Log, found: GroupPositions) -> list[dict[str, Any]]:
    rows = []
    for partition in log.describe(found.topic).partitions:
        position = found.positions.get(partition.index)
        first, end = partition.bounds
        rows.append(
            {
                "topic": found.topic,
                "partition": partition.index,
                "position": position,
                "first": first,
                "next": end,
                "lag": max(end - max(position or first, first), 0),
            }
        )
    return rows
