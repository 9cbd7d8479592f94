"""A file log in a temporary folder, closed when the test ends."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.clock import ManualClock
from ottla.testing.filelog import FileLog


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quick_log(tmp_path: Path, clock: ManualClock) -> Iterator[FileLog]:
    """A log in memory, where the system has a place for that: for tests that copy theirs hundreds of times."""
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(prefix="ottla-", dir=place) as folder:
        log = FileLog(Path(folder, "log"), clock)
        yield log
        log.close()


@pytest.fixture
def log(tmp_path: Path, clock: ManualClock) -> Iterator[FileLog]:
    log = FileLog(tmp_path / "log", clock)
    yield log
    log.close()
