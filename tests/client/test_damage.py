"""`ottla.verify` and `ottla.repair`, through the engine that a URL names."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import damage
from ottla.errors import InvalidValue, OttlaError
from ottla.model import Damage
from ottla.storage.contract import EngineOptions
from ottla.storage.memory import MemoryEngine

FOUND = Damage(topic="deliveries", partition=0, path="1.log", position=7, reason="a bit flipped")


class RepairableEngine(MemoryEngine):
    """An engine that finds one thing wrong."""

    def verify(self) -> Iterator[Damage]:
        yield FOUND

    def repair(self) -> Iterator[Damage]:
        self.check_writable("repair")
        yield FOUND


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[RepairableEngine]:
    """The engines that were opened."""
    engines: list[RepairableEngine] = []

    def open_engine(_: str, *, read_only: bool = False) -> RepairableEngine:
        engines.append(RepairableEngine(EngineOptions(read_only=read_only)))
        return engines[-1]

    monkeypatch.setattr(damage, "open_engine", open_engine)
    return engines


def test_verify_lists_the_damage_and_may_change_nothing(opened: list[RepairableEngine]) -> None:
    assert damage.verify("kept:///x") == [FOUND]
    assert opened[0]._read_only
    assert opened[0]._closed


def test_repair_may(opened: list[RepairableEngine]) -> None:
    assert damage.repair("kept:///x") == [FOUND]
    assert opened[0]._closed


def test_an_engine_that_stores_nothing_says_so() -> None:
    for use in (damage.verify, damage.repair):
        with pytest.raises(InvalidValue, match="memory:"):
            use("memory:")


def test_a_folder_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    with contextlib.suppress(OttlaError):  # an engine may refuse or find nothing; it must not create
        assert damage.verify(f"file://{folder}") == []
    assert not folder.exists()
