"""What a peer has to offer so that it can be measured: a server that starts and stops, and a client."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self


class NotRun(Exception):
    """This peer cannot be measured here; says why and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A server that takes calls."""

    address: str
    version: str


class Session:
    """One client of a started server. What a client cannot do is left as it is here and not measured."""

    list_size: ClassVar[int] = 1_000
    """How many messages `produce_lists` is given at a time."""

    def create(self, topic: str) -> None:
        """Make a topic with one partition."""

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        """Hand over messages one by one, and return when all are acknowledged."""
        raise NotImplementedError

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:
        """The same, many messages a call."""
        raise NotImplementedError

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        """Send each message when the one before is acknowledged; the seconds that each took."""
        raise NotImplementedError

    def chunks(self, topic: str) -> Iterator[Sized]:
        """The values from the beginning, in lists as large as the client likes; waits at the end for more.

        The first list is empty: the client is connected and has asked for nothing yet.
        """
        raise NotImplementedError

    def objects(self, topic: str) -> Iterator[Sized]:
        """The same with an object for each message, where `chunks` has only the values."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Peer(ABC):
    """A log that is measured. Importing its module needs nothing installed."""

    name: ClassVar[str]
    title: ClassVar[str]
    durability: ClassVar[str]
    """What an acknowledgement means here."""
    get_it: ClassVar[str] = ""
    """How to get what is missing."""
    is_limit: ClassVar[bool] = False
    """Not a log: what the machine does without one."""

    @abstractmethod
    def run(self, folder: Path) -> AbstractContextManager[Started]:
        """Start the server with its data in *folder*, and stop it in the end; or `NotRun`."""

    @abstractmethod
    def connect(self, address: str) -> Session:
        """A client; also from another process."""


def client_version(package: str) -> str:
    """The installed version of a client's package; or `NotRun`."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        raise NotRun(f"the Python package {package} is not installed; pip install --group peers") from None
