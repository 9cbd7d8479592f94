"""What a benchmark returns, how it is timed, and how it is shown."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement beside a limit that was measured in the same run."""

    group: str
    what: str
    value: float
    unit: str
    limit: float | None = None
    """What the machine does without ottla, in the same unit."""
    limit_is: str = ""
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.limit else self.value / self.limit


def best_seconds(work: Callable[[], object], *, repeat: int = 5, least_s: float = 0.2) -> float:
    """Seconds for one call of *work*: the best of a few rounds, each of at least *least_s*."""
    start = time.perf_counter()
    work()
    once = max(time.perf_counter() - start, 1e-9)
    calls = max(1, round(least_s / once))
    best = once
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        best = min(best, (time.perf_counter() - start) / calls)
    return best


def median_seconds(work: Callable[[], object], *, calls: int) -> float:
    """The median over single calls."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return sorted(times)[calls // 2]


def shown(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| what | measured | limit in the same run | ratio | aim |", "|---|---:|---|---:|---|"]
    group = None
    for row in rows:
        if row.group != group:
            lines.append(f"| **{row.group}** | | | | |")
            group = row.group
        limit = "" if row.limit is None else f"{number(row.limit)} {row.unit}, {row.limit_is}"
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append(f"| {row.what} | {number(row.value)} {row.unit} | {limit} | {ratio} | {row.aim} |")
    return "\n".join(lines)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def machine() -> str:
    """What the figures were measured on, in one sentence."""
    return f"One run with Python {platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores."


def write_block(page: Path, name: str, text: str) -> None:
    """Replace what a page has between its two marks for *name*."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- {name}: begin")
    head, _, rest = rest.partition("-->")
    _, end, after = rest.partition(f"<!-- {name}: end")
    if not begin or not end:
        raise ValueError(f"{page} has no block for {name}")
    page.write_text(f"{before}{begin}{head}-->\n\n{text}\n\n{end}{after}", encoding="utf-8")


def write_json(rows: Iterable[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform(), "processor": platform.processor()}
    content = {"machine": machine, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
