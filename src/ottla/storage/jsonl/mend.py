"""Setting damage aside, so that everything whole can be read again. Nothing is ever deleted.

The damaged lines go, as they are, to `<root>/damaged/<topic>/<topic id>/<broker>.<generation>.txt`, and the text file
is replaced (`ottla.storage.jsonl.replacement`) by what is whole; of a batch that lost lines the others stay. The lost
numbers become a known gap, which readers step over. Killed anywhere, running it again does the work.

What is known beside the text is made again from it where it is damaged: messages that were removed but still had
their lines come back then, and producers that only the state remembered have to start again.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import Control, first_content, incarnation_of, new_control, read_control
from ottla.storage.jsonl.check import Bad, Survey, damage_of, damages, is_whole, strays, survey, walk
from ottla.storage.jsonl.lines import batch_of_lines, encode_batch
from ottla.storage.jsonl.replacement import replace_text, settle
from ottla.storage.jsonl.rescue import newest_state
from ottla.storage.jsonl.scan import Stored, Text
from ottla.storage.jsonl.state import PartitionState, State

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine
    from ottla.storage.jsonl.ledger import Ledger


def repair(engine: "JsonlEngine") -> Iterator[Damage]:
    """Mend every text file; yields what was damaged and where it went."""
    for topic in engine.topics():
        aside = engine.root.path / "damaged" / topic.name / topic.id
        try:
            ledgers = [ledger for ledger in engine.committed(topic) if ledger.exists()]
        except CorruptLog as error:  # nothing else tells how many brokers there were
            yield damage_of(error, topic)
            continue
        for ledger in ledgers:
            yield from _mend(ledger, topic, aside, engine.clock.now_ms())
    with engine.root.locked("repair"):
        moved = [_moved_aside(engine, stray) for stray in list(strays(engine))]
    yield from moved


def _mend(ledger: "Ledger", topic: Topic, aside: Path, now_ms: int) -> list[Damage]:
    found: list[Damage] = []
    with ledger.held() as fd, ledger.failing():
        try:
            control = read_control(ledger.files, fd, ledger.lock.path)
        except CorruptLog as error:
            saved = _saved(ledger, aside / f"{ledger.broker}.control", [ledger.lock.path.read_bytes()])
            found.append(damage_of(error, topic, saved))
            control = _fresh_control(ledger, fd, now_ms)
        control, believable = _recovered(ledger, fd, control)
        surveyed = survey(ledger, control, to_end=not believable)
        if not surveyed.sound:
            found += _set_aside(ledger, control, surveyed, topic, aside)
            state = _new_state(ledger, surveyed)
            control = control._replace(append_ms=max(control.append_ms, surveyed.append_ms))
            replace_text(ledger, fd, control, _content(ledger, surveyed, state), state)
    return found


def _fresh_control(ledger: "Ledger", fd: int, now_ms: int) -> Control:
    """A control file of no incarnation: what the text holds is then found by reading it."""
    try:
        generation = newest_state(ledger).generation
    except CorruptLog:
        generation = 1
    control = new_control(bytes(16))._replace(active=generation, layout=now_ms)  # above any that was counted
    ledger.files.write_at(fd, [first_content(control)], 0)
    ledger.files.sync(fd)
    return control


def _recovered(ledger: "Ledger", fd: int, control: Control) -> tuple[Control, bool]:
    """What `control` says, and whether it can be believed: recovering may fail by the very damage to be mended."""
    incarnation = incarnation_of(fd)
    if ledger.is_settled(control, incarnation):
        return control, True
    try:
        return ledger.recover(fd, control, incarnation), True
    except CorruptLog:
        settle(ledger)
    try:
        generation = newest_state(ledger).generation
    except CorruptLog:
        generation = control.active
    return control._replace(incarnation=incarnation, active=max(generation, control.active)), False


def _set_aside(ledger: "Ledger", control: Control, surveyed: Survey, topic: Topic, aside: Path) -> Iterator[Damage]:
    """Keep what is damaged, as it is; gives what was found, and where it is kept."""
    name = f"{ledger.broker}.{control.active}"
    lines = _saved(ledger, aside / f"{name}.txt", _damaged_bytes(ledger, surveyed.bad))
    state = ledger.folder / "state"
    kept = [state.read_bytes()] if surveyed.other and state.exists() else []
    beside = _saved(ledger, aside / f"{name}.state", kept)
    for damage in damages(surveyed, topic):
        yield replace(damage, set_aside=lines if damage.path == str(ledger.path) else beside)


def _damaged_bytes(ledger: "Ledger", bad: Iterable[Bad]) -> Iterator[bytes]:
    for each in bad:
        if each.size:
            yield ledger.files.read_at(ledger.text()[0].handle.fd, each.size, each.position)


def _saved(ledger: "Ledger", path: Path, parts: Iterable[bytes]) -> str | None:
    """A file of these bytes, durable; `None` where there are none."""
    files, position, fd = ledger.files, 0, -1
    for part in parts:
        if fd < 0:
            files.make_folder(path.parent)
            fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        position = files.write_at(fd, [part], position)
    if fd < 0:
        return None
    try:
        files.sync(fd)
    finally:
        files.close(fd)
    files.sync_folder(path.parent)
    return str(path)


def _new_state(ledger: "Ledger", surveyed: Survey) -> State:
    """What is known after the repair, except for what is known of the lines that stay: `_content` adds that."""
    partitions: dict[int, PartitionState] = {}
    known = surveyed.state.partitions if surveyed.state else {}
    for index in sorted({*ledger.partitions(), *surveyed.nexts, *known}):
        part = known.get(index) or PartitionState(first=surveyed.firsts.get(index, surveyed.nexts.get(index, 1)))
        number = surveyed.nexts.get(index, 1)
        gaps = [*part.gaps, *((each.start, each.end) for each in surveyed.missing if each.partition == index)]
        if surveyed.unattributed:  # it may have been this partition's, and no number is ever given twice
            gaps.append((number, number + surveyed.unattributed))
        partitions[index] = PartitionState(
            first=part.first,
            next=number + surveyed.unattributed,
            gaps=tuple(sorted(gap for gap in gaps if gap[1] > part.first)),
            producers=part.producers,
        )
    return State(append_ms=surveyed.append_ms, partitions=partitions)


def _content(ledger: "Ledger", surveyed: Survey, state: State) -> Iterator[bytes]:
    """The text that stays; *state* learns of it as it goes."""
    try:
        text, size = ledger.text()
    except CorruptLog:
        return
    told = surveyed.state.position if surveyed.state else 0
    misplaced = {bad.position for bad in surveyed.bad}
    for piece in walk(text, min(surveyed.limit, size)):
        if isinstance(piece, Bad) or piece.position in misplaced:
            continue
        part = state.partitions[piece.partition]
        header = piece.header()
        if header is not None and piece.position >= told:
            part.producers.note(header)
        if piece.next_number > part.first:
            lines = _lines(text, piece)
            part.size += len(lines)
            yield lines


def _lines(text: Text, piece: Stored) -> bytes:
    """The batch as it is stored; what is left of one that lost lines becomes a batch of its own."""
    if is_whole(piece):
        return text.files.read_at(text.handle.fd, piece.size, piece.position)
    return encode_batch(text.topic, piece.partition, batch_of_lines(piece.lines))


def _moved_aside(engine: "JsonlEngine", stray: Damage) -> Damage:
    folder = engine.root.path / "damaged" / stray.topic
    engine.files.make_folder(folder)
    source = Path(stray.path)
    number = 1
    while (target := folder / f"{number}.txt").exists():
        number += 1
    engine.files.rename(source, target)
    engine.files.sync_folder(engine.root.path)
    engine.files.sync_folder(folder)
    return replace(stray, set_aside=str(target))
