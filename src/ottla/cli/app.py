"""The program `ottla`: its commands, and how a mistyped one is answered."""

import functools
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Annotated, Any

import typer

import ottla
from ottla.cli import (
    bench,
    brokers,
    compact,
    consume,
    copy,
    doctor,
    groups,
    produce,
    repair,
    serve,
    tail,
    topics,
    verify,
    version,
)
from ottla.cli.exits import FAILED, USAGE, ended, say

_MESSAGES, _TOPICS, _CARE, _SERVER = "Messages", "Topics and groups", "Care", "Server"

_EPILOG = """\
A URL is grpc://host:port, file:///folder, jsonl:///folder, or just a folder or host:port. \
Commands on messages, topics and groups take it from --url or the variable OTTLA_URL.

Exit codes: 0 done, 1 failed, 2 wrong command or value, 3 no such topic, partition or group, \
or fewer messages than asked for, 4 no server answers, 5 damage, 130 Ctrl-C.

OTTLA_DEBUG=1 shows where an error comes from."""

app = typer.Typer(
    name="ottla",
    help="A message log for Python and Spark that needs no cluster.",
    epilog=_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """The program's exit code, after it has done what *arguments* say."""
    logging.basicConfig(format="ottla: %(message)s")
    return ended(lambda: _invoke(arguments))


def _invoke(arguments: Sequence[str]) -> int:
    try:
        return app(list(arguments), standalone_mode=False, prog_name="ottla") or 0
    except SystemExit as told:  # by the completion of shells
        return int(told.code or 0)
    except typer.Abort:
        say("stopped; nothing was changed")
        return FAILED
    except _UsageError as error:
        context = getattr(error, "ctx", None)
        hint = f" (see `{context.command_path} --help`)" if context is not None else ""
        say(error.format_message().rstrip(".") + hint)
        return USAGE


_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for a mistyped command, whichever package it comes from."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ottla {ottla.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="The version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def _guarded(command: Callable[..., int | None]) -> Callable[..., None]:
    """The command with its end: errors become sentences and exit codes."""

    @functools.wraps(command)
    def guarded(*values: Any, **options: Any) -> None:
        if code := ended(lambda: command(*values, **options)):
            raise typer.Exit(code)

    return guarded


def _register(module: ModuleType, panel: str) -> None:
    """The command of a module, which has the module's name."""
    name = module.__name__.rpartition(".")[2]
    command = getattr(module, name)
    examples = "\n".join(["[bold]Examples[/]", *(line.replace("[", r"\[") for line in module.EXAMPLES)])
    if isinstance(command, typer.Typer):
        for info in command.registered_commands:
            assert info.callback is not None
            info.callback = _guarded(info.callback)
        summary = (module.__doc__ or "").partition(": ")[2]
        app.add_typer(
            command, name=name, help=summary[:1].upper() + summary[1:], epilog=examples, rich_help_panel=panel
        )
    else:
        app.command(name, epilog=examples, rich_help_panel=panel)(_guarded(command))


for _module in (produce, consume, tail):
    _register(_module, _MESSAGES)
for _module in (topics, groups):
    _register(_module, _TOPICS)
for _module in (copy, verify, repair, compact, doctor, bench, version):
    _register(_module, _CARE)
for _module in (serve, brokers):
    _register(_module, _SERVER)
