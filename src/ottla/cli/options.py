"""What commands have in common: the URL of the log, the topic, `--json` and `--yes`, spelt alike everywhere."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

import ottla
from ottla.cli.exits import USAGE, Failure
from ottla.errors import InvalidValue
from ottla.settings import parse_duration

DEFAULT_URL = "grpc://127.0.0.1:9999"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        "-u",
        envvar="OTTLA_URL",
        help="The log: grpc://host:port, file:///folder, jsonl:///folder, or just a folder or host:port.",
    ),
]
UrlArgument = Annotated[
    str,
    typer.Argument(metavar="URL", envvar="OTTLA_URL", help="The log: a URL such as file:///data, or just a folder."),
]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", show_default=False)]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, help="Only this partition.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):(\d+)")


def as_url(words: str) -> str:
    """A URL from what people type: a URL, `host:port`, or a folder, of whichever engine is in it."""
    if not words:
        raise InvalidValue("URL", words, "write it as grpc://host:9999, file:///folder or a folder's name")
    if server := _HOST_PORT.fullmatch(words):
        return f"grpc://{server[1] or '127.0.0.1'}:{server[2]}"
    if _SCHEME.match(words):
        return words
    folder = Path(words).expanduser().absolute()
    return f"{_engine_in(folder)}://{quote(str(folder))}"


def _engine_in(folder: Path) -> str:
    """The engine that a folder belongs to; `file` for a new one."""
    try:
        return "jsonl" if json.loads((folder / "ottla.json").read_text())["engine"] == "jsonl" else "file"
    except (OSError, ValueError, KeyError, TypeError):
        return "file"


def opened(url: str, **options: Any) -> ottla.Log:
    """The log at what people type for a URL; use it in a `with` statement."""
    return ottla.open(as_url(url), **options)


def opened_for_reading(url: str) -> ottla.Log:
    """The log, without the power to change anything, not even to make the folder of a mistyped name."""
    return opened(url, read_only=True)


def opened_as_it_is(url: str) -> ottla.Log:
    """The log, to be changed but not to be made: a mistyped folder stays as it is, or is not there."""
    opened_for_reading(url).close()
    return opened(url)


def start_of(words: str) -> str | int:
    """Where to start reading: a message number is a number."""
    return int(words) if words.isascii() and words.isdigit() else words


def seconds_of(words: str, what: str) -> float:
    """Seconds from a duration such as `10s` or `500ms`, or from a plain number of seconds."""
    if _NUMBER.fullmatch(words):
        return float(words)
    milliseconds = parse_duration(words, what)
    return float("inf") if milliseconds is None else milliseconds / 1000


def unescaped(words: str) -> str:
    r"""Text in which `\t`, `\n`, `\r`, `\0` and `\\` are what they stand for."""
    meanings = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
    return re.sub(r"\\([tnr0\\])", lambda escape: meanings[escape[1]], words)


def confirmed(question: str, *, yes: bool) -> None:
    """Ask before something is lost. Where nobody can be asked, `--yes` must have said so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure(f"{question} Nobody is here to ask: say --yes", USAGE)
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        agreed = False
    if not agreed:
        raise Failure("nothing was changed")
