"""Progress for those who wait: on a terminal only, on standard error, and not before a second has passed."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE_S = 1.0


class Waiting:
    """Shows how far the work is, if it takes long and somebody looks."""

    def __init__(self, what: str, total: float | None = None, *, quiet: bool = False) -> None:
        self._what = what
        self._total = total
        self._done = 0.0
        self._shown: Progress | None = None
        self._looked_at = not quiet and sys.stderr.isatty()
        self._since = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        """More is done."""
        self._done += amount
        if self._shown is not None:
            self._shown.update(self._task, completed=self._done, rate=self._rate())
        elif self._looked_at and time.monotonic() - self._since > _PATIENCE_S:
            self._show()

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (it takes a while, and only those who wait need it)
        from rich.progress import (  # noqa: PLC0415  (likewise)
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        counted = [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
        rate = TextColumn("{task.completed:,.0f}, {task.fields[rate]}", markup=False)
        self._shown = Progress(
            *columns, *(counted if self._total else [rate]), console=Console(stderr=True), transient=True
        )
        self._task = self._shown.add_task(self._what, total=self._total, completed=int(self._done), rate=self._rate())
        self._shown.start()

    def _rate(self) -> str:
        return f"{self._done / max(time.monotonic() - self._since, 0.001):,.0f}/s"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()
