"""Setting damage aside, so that everything whole can be read again. Nothing is ever deleted.

The damaged file goes, as it is, to `<root>/damaged/<topic>/<topic id>/<partition>/`. What is whole in it
comes back under its own numbers; the numbers that are lost become a `.gap` file, which readers step over
and report. Killed anywhere, running it again finishes the work.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import Control, first_content, incarnation_of, new_control, read_control, write_control
from ottla.storage.file import runs
from ottla.storage.file.check import Finding, Span, damages, examine, examine_log
from ottla.storage.file.index import scan_headers
from ottla.storage.file.layout import Piece, find_files, log_path, producers_path, range_path
from ottla.storage.file.tail import load_tail

if TYPE_CHECKING:
    from ottla.storage.file.engine import FileEngine
    from ottla.storage.file.partition import FilePartition

_UNFINISHED = ".mending"


def repair(engine: "FileEngine") -> Iterator[Damage]:
    """Mend every partition; yields what was damaged and where it went."""
    for topic in engine.topics():
        for index in range(topic.settings.partitions):
            partition = engine.partition(topic, index)
            if partition.exists():
                yield from list(_repair_partition(engine, partition, topic))


def _repair_partition(engine: "FileEngine", partition: "FilePartition", topic: Topic) -> Iterator[Damage]:
    aside = engine.root.path / "damaged" / topic.name / topic.id / str(partition.index)
    yield from _mend_control(partition, topic, aside)
    with partition.locked() as (fd, found):
        control = found
        yield from _mend_producers(partition, control, topic, aside)
        findings = [finding for finding in examine(partition, control) if finding.bad]
        for finding in findings:
            saved = _set_aside(partition, finding.piece.path, aside)
            where = None if saved is None else str(saved)
            yield from (replace(damage, set_aside=where) for damage in damages(finding, topic, partition.index))
            _restore(partition, finding, saved)
        if findings and findings[-1].piece.first == control.active:
            control = _fresh_segment(partition, control, findings[-1])
        if findings:
            write_control(partition.files, fd, control._replace(layout=control.layout + 1))
            partition.files.sync(fd)
            runs.forget_runs()
            engine.segments.clear()
    partition.forget()


def _mend_control(partition: "FilePartition", topic: Topic, aside: Path) -> Iterator[Damage]:
    """A control file that says nothing is written anew from what the segments say."""
    files, path = partition.files, partition.lock.path
    with partition.lock.locked() as fd:
        try:
            read_control(files, fd, path)
        except CorruptLog as error:
            saved = _set_aside(partition, path, aside)
            yield Damage(
                topic=topic.name, partition=partition.index, path=str(path), position=0, reason=error.reason,
                set_aside=str(saved),
            )  # fmt: skip
            files.write_at(fd, [first_content(_control_from_files(partition, incarnation_of(fd)))], 0)
            files.sync(fd)


def _control_from_files(partition: "FilePartition", incarnation: bytes) -> Control:
    found = find_files(partition.folder)
    logs = [file for file in found if file[2] == "log"]
    behind = max((end for _, end, _, _ in found if end is not None), default=1)
    if not logs or logs[-1][0] < behind:
        files = partition.files
        files.close(files.open(log_path(partition.folder, behind), os.O_WRONLY | os.O_CREAT))
        return new_control(incarnation, behind)._replace(first=min((file[0] for file in found), default=behind))
    active, _, _, path = logs[-1]
    good = examine_log(partition.files, Piece(active, 2**63 - 1, "log", path), None).good
    end, number = (good[-1].stop, good[-1].end) if good else (0, active)
    return new_control(incarnation, active)._replace(
        end=end, synced=end, synced_next=number, next=number, first=found[0][0], append_ms=0
    )


def _mend_producers(partition: "FilePartition", control: Control, topic: Topic, aside: Path) -> Iterator[Damage]:
    """A producers' table that says nothing is left out: producers then have to start again."""
    path = producers_path(partition.folder, control.active)
    try:
        load_tail(partition.files, partition.folder, control.active)
    except CorruptLog as error:
        saved = _set_aside(partition, path, aside)
        partition.files.unlink(path)
        yield Damage(
            topic=topic.name, partition=partition.index, path=str(path), position=0, reason=error.reason,
            set_aside=str(saved),
        )  # fmt: skip


