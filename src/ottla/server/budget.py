"""How many bytes the server holds for producers at once: what does not fit is refused before anything is written."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.errors import ServerBusy

RETRY_AFTER_MS = 50


class Budget:
    """Bytes in flight, over all clients. Safe from many threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        return self._used

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold *size* bytes of the budget, or `ServerBusy`. A single request of any size fits into an empty one."""
        with self._lock:
            if self._used and self._used + size > self.limit:
                raise ServerBusy(self._used, self.limit, RETRY_AFTER_MS)
            self._used += size
        try:
            yield
        finally:
            with self._lock:
                self._used -= size
