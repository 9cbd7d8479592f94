"""Who a producer is, so that the log recognises a batch that comes again.

A producer without a name is new each time: a random id. A producer with a name keeps its id, derived from
topic and name, and every opening of it takes the next epoch, by compare-and-swap on the metadata
`producers/<topic id>/<name>`, a JSON object `{"epoch": 3, "owner": "5f0e…"}`; the log refuses the batches of
older epochs.
"""

import hashlib
import json
import secrets
import threading
from typing import Any, Protocol

from ottla.errors import MetadataConflict, ProducerFenced
from ottla.log.topics import TopicHandle

_ID_BYTES = 16


class Identity(Protocol):
    """A producer id with its epoch."""

    id: bytes
    epoch: int

    def renew(self, epoch: int) -> int:
        """An epoch higher than *epoch*, so that sequences start again and late batches of before are refused."""


class Nameless:
    """One life, one random id."""

    def __init__(self) -> None:
        self.id = secrets.token_bytes(_ID_BYTES)
        self.epoch = 0

    def renew(self, epoch: int) -> int:
        return epoch + 1


class Named:
    """The newest producer of this name: it fences those before it."""

    def __init__(self, handle: TopicHandle, name: str) -> None:
        self._handle = handle
        self._key = f"producers/{handle.id}/{name}"
        self._name = name
        self._owner = secrets.token_hex(_ID_BYTES)
        self._lock = threading.Lock()
        self.id = hashlib.sha256(f"{handle.id}/{name}".encode()).digest()[:_ID_BYTES]
        self.epoch = -1
        self._claim()

    def renew(self, epoch: int) -> int:  # noqa: ARG002  (the epoch is the name's, not the partition's)
        with self._lock:
            self._claim()
            return self.epoch

    def _claim(self) -> None:
        """Take the next epoch; or `ProducerFenced` if somebody else has taken one since."""
        while True:
            stored = self._handle.engine.load(self._key)
            last: dict[str, Any] = {"epoch": -1} if stored is None else json.loads(stored.data)
            if self.epoch >= 0 and last.get("owner") != self._owner:
                raise ProducerFenced(self._name, self.epoch, last["epoch"])
            mine = json.dumps({"epoch": last["epoch"] + 1, "owner": self._owner}).encode()
            try:
                self._handle.engine.store(self._key, mine, 0 if stored is None else stored.version)
            except MetadataConflict:
                continue
            self.epoch = last["epoch"] + 1
            return
