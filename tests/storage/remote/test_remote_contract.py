"""The remote engine keeps every promise of the engine contract, over the wire."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.log import Log
from ottla.clock import ManualClock
from ottla.server import Server
from ottla.storage import open_engine
from ottla.testing import EngineContract
from ottla.testing.contract.processes import ProcessesContract
from ottla.testing.servers import ServerProcess

OF_PROCESSES = {name for name in vars(ProcessesContract) if name.startswith("test_")}
"""These fork, and a fork does not do a gRPC server in the same process any good: it is in a process of its own."""


class OverTheWire(EngineContract):
    """Every test has an empty log behind a server, which runs on the test's clock where that matters."""

    served = ""

    @pytest.fixture(scope="class")
    @classmethod
    def process(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
        with ServerProcess(cls.served.format(tmp_path_factory.mktemp("served"))) as process:
            yield process

    @pytest.fixture(autouse=True)
    def address(self, request: pytest.FixtureRequest) -> None:
        there = "emptied_process" if request.node.originalname in OF_PROCESSES else "server"
        self._address = request.getfixturevalue(there)

    @pytest.fixture
    def emptied_process(self, process: ServerProcess) -> str:
        engine = open_engine(f"grpc://{process.address}")
        for topic in engine.topics():
            engine.delete_topic(topic.name)
        engine.discard("counter")
        engine.close()
        return process.address

    @pytest.fixture
    def server(self, tmp_path: Path, clock: ManualClock) -> Iterator[str]:
        (tmp_path / "served").mkdir()
        url = self.served.format(tmp_path / "served")
        log = Log(open_engine(url, clock=clock), url, clock=clock, culler=False)
        server = Server(log)
        yield str(server.start("127.0.0.1:0"))
        server.stop(0)
        log.close()

    def url(self, folder: Path) -> str:  # noqa: ARG002  (the log is the server's)
        return f"grpc://{self._address}"


class TestMemoryOverTheWire(OverTheWire):
    served = "memory:"


class TestFileOverTheWire(OverTheWire):
    served = "file://{}"
