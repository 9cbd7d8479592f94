"""Time, as an argument: nothing in ottla asks the operating system for it in any other way."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for stamping and retention."""

    def now_ms(self) -> int:
        """Unix milliseconds. It may jump either way; the log keeps its append times from going back."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock for tests, moved by hand."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock; a negative amount is a clock that was set back."""
        with self._lock:
            self._now_ms += milliseconds
