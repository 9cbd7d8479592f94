"""`ottla serve`: put a log on the network, and MiniKafka's own server, which is set up by its environment (M10)."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.exits import USAGE, say
from ottla.cli.options import as_url
from ottla.cli.output import Column, show_rows
from ottla.errors import InvalidValue, MissingDependency, OttlaError

if TYPE_CHECKING:  # what follows needs gRPC, which is optional
    from ottla.server.broker import Listening
    from ottla.server.config import Findings

EXAMPLES = (
    "ottla serve /data",
    "ottla serve /data --grpc 127.0.0.1:9999 --retention 7d",
    "ottla serve jsonl:///data --brokers 3",
    "ottla serve --check",
)

_SEED_EXAMPLES = {"MINIKAFKA_HOST": "127.0.0.1:9999", "MINIKAFKA_RETENTIONTIME": "10s"}
"""What MiniKafka's server must be given; a root directory it can do without."""

_COLUMNS = [
    Column("SETTING", "setting"),
    Column("VALUE", "value", lambda value: str(value).lower() if isinstance(value, bool) else str(value)),
    Column("FROM", "from"),
    Column("PROBLEM", "problem"),
]


def _option(about: str, *names: str) -> Any:
    return typer.Option(*names, help=about, show_default=False)


def serve(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="The log: file:///folder, jsonl:///folder or a folder.", show_default=False),
    ] = None,
    *,
    grpc: Annotated[str | None, _option("Listen here: HOST:PORT; port 0 picks one. Default 127.0.0.1:9999.")] = None,
    advertise: Annotated[str | None, _option("The host that clients are told, if it is another.")] = None,
    retention: Annotated[str | None, _option("How long new topics keep messages: 10s, 2h, 7d, forever.")] = None,
    brokers: Annotated[int | None, _option("How many processes serve. Default 1.")] = None,
    max_in_flight: Annotated[str | None, _option("Bytes held for producers. Default 64MiB.")] = None,
    max_call_bytes: Annotated[str | None, _option("The largest request. Default 32MiB.")] = None,
    max_streams: Annotated[int | None, _option("Streams of each kind. Default 512.")] = None,
    metrics: Annotated[str | None, _option("Serve Prometheus metrics by HTTP here: HOST:PORT.")] = None,
    insecure: Annotated[
        bool | None, _option("Listen where others can connect, without encryption.", "--insecure/--no-insecure")
    ] = None,
    config: Annotated[str | None, _option("A TOML file. Default ./ottla.toml, ~/.config/ottla/ottla.toml.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Say what is in force and from where, and end.")] = False,
    log_format: Annotated[str | None, _option("auto, text or json.")] = None,
    log_level: Annotated[str | None, _option("debug, info, warning or error.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say where it listens as a line of JSON.")] = False,
) -> int:
    """Put a log on the network.

    Without a URL messages are kept in memory. What is not given here comes from the environment (OTTLA_GRPC,
    OTTLA_RETENTION …), then from the table `serve` of the TOML file.
    """
    flags = {
        "url": None if url is None else as_url(url),
        "grpc": grpc,
        "advertise": advertise,
        "retention": retention,
        "brokers": brokers,
        "max_in_flight": max_in_flight,
        "max_call_bytes": max_call_bytes,
        "max_streams": max_streams,
        "metrics": metrics,
        "insecure": insecure,
        "log_format": log_format,
        "log_level": log_level,
    }
    found = _find(flags, os.environ, config)
    if check:
        return _show(found, as_json=as_json)
    _run(found, as_json=as_json)
    return 0


def minikafka_server() -> None:
    """MiniKafka's server: address, retention and root directory come from its variables, and nothing else counts."""
    seeds = {name: value for name, value in os.environ.items() if name.startswith("MINIKAFKA_")}
    for name, example in _SEED_EXAMPLES.items():
        if not seeds.get(name):
            raise InvalidValue(name, seeds.get(name, ""), f"it must be set, as in {name}={example}")
    _run(_find({}, seeds, config=None, files=False), program="mkfk-server")


def _find(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: str | None, *, files: bool = True
) -> "Findings":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what goes wrong is said in our own words
    try:
        from ottla.server.config import find_settings  # noqa: PLC0415  (the package needs gRPC, which is optional)
    except ImportError as error:
        raise MissingDependency("ottla serve", error.name or "grpcio", "'ottla[server]'") from error
    return find_settings(flags, environment, config=config, files=files)


def _show(found: "Findings", *, as_json: bool) -> int:
    """What is in force and from where; the exit code says whether a server could run with it."""
    rows = [
        {
            "setting": row.setting.name,
            "value": row.shown,
            "from": row.source,
            "problem": None if row.problem is None else str(row.problem),
        }
        for row in found.rows
    ]
    show_rows(rows, _COLUMNS, as_json=as_json)
    for notice in found.notices():
        say(notice)
    problems: list[OttlaError] = found.problems()
    for problem in problems:
        say(str(problem))
    return USAGE if problems else 0


def _run(found: "Findings", *, as_json: bool = False, program: str = "ottla") -> None:
    from ottla.server.logs import configure_logs  # noqa: PLC0415  (the package needs gRPC, which is optional)
    from ottla.server.running import run  # noqa: PLC0415  (likewise)

    settings = found.settings()
    for notice in found.notices():
        say(notice, program)
    configure_logs(settings.log_format, settings.log_level)
    run(settings, _announced(str(found["url"].shown), as_json=as_json))


def _announced(url: str, *, as_json: bool) -> "Callable[[list[Listening]], None]":
    def announce(brokers: "list[Listening]") -> None:
        """Say where it listens: for scripts, since a port may have been picked."""
        if as_json:
            described = [{"id": b.id, "grpc": b.grpc, "metrics": b.metrics, "pid": b.pid} for b in brokers]
            line = {"event": "listening", "url": url, "pid": os.getpid(), "grpc": brokers[0].grpc, "brokers": described}
            sys.stdout.write(json.dumps(line) + "\n")
        else:
            where = ", ".join(broker.grpc for broker in brokers)
            sys.stdout.write(f"listening on {where} for {url}\n")
        sys.stdout.flush()

    return announce
