"""`ottla bench`: a short benchmark of a log, here and now."""

import tempfile
from typing import Annotated

import typer

from ottla.cli.measuring import Measured, measure
from ottla.cli.options import AsJson, opened
from ottla.cli.output import Column, show_json, show_rows
from ottla.cli.progress import Waiting

EXAMPLES = (
    "ottla bench                       # a temporary folder",
    "ottla bench file:///data --size 1000",
    "ottla bench localhost:9999 --seconds 5 --json",
)


def bench(
    url: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]", envvar="OTTLA_URL", help="The log; a temporary folder if none.", show_default=False
        ),
    ] = None,
    *,
    size: Annotated[int, typer.Option(min=1, max=2**20, help="Bytes of each message.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.05, max=60, help="The most that each measurement takes.")] = 2.0,
    most: Annotated[int, typer.Option("--messages", min=1000, help="The most messages that are sent.")] = 1_000_000,
    sync: Annotated[str, typer.Option(help="When messages are durable: always, interval, never.")] = "always",
    as_json: AsJson = False,
) -> None:
    """Measure sending, reading and latency with a temporary topic, which is removed again."""
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder,
        opened(url or folder) as log,
        Waiting("measuring") as waiting,
    ):
        measured = list(measure(log, size=size, seconds=seconds, most=most, sync=sync, done=waiting.advance))
        place = log.url
    if as_json:
        facts = {"url": place, "message_bytes": size, "sync": sync}
        show_json(facts | {one.what: round(one.value, 4) for one in measured})
        return
    rows = [{"what": one.title, "value": _shown(one)} for one in measured]
    show_rows(
        rows,
        [Column(f"{place}, {size} bytes a message, sync {sync}", "what"), Column("", "value", right=True)],
        as_json=False,
    )


def _shown(measured: Measured) -> str:
    return (
        f"{measured.value:,.0f} {measured.unit}"
        if measured.unit.endswith("/s")
        else f"{measured.value:,.2f} {measured.unit}"
    )
