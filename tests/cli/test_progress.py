"""Progress is for people who wait: on a terminal, after a while, and never in the way of what is printed."""

import io
import sys
from typing import Any

import pytest

from ottla.cli import progress
from ottla.cli.progress import Waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(*, quiet: bool = False, total: float | None = None) -> None:
    with Waiting("copying", total, quiet=quiet) as waiting:
        for _ in range(10):
            waiting.advance(100)


def seen(monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """What the work shows on a terminal."""
    terminal = Terminal()
    with monkeypatch.context() as patched:
        patched.setenv("TERM", "xterm")
        patched.setattr(sys, "stderr", terminal)
        work(**options)
    return terminal.getvalue()


@pytest.mark.parametrize("total", [None, 1000])
def test_those_who_wait_see_it(monkeypatch: pytest.MonkeyPatch, total: float | None) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    assert "copying" in seen(monkeypatch, total=total)


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen(monkeypatch) == ""


def test_quiet_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    assert seen(monkeypatch, quiet=True) == ""


def test_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_PATIENCE_S", -1.0)
    work()
    assert capsys.readouterr() == ("", "")
