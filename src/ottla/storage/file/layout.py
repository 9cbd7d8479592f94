"""Which files hold a partition's messages: segments, compacted runs and known gaps, in order of numbers."""

import bisect
import errno
import os
import re
from collections.abc import Container, Iterable
from itertools import pairwise
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


class Found(NamedTuple):
    """A file by its name alone, which does not tell where a segment ends."""

    first: int
    end: int | None
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


def find_files(folder: Path) -> list[Found]:
    """Every file that holds messages, by first number; of several with the same, the longest first."""
    found: list[Found] = []
    for name in os.listdir(folder):
        if match := _NAME.fullmatch(name):
            first, end = match[1], match[2]
            kind = cast("Kind", match[3])
            if (end is None) == (kind == "log"):
                found.append(Found(int(first), None if end is None else int(end), kind, folder / name))
    return sorted(found, key=lambda file: (file.first, -(file.end or 0)))


def uncovered(files: Iterable[Found]) -> tuple[list[Found], list[Found]]:
    """The files that count, and those that lie within a run or a gap: leftovers of what made it."""
    kept: list[Found] = []
    leftover: list[Found] = []
    reach = 0
    for file in files:
        if file.first < reach:
            leftover.append(file)
        else:
            kept.append(file)
            reach = file.end or 0
    return kept, leftover


def unpublished(folder: Path, active: int) -> list[Path]:
    """Segments beyond the active one: of rolls that were never published, because their process was killed."""
    return [file.path for file in find_files(folder) if file.kind == "log" and file.first > active]


def leftovers(folder: Path, active: int, first: int) -> list[Path]:
    """What killed processes left in a partition's folder: files that hold nothing of it, and unfinished ones.

    Nobody else may be at work there, and *first* must be durable: the lock is held, and `control` was synced.
    """
    kept, gone = uncovered(file for file in find_files(folder) if (file.end or file.first) <= active)
    ends = [file.end or following.first for file, following in pairwise(kept)]
    below = [file for file, end in zip(kept, ends, strict=False) if end <= first]
    paths = [file.path for file in (*gone, *below)]
    names = {file.first for file in (*gone, *below)} - {file.first for file in kept if file not in below}
    paths += [path for name in sorted(names) for path in (index_path(folder, name), producers_path(folder, name))]
    return paths + [folder / name for name in os.listdir(folder) if name.startswith("~")]


def pieces_of(folder: Path, active: int, next_number: int, first: int, without: Container[Path] = ()) -> list[Piece]:
    """What the files say: the pieces that hold anything from *first* on, and the active segment if it is there.

    A file beyond the active segment is a roll that was never published. Where a run or a gap covers a
    segment, the segment is a leftover of the compaction or repair that replaced it.
    """
    files = [file for file in find_files(folder) if file.path not in without]
    kept, _ = uncovered(file for file in files if (file.end or file.first) <= active)
    last = next_number if kept and kept[-1].first == active else active
    ends = [file.first for file in kept[1:]] + [last]
    pieces = [
        Piece(file.first, following if file.end is None else file.end, file.kind, file.path)
        for file, following in zip(kept, ends, strict=bool(kept))
    ]
    return [piece for piece in pieces if piece.end > first or piece.first == active]


class Layout:
    """The pieces of a partition, from the oldest to the active segment, which is always the last."""

    def __init__(self, folder: Path, active: int, next_number: int, first: int) -> None:
        self.pieces = pieces_of(folder, active, next_number, first)
        if not self.pieces or self.pieces[-1].first != active:
            raise FileNotFoundError(errno.ENOENT, "the active segment is missing", str(log_path(folder, active)))
        self._firsts = [piece.first for piece in self.pieces]

    def at(self, number: int) -> int:
        """The position in `pieces` of the one that holds *number*, or the first if it lies below all."""
        return max(bisect.bisect_right(self._firsts, number) - 1, 0)
