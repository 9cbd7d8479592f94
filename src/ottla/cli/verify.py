"""`ottla verify`: check every stored byte."""

from typing import Any

import ottla
from ottla.cli.exits import DAMAGED, OK, say
from ottla.cli.options import DEFAULT_URL, AsJson, UrlArgument, as_url
from ottla.cli.output import Column, show_json, show_rows
from ottla.model import Damage

EXAMPLES = ("ottla verify file:///var/lib/ottla", "ottla verify ./data --json || echo damaged")

_COLUMNS = [
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("LOST", "lost"),
    Column("FILE", "path"),
    Column("BYTE", "position", right=True),
    Column("WHAT IS WRONG", "reason"),
    Column("SET ASIDE", "set_aside"),
]


def verify(url: UrlArgument = DEFAULT_URL, *, as_json: AsJson = False) -> int:
    """Check every stored byte of a log. Nothing is changed; the exit code is 5 if there is damage."""
    damage = ottla.verify(as_url(url))
    show_damage(damage, as_json=as_json)
    if not damage:
        say("every stored message is whole")
    return DAMAGED if damage else OK


def show_damage(damage: list[Damage], *, as_json: bool) -> None:
    """What is wrong, or was set aside; nothing is printed where there is nothing."""
    rows = [_row(one) for one in damage]
    if as_json:
        show_json({"damage": rows})
    elif rows:
        show_rows(
            rows, [column for column in _COLUMNS if any(row[column.field] is not None for row in rows)], as_json=False
        )


def _row(damage: Damage) -> dict[str, Any]:
    return {
        "topic": damage.topic,
        "partition": damage.partition,
        "lost": None if damage.lost is None else f"{damage.lost.start}-{damage.lost.stop - 1}",
        "path": damage.path,
        "position": damage.position,
        "reason": damage.reason,
        "set_aside": damage.set_aside,
    }
