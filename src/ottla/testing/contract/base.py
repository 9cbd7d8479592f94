"""What every part of the contract stands on: a storage that can be opened again, a clock, one partition."""

from collections.abc import Iterator
from inspect import getmembers, isfunction, signature
from pathlib import Path

import pytest

from ottla.clock import Clock, ManualClock
from ottla.storage import Engine, PartitionStore, open_engine
from ottla.testing.samples import new_topic


class Storage:
    """One storage, opened as often as a test likes, closed when the test ends."""

    def __init__(self, contract: "Contract", url: str, clock: Clock) -> None:
        self.url = url
        self._contract = contract
        self._clock = clock
        self._engines: list[Engine] = []

    def open(self, *, read_only: bool = False) -> Engine:
        """Another engine on the same storage."""
        engine = self._contract.open(self.url, clock=self._clock, read_only=read_only)
        self._engines.append(engine)
        return engine

    def reopen(self) -> Engine:
        """Close all, then open: what a program finds after a restart."""
        self.close()
        return self.open()

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()


class Contract:
    """What an engine's test class says about its engine."""

    survives_reopen = True
    """What was acknowledged is there when the same URL is opened again."""
    shared_between_processes = True
    """Several engines, also in other processes, may use the same URL at once."""

    def __init_subclass__(cls) -> None:
        """Leave out what the engine does not promise: a test that cannot apply is no test that was skipped."""
        super().__init_subclass__()
        needs = {
            name: signature(test).parameters.keys()
            for name, test in getmembers(cls, isfunction)
            if name.startswith("test_")
        }
        for name, fixtures in needs.items():
            lasting = cls.survives_reopen or "lasting_storage" not in fixtures
            shared = cls.shared_between_processes or not fixtures & {"shared_storage", "workers"}
            if not (lasting and shared):
                setattr(cls, name, None)

    def url(self, folder: Path) -> str:
        """The URL of an empty storage of this test's own; *folder* is empty and goes away by itself."""
        raise NotImplementedError(f"{type(self).__name__} must say which URL it tests: override url()")

    def open(self, url: str, *, clock: Clock, read_only: bool) -> Engine:
        """The engine for that URL. Override it to test an engine that is not registered."""
        return open_engine(url, clock=clock, read_only=read_only)

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def storage(self, tmp_path: Path, clock: ManualClock) -> Iterator[Storage]:
        folder = tmp_path / "log"
        folder.mkdir()
        storage = Storage(self, self.url(folder), clock)
        yield storage
        storage.close()

    @pytest.fixture
    def lasting_storage(self, storage: Storage) -> Storage:
        """The storage, for tests that open it again."""
        return storage

    @pytest.fixture
    def shared_storage(self, storage: Storage) -> Storage:
        """The storage, for tests that open it several times at once."""
        return storage

    @pytest.fixture
    def engine(self, storage: Storage) -> Engine:
        return storage.open()

    @pytest.fixture
    def partition(self, engine: Engine) -> PartitionStore:
        return engine.partition(new_topic(engine), 0)
