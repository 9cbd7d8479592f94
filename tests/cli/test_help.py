"""Every command explains itself, and its examples are ones that work."""

import shlex
from typing import TYPE_CHECKING, Any

import pytest
import typer

from ottla.cli import app as program_app

if TYPE_CHECKING:
    from tests.cli.conftest import Program

_ROOT: Any = typer.main.get_command(program_app.app)
COMMANDS = sorted(_ROOT.commands)
LEAVES = sorted(
    f"{name} {leaf}".strip() for name in COMMANDS for leaf in (getattr(_ROOT.commands[name], "commands", {"": None}))
)


def command_of(words: list[str]) -> Any:
    """The command that a line names, and the arguments that are left."""
    command = _ROOT.commands[words[0]]
    if hasattr(command, "commands"):
        return command.commands[words[1]], words[2:]
    return command, words[1:]


def test_all_commands_of_the_issue_are_there() -> None:
    assert set(COMMANDS) == {
        "bench", "brokers", "compact", "consume", "copy", "doctor", "groups", "produce", "repair", "serve", "tail",
        "topics", "verify", "version",
    }  # fmt: skip


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_is_explained(program: "Program", name: str) -> None:
    command, _ = command_of(name.split())
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{name} {parameter.name} has no help"
    assert "Usage: ottla" in program(*name.split(), "--help").done().out.decode()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_can_be_typed(name: str) -> None:
    """Each line is split as a shell does, up to a comment or a pipe, and parsed by the command that it names."""
    command = _ROOT.commands[name]
    title, *examples = command.epilog.replace(r"\[", "[").split("\n")
    assert title == "[bold]Examples[/]"
    assert examples
    for example in examples:
        words = shlex.split(example, comments=True)
        words = words[words.index("ottla") + 1 :]
        for end in ("|", "<", "||"):
            words = words[: words.index(end)] if end in words else words
        parsed, arguments = command_of(words)
        parsed.make_context(words[0], list(arguments))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_shells(program: "Program", monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "ottla" in program("--show-completion", shell).out.decode()
