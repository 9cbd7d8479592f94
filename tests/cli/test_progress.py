"""Progress is for people who wait: on a terminal, after a while, and never in the way of what is printed."""

import io
import sys

import pytest

from ottla.cli import progress
from ottla.cli.progress import Waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def work(*, quiet: bool = False, total: float | None = None) -> None:
    with Waiting("copying", total, quiet=quiet) as waiting:
        for _ in range(10):
            waiting.advance(100)


@pytest.mark.parametrize("total", [None, 1000])
def test_those_who_wait_see_it(monkeypatch: pytest.MonkeyPatch, terminal: Terminal, total: float | None) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    work(total=total)
    assert "copying" in terminal.getvalue()


def test_what_is_quick_shows_nothing(terminal: Terminal) -> None:
    work()
    assert terminal.getvalue() == ""


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    work(quiet=True)
    assert terminal.getvalue() == ""


def test_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    work()
    assert capsys.readouterr() == ("", "")
