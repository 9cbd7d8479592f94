"""The program, run in this process for breadth and as a process of its own for depth."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.cli.app import run as run_program

PROGRAM = [sys.executable, "-m", "ottla"]
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]

    @property
    def table(self) -> list[dict[str, str]]:
        """Tab-separated lines, by the titles in the first."""
        titles, *rows = [line.split("\t") for line in self.lines]
        return [dict(zip(titles, row, strict=True)) for row in rows]

    def done(self) -> "Ended":
        """This, if all went well."""
        assert self.code == 0, self.err
        return self


Program = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the person who runs the tests gets in, and no log of theirs is met."""
    for name in [name for name in os.environ if name.startswith(("OTTLA_", "MINIKAFKA_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], folder: Path) -> Program:
    """`ottla` with the log in *folder*, run in this process."""

    def run(*arguments: str, stdin: bytes = b"", url: str | None = str(folder)) -> Ended:
        if url is not None:
            monkeypatch.setenv("OTTLA_URL", url)
        with io.TextIOWrapper(io.BytesIO(stdin)) as given:
            monkeypatch.setattr(sys, "stdin", given)
            code = run_program(arguments)
        out, err = capsysbinary.readouterr()
        return Ended(code, out, err.decode())

    return run


@pytest.fixture
def process(folder: Path) -> Program:
    """`ottla` with the log in *folder*, run as a program."""

    def run(*arguments: str, stdin: bytes = b"", url: str | None = str(folder), **variables: str) -> Ended:
        known = {} if url is None else {"OTTLA_URL": url}
        done = subprocess.run(
            [*PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            env=os.environ | known | variables,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr.decode())

    return run


@pytest.fixture
def started(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """`ottla` with the log in *folder*, as a program that goes on; it is ended with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"OTTLA_URL": str(folder)} | variables,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def log(folder: Path) -> Iterator[ottla.Log]:
    """The log in *folder*, opened with the library."""
    with ottla.open(f"file://{folder}") as opened:
        yield opened
