"""The memory engine keeps every promise that does not outlive its process."""

from pathlib import Path

import pytest

from ottla.errors import InvalidValue
from ottla.storage import open_engine
from ottla.testing import EngineContract


class TestMemoryEngine(EngineContract):
    survives_reopen = False
    shared_between_processes = False

    def url(self, folder: Path) -> str:  # noqa: ARG002  (nothing is stored)
        return "memory:"


def test_two_memory_logs_are_apart() -> None:
    """Each opening is a log of its own."""
    one, other = open_engine("memory:"), open_engine("memory:")
    one.store("a", b"x", 0)
    assert other.load("a") is None


@pytest.mark.parametrize("url", ["memory:name", "memory://host/name", "memory:?sync=never"])
def test_a_memory_log_has_no_name_and_no_options(url: str) -> None:
    with pytest.raises(InvalidValue, match="memory:"):
        open_engine(url)
