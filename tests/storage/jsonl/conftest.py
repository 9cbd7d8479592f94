"""A folder for a jsonl log, and engines on it that are closed in the end."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.clock import ManualClock
from ottla.storage import open_engine
from ottla.storage.jsonl import JsonlEngine

Open = Callable[..., JsonlEngine]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(folder: Path, clock: ManualClock) -> Iterator[Open]:
    """Opens the folder, or another one: each call is another engine."""
    engines: list[JsonlEngine] = []

    def opening(path: Path = folder, query: str = "", *, read_only: bool = False) -> JsonlEngine:
        engine = open_engine(f"jsonl://{path}{query}", clock=clock, read_only=read_only)
        assert isinstance(engine, JsonlEngine)
        engines.append(engine)
        return engine

    yield opening
    for engine in engines:
        engine.close()
