"""`ottla doctor`: is a log, and the place where it is, in good health?"""

import os
from typing import Annotated

import typer

from ottla.cli.diagnosis import Finding, State, examine
from ottla.cli.exits import AWAY, FAILED, OK
from ottla.cli.options import DEFAULT_URL, AsJson, UrlArgument, as_url
from ottla.cli.output import show_json

EXAMPLES = ("ottla doctor file:///var/lib/ottla", "ottla doctor localhost:9999 --write", "ottla doctor ./data --json")

_SIGNS = {State.good: ("✓", "green"), State.note: ("!", "yellow"), State.bad: ("✗", "red")}


def doctor(
    url: UrlArgument = DEFAULT_URL,
    *,
    write: Annotated[
        bool, typer.Option("--write", help="Also write and read a topic, which is removed again.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Look at a log and the place where it is: can it be opened, is it fast, is there space, what should be changed?

    Without --write the log itself is not touched. The exit code is 1 if something is wrong, 4 if no server answers.
    """
    findings: list[Finding] = []
    for finding in examine(as_url(url), write=write):
        findings.append(finding)
        if not as_json:
            _show(finding)
    if as_json:
        show_json({"url": as_url(url), "findings": [finding._asdict() for finding in findings]})
    if any(finding.state is State.bad and finding.what == "server" for finding in findings):
        return AWAY
    return FAILED if any(finding.state is State.bad for finding in findings) else OK


def _show(finding: Finding) -> None:
    sign, colour = _SIGNS[finding.state]
    typer.secho(f"{sign} {finding.what}", fg=None if os.environ.get("NO_COLOR") else colour, nl=False)
    typer.echo(f": {finding.says}")
    if finding.advice:
        typer.echo(f"  {finding.advice}")
