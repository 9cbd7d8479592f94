"""Setting damage aside, so that everything whole can be read again. Nothing is ever deleted.

The damaged file goes, as it is, to `<root>/damaged/<topic>/<topic id>/<partition>/`. What is whole in it
comes back under its own numbers; the numbers that are lost become a `.gap` file, which readers step over
and report. Killed anywhere, running it again finishes the work: a damaged file keeps its name until all
that is whole in it stands beside it.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import CONTROL_BYTES, Control, incarnation_of, write_control
from ottla.storage.disk.files import Files, temporary_name
from ottla.storage.disk.mending import control_damage, copy_bytes, mend_catalog, put_control, set_aside
from ottla.storage.disk.root import storage_full_at
from ottla.storage.file.check import (
    Finding,
    Span,
    damages,
    examine,
    producers_damage,
)
from ottla.storage.file.layout import Piece, log_path, producers_path, range_path
from ottla.storage.file.runfile import firsts_of, read_group, write_run
from ottla.storage.file.runs import checked_footer
from ottla.storage.file.salvage import producers_of, salvaged, unpublished_rolls

if TYPE_CHECKING:
    from ottla.storage.file.engine import FileEngine
    from ottla.storage.file.partition import FilePartition


def repair(engine: "FileEngine") -> Iterator[Damage]:
    """Mend every topic; yields what was damaged and where it went."""
    with storage_full_at(engine.root.path):
        yield from mend_catalog(engine, _partitions_in)
        for topic in engine.topics():
            for index in range(topic.settings.partitions):
                yield from _Mender(engine, engine.partition(topic, index), topic).mend()


def _partitions_in(folder: Path) -> int:
    return max((int(entry) for entry in os.listdir(folder) if entry.isdecimal()), default=0) + 1


class _Mender:
    """Mends one partition."""

    def __init__(self, engine: "FileEngine", partition: "FilePartition", topic: Topic) -> None:
        self._engine = engine
        self._partition = partition
        self._topic = topic
        self._files = partition.files
        self._aside = engine.root.path / "damaged" / topic.name / topic.id / str(partition.index)

    def mend(self) -> list[Damage]:
        """What was damaged, and where it went."""
        partition = self._partition
        if not partition.exists():
            if not partition.holds_messages():
                return []
            put_control(self._engine, partition)
        with partition.held() as fd:
            control, found = self._mended_control(fd)
            found += self._mend_producers(control)
            findings = [finding for finding in examine(partition, control, control.first) if finding.bad]
            for finding in findings:
                if finding.unreadable is not None:  # what cannot be read cannot be set aside
                    raise finding.unreadable
                saved = self._set_aside(finding.piece.path)
                found += (replace(damage, set_aside=saved) for damage in damages(finding, self._topic, partition.index))
                if finding.piece.first == control.active:
                    control = partition.start_segment(fd, control, producers_of(partition, control.next))
                self._restore(finding, saved)
            if findings:
                write_control(self._files, fd, control._replace(layout=control.layout + 1))
                self._files.sync(fd)
        partition.start_afresh()
        return found

    def _mended_control(self, fd: int) -> tuple[Control, list[Damage]]:
        """A control file that says nothing, or what the segments do not bear out, is written anew from them."""
        partition, files = self._partition, self._files
        bad = control_damage(partition)
        saved = self._set_aside(partition.lock.path) if bad else None
        found = [self._damage(partition.lock.path, position, reason, saved) for position, reason in bad]
        with contextlib.suppress(CorruptLog):
            return partition.settled(fd), found
        for stale in unpublished_rolls(partition):
            partition.remove(stale.path)
        control = salvaged(partition)._replace(incarnation=incarnation_of(fd))
        if not control.serial:
            files.write_at(fd, [bytes(CONTROL_BYTES)], 0)
        return partition.start_segment(fd, control, producers_of(partition, control.next)), found

    def _mend_producers(self, control: Control) -> list[Damage]:
        """A producers' table that says nothing is made again from older ones, as far as there are any."""
        found = []
        for error in producers_damage(self._partition, control):
            path = producers_path(self._partition.folder, control.active)
            saved = self._set_aside(path)
            self._files.replace(path, producers_of(self._partition, control.active).encode())
            found.append(self._damage(path, error.position, error.reason, saved))
        return found

    def _damage(self, path: Path, position: int, reason: str, saved: str | None) -> Damage:
        return Damage(
            topic=self._topic.name, partition=self._partition.index, path=str(path), position=position, reason=reason,
            set_aside=saved,
        )  # fmt: skip

    def _set_aside(self, path: Path) -> str | None:
        saved = set_aside(self._files, path, self._aside)
        return None if saved is None else str(saved)

    def _restore(self, finding: Finding, saved: str | None) -> None:
        """Files with what is whole, from the *saved* copy, and gaps for what is lost; the damaged file goes last."""
        piece, files, folder = finding.piece, self._files, self._partition.folder
        spans = finding.good if saved is not None else []
        source = piece._replace(path=Path(saved or ""))
        kept = None if saved is None else str(source.path.relative_to(self._engine.root.path))
        in_place = [span for span in spans if piece.kind == "log" and span.first == piece.first]
        for span in reversed(spans):
            if span not in in_place:
                self._restore_span(source, span)
        for position, reason, lost in finding.bad:
            if lost is not None:
                gap = range_path(folder, lost.start, lost.stop, "gap")
                why = {"file": piece.path.name, "position": position, "reason": reason, "set_aside": kept}
                files.replace(gap, json.dumps(why, indent=2).encode())
        files.sync_folder(folder)
        for span in in_place:
            self._restore_span(source, span)
        if saved is not None and not in_place:
            self._partition.remove(piece.path)
        files.unlink(piece.path.with_suffix(".index"))
        files.sync_folder(folder)

    def _restore_span(self, piece: Piece, span: Span) -> None:
        files, folder = self._files, self._partition.folder
        unfinished = folder / temporary_name()
        if piece.kind == "log":
            final = log_path(folder, span.first)
            copy_bytes(files, piece.path, unfinished, span.start, span.stop)
        else:
            final = range_path(folder, span.first, span.end, "parquet")
            _copy_groups(files, piece, unfinished, span)
        files.rename(unfinished, final)
        self._partition.segments.drop(final)


def _copy_groups(files: Files, piece: Piece, target: Path, span: Span) -> None:
    """Row groups of one run as another."""
    fd = files.open(piece.path, os.O_RDONLY)
    try:
        footer = checked_footer(files, fd, piece)
        firsts = firsts_of(footer, piece.first)
        groups = range(span.start, span.stop)
        write_run(files, target, (read_group(files, fd, piece.path, footer, at, firsts[at]) for at in groups))
    finally:
        files.close(fd)
