"""Which server to ask: the broker that owns a partition, and any other while that one is away.

The map is learned at the first use and learned again when a broker was lost. A server of one broker is asked at
the address that the client was given, whatever the server thinks that its address is.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ottla.errors import Closed
from ottla.protocol.brokers import owner_of
from ottla.storage.disk import forks
from ottla.storage.remote.channel import Channel, channels
from ottla.v1 import log_pb2 as pb

_AWAY_S: Final = 1.0
"""How long a lost broker is left alone while there are others."""


class Brokers:
    """The channels of one engine. Safe from many threads and after a fork."""

    def __init__(self, addresses: Sequence[tuple[str, int]], describe: Callable[[float], pb.Cluster]) -> None:
        self._describe = describe
        self.given = [channels.take(*address) for address in addresses]
        self._owners: list[Channel] = []
        """By the ids of the brokers, from 1; empty while there is only one, or nobody knows."""
        self._learned = False
        self._away: dict[Channel, float] = {}
        self._lock = threading.Lock()
        forks.register(self)

    def forget(self) -> None:
        self._lock = threading.Lock()

    @property
    def met(self) -> bool:
        """Whether any of them was ever there."""
        return any(channel.met for channel in self._all())

    def any(self) -> Channel:
        """One that is there, as far as is known."""
        return self._first_present(self._all())

    def owner(self, partition: int, deadline: float) -> Channel:
        """The one that owns a partition, or another while that is away."""
        if not self._learned:
            self._learn(deadline)
        owners = self._owners
        if not owners:
            return self.any()
        owner = owners[owner_of(partition, len(owners)) - 1]
        return self._first_present([owner, *self._all()])

    def lost(self, channel: Channel) -> bool:
        """A call to it was lost. Whether there is another to ask at once."""
        self._away[channel] = time.monotonic() + _AWAY_S
        self._learned = False
        return self._first_present(self._all()) is not channel

    def close(self) -> None:
        with self._lock:
            held, self.given, self._owners = self.given + self._owners, [], []
        for channel in held:
            channels.give_back(channel)

    def _all(self) -> list[Channel]:
        return list(dict.fromkeys(self.given + self._owners))

    def _first_present(self, candidates: list[Channel]) -> Channel:
        if not candidates:
            raise Closed("log")
        now = time.monotonic()
        present = (channel for channel in candidates if self._away.get(channel, 0) <= now)
        return next(present, candidates[0])

    def _learn(self, deadline: float) -> None:
        """Ask who the brokers are. Only one thread asks; the others go on with what is known."""
        if not self._lock.acquire(blocking=not self._owners):
            return
        try:
            if not self._learned:
                cluster = self._describe(deadline)
                self._learned = True
                self._take(cluster)
        finally:
            self._lock.release()

    def _take(self, cluster: pb.Cluster) -> None:
        brokers = sorted(cluster.brokers, key=lambda broker: broker.id)
        if len(brokers) < 2 or not all(broker.address for broker in brokers):  # noqa: PLR2004  (several)
            taken = []
        else:
            taken = [channels.take(*_split(broker.address)) for broker in brokers]
        before, self._owners = self._owners, taken
        now = time.monotonic()
        for channel, broker in zip(taken, brokers, strict=False):
            if not broker.alive:
                self._away[channel] = now + _AWAY_S
        for channel in before:
            channels.give_back(channel)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