def _set_aside(partition: "FilePartition", path: Path, aside: Path) -> Path | None:
    """Keep the damaged file; `None` where there is none to keep."""
    if not path.is_file():
        return None
    partition.files.make_folder(aside)
    target = aside / path.name
    number = 1
    while target.exists():
        target = aside / f"{path.name}.{number}"
        number += 1
    shutil.copyfile(path, target)
    fd = partition.files.open(target, os.O_RDWR)
    partition.files.sync(fd)
    partition.files.close(fd)
    partition.files.sync_folder(aside)
    return target


def _restore(partition: "FilePartition", finding: Finding, saved: Path | None) -> None:
    """Files with what is whole, read from the *saved* copy, then gaps for what is lost."""
    piece, files = finding.piece, partition.files
    made: set[Path] = set()
    if saved is not None:
        source = piece._replace(path=saved)
        made = {_restore_span(partition, source, span) for span in _joined(finding.good)}
    for lost in finding.lost():
        reasons = [{"position": position, "reason": reason} for position, reason in finding.bad]
        gap = range_path(partition.folder, lost.start, lost.stop, "gap")
        files.replace(gap, json.dumps({"file": piece.path.name, "damage": reasons}, indent=2).encode())
    if piece.path.is_file() and piece.path not in made:
        files.unlink(piece.path)
    files.unlink(piece.path.with_suffix(".index"))
    files.sync_folder(partition.folder)


def _joined(spans: list[Span]) -> list[Span]:
    """Neighbouring row groups of a run as one span."""
    joined: list[Span] = []
    for span in spans:
        if joined and (joined[-1].end, joined[-1].stop) == (span.first, span.start):
            joined[-1] = Span(joined[-1].first, span.end, joined[-1].start, span.stop)
        else:
            joined.append(span)
    return joined


def _restore_span(partition: "FilePartition", piece: Piece, span: Span) -> Path:
    if piece.kind == "log":
        final = log_path(partition.folder, span.first)
        unfinished = final.with_suffix(_UNFINISHED)
        with piece.path.open("rb") as source, unfinished.open("wb") as target:
            source.seek(span.start)
            _copy(source, target, span.stop - span.start)
    else:
        final = range_path(partition.folder, span.first, span.end, "parquet")
        unfinished = final.with_suffix(_UNFINISHED)
        firsts = _firsts(piece)
        groups = range(span.start, span.stop)
        runs.write_row_groups(unfinished, (runs.check_row_group(piece, group, firsts[group]) for group in groups))
    fd = partition.files.open(unfinished, os.O_RDWR)
    partition.files.sync(fd)
    partition.files.close(fd)
    partition.files.rename(unfinished, final)
    return final


def _firsts(piece: Piece) -> list[int]:
    firsts, number = [], piece.first
    for rows in runs.row_counts(piece):
        firsts.append(number)
        number += rows
    return firsts


def _copy(source: BinaryIO, target: BinaryIO, length: int) -> None:
    while length > 0 and (chunk := source.read(min(length, 2**20))):
        target.write(chunk)
        length -= len(chunk)


def _fresh_segment(partition: "FilePartition", control: Control, finding: Finding) -> Control:
    """A new active segment behind a damaged one; the producers' table comes from what is whole."""
    files, folder = partition.files, partition.folder
    producers = load_tail(files, folder, control.active).producers
    for span in finding.good:
        path = log_path(folder, span.first)
        fd = files.open(path, os.O_RDONLY)
        for _, header in scan_headers(files, fd, path, 0, files.size(fd)):
            producers.note(header)
        files.close(fd)
    if control.next != control.active:
        files.replace(producers_path(folder, control.next), producers.encode())
        files.close(files.open(log_path(folder, control.next), os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        files.sync_folder(folder)
    return control._replace(active=control.next, end=0, synced=0, synced_next=control.next, failed=0)
