"""The results as Markdown and JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.measure import SIZES
from benchmarks.peers.running import Result

_RATES = ("produce, one by one", "produce, lists", "produce, packed", "consume", "consume, objects", "consume, packed")
_TIMES = ("send", "end to end")


def machine(folder: Path) -> dict[str, str]:
    """What the figures depend on."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.release()}",
        "processors": f"{os.cpu_count()} of {_processor()}",
        "file system": file_system(folder),
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def file_system(folder: Path) -> str:
    """The type of the file system that *folder* is on; `unknown` where the system does not say."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    inside = [(point, kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(inside, key=lambda mount: len(mount[0]))[1] if inside else "unknown"


def markdown(results: Sequence[Result], facts: dict[str, str]) -> str:
    parts = ["; ".join(f"{name}: {fact}" for name, fact in facts.items()) + "."]
    for size in SIZES:
        group = f"{size:,} B"
        parts.append(
            f"Messages of {group}: messages a second, and milliseconds as p50 / p99:\n\n{_table(results, group)}"
        )
    parts.append(f"What ran, and what an acknowledged message is there:\n\n{_versions(results)}")
    return "\n\n".join(parts)


def write_json(results: Sequence[Result], facts: dict[str, str], path: Path) -> None:
    content = {
        "machine": facts,
        "peers": [
            {
                "name": result.peer.name,
                "title": result.peer.title,
                "durability": result.peer.durability,
                "version": result.version,
                "not run": result.not_run or None,
                "rows": [asdict(row) for row in result.rows],
            }
            for result in results
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _table(results: Sequence[Result], group: str) -> str:
    columns = [name for name in (*_RATES, *_TIMES) if any(_cell(result, group, name) for result in results)]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for result in results:
        if result.not_run:
            lines.append(f"| {result.peer.title} | not run |" + " |" * (len(columns) - 1))
        else:
            lines.append(f"| {result.peer.title} | {' | '.join(_cell(result, group, name) for name in columns)} |")
    return "\n".join(lines)


def _cell(result: Result, group: str, name: str) -> str:
    values = {row.what: row.value for row in result.rows if row.group == group}
    if name in values:
        return _rate(values[name])
    if f"{name}, p50" in values:
        return f"{_time(values[f'{name}, p50'])} / {_time(values[f'{name}, p99'])}"
    return ""


def _versions(results: Sequence[Result]) -> str:
    lines = ["| | versions | acknowledged means |", "|---|---|---|"]
    for result in results:
        version = f"not run: {_plain(result.not_run)}" if result.not_run else result.version
        lines.append(f"| {result.peer.title} | {version} | {result.peer.durability} |")
    return "\n".join(lines)


def _plain(reason: str) -> str:
    return " ".join(reason.replace("|", "/").split())


def _rate(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.3g} k" if value < 1e5 else f"{value / 1e3:.0f} k"


def _time(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
