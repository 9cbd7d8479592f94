"""Which files hold a partition's messages: segments, compacted runs and known gaps, in order of numbers."""

import bisect
import os
import re
from pathlib import Path
from typing import Literal, NamedTuple, cast

_NAME = re.compile(r"(\d{20})(?:-(\d{20}))?\.(log|parquet|gap)")

Kind = Literal["log", "parquet", "gap"]


class Piece(NamedTuple):
    """The messages *first* to *end* - 1, in one file."""

    first: int
    end: int
    kind: Kind
    path: Path


def log_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.log"


def index_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.index"


def producers_path(folder: Path, first: int) -> Path:
    return folder / f"{first:020d}.producers"


def range_path(folder: Path, first: int, end: int, kind: Literal["parquet", "gap"]) -> Path:
    return folder / f"{first:020d}-{end:020d}.{kind}"


def find_files(folder: Path) -> list[tuple[int, int | None, Kind, Path]]:
    """Every file that holds messages, by first number; the end is `None` for segments."""
    found: list[tuple[int, int | None, Kind, Path]] = []
    for name in os.listdir(folder):
        if match := _NAME.fullmatch(name):
            first, end = match[1], match[2]
            kind = cast("Kind", match[3])
            if (end is None) == (kind == "log"):
                found.append((int(first), None if end is None else int(end), kind, folder / name))
    return sorted(found, key=lambda file: file[0])


class Layout:
    """The pieces of a partition, dense from the oldest to the active segment.

    A file beyond the active segment is a roll that was never published. Where a run or a gap covers a
    segment, the segment is a leftover of the compaction or repair that replaced it.
    """

    def __init__(self, folder: Path, active: int, next_number: int, first: int) -> None:
        files = [file for file in find_files(folder) if file[0] <= active]
        covered = [(start, end) for start, end, _, _ in files if end is not None and end <= active]
        kept = [file for file in files if file[2] != "log" or not any(a <= file[0] < b for a, b in covered)]
        kept = [file for file in kept if file[1] is None or file[1] <= active]
        ends = [file[0] for file in kept[1:]] + [next_number]
        pieces = [
            Piece(start, following if end is None else end, kind, path)
            for (start, end, kind, path), following in zip(kept, ends, strict=True)
        ]
        self.pieces = [piece for piece in pieces if piece.end > first or piece.first == active]
        self._firsts = [piece.first for piece in self.pieces]

    def at(self, number: int) -> int:
        """The position in `pieces` of the one that holds *number*, or the first if it lies below all."""
        return max(bisect.bisect_right(self._firsts, number) - 1, 0)
