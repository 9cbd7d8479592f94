"""For clients that speak asyncio: a session with a loop of its own, and what a callback has collected."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from benchmarks.peers.contract import Session


class LoopSession(Session):
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._loop.close()


class Arrivals:
    """Values that a callback puts here until somebody takes them."""

    def __init__(self) -> None:
        self._values: list[bytes] = []
        self._some = asyncio.Event()

    def put(self, value: bytes) -> None:
        self._values.append(value)
        self._some.set()

    async def take(self) -> list[bytes]:
        """All that has come; at least one."""
        await self._some.wait()
        self._some.clear()
        values, self._values = self._values, []
        return values
