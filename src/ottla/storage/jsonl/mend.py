"""Setting damage aside, so that everything whole can be read again. Nothing is ever deleted.

The damaged lines go, as they are, to `<root>/damaged/<topic>/<topic id>/<broker>.<generation>.txt`, and the text file
is replaced (`ottla.storage.jsonl.replacement`) by what is whole; of a batch that lost lines the others stay. The lost
numbers become a known gap, which readers step over. Killed anywhere, running it again does the work.

What is known beside the text is made again from it where it is damaged: messages that were removed but still had
their lines come back then, and producers that only the state remembered have to start again.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import CONTROL_BYTES, Control, new_control, read_control
from ottla.storage.disk.mending import described, mend_catalog, put_control, set_aside
from ottla.storage.disk.root import storage_full_at
from ottla.storage.jsonl.check import control_damages, damages, strays
from ottla.storage.jsonl.ledger import MOST_BROKERS, Ledger
from ottla.storage.jsonl.lines import batch_of_lines, encode_batch
from ottla.storage.jsonl.replacement import replace_text, settle
from ottla.storage.jsonl.rescue import newest_state
from ottla.storage.jsonl.scan import Stored, Text
from ottla.storage.jsonl.state import PartitionState, State
from ottla.storage.jsonl.survey import Bad, Survey, is_whole, survey, walk

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine


def repair(engine: "JsonlEngine") -> Iterator[Damage]:
    """Mend every topic; yields what was damaged and where it went."""
    with storage_full_at(engine.root.path):
        yield from mend_catalog(engine, partial(_partitions_in, engine))
        for topic in engine.topics():
            yield from _mend_brokers(engine, topic)
            for ledger in engine.committed(topic):
                yield from _mend(engine, ledger)
        with engine.root.locked("repair"):
            moved = [_moved_aside(engine, stray) for stray in list(strays(engine))]
        yield from moved


def _partitions_in(engine: "JsonlEngine", folder: Path) -> int:
    topic = Topic(name=folder.parent.name, id=folder.name, created_ms=0)
    return max((partition for _, partition in _places(engine, topic)), default=0) + 1


def _mend_brokers(engine: "JsonlEngine", topic: Topic) -> Iterator[Damage]:
    """How many files there are, if that is lost: any number will do by which every message is where it is."""
    try:
        engine.brokers(topic)
    except CorruptLog as error:
        folder = engine.catalog.folder(topic)
        saved = set_aside(engine.files, Path(error.path), engine.root.path / "damaged" / topic.name / topic.id)
        places = set(_places(engine, topic))
        fits = (n for n in range(1, MOST_BROKERS) if all(partition % n + 1 == broker for broker, partition in places))
        with engine.root.locked("repair"):
            engine.write_brokers(folder, next(fits, MOST_BROKERS))
        yield replace(described(engine, error), set_aside=None if saved is None else str(saved))


def _places(engine: "JsonlEngine", topic: Topic) -> Iterator[tuple[int, int]]:
    """Each broker with each of the partitions that its file has lines of, or that it remembers."""
    for entry in os.listdir(engine.catalog.folder(topic)):
        if entry.isdecimal():
            ledger = Ledger(engine, topic, int(entry))
            with contextlib.suppress(CorruptLog):
                yield from ((ledger.broker, partition) for partition in newest_state(ledger).partitions)
            with contextlib.suppress(CorruptLog):
                pieces = walk(*ledger.text())
                yield from {(ledger.broker, piece.partition) for piece in pieces if isinstance(piece, Stored)}


def _mend(engine: "JsonlEngine", ledger: Ledger) -> list[Damage]:
    if not ledger.exists():
        if not ledger.holds_messages():
            return []
        put_control(engine, ledger)
    aside = engine.root.path / "damaged" / ledger.topic.name / ledger.topic.id
    with ledger.held() as fd:
        found = control_damages(ledger)
        if found:
            saved = set_aside(ledger.files, ledger.lock.path, aside / str(ledger.broker))
            found = control_damages(ledger, str(saved))
        control, believed = _control(ledger, fd, engine.clock.now_ms())
        surveyed = survey(ledger, control, to_end=not believed)
        if not (believed and surveyed.sound):
            found += _set_aside(ledger, control, surveyed, aside)
            state = _new_state(ledger, surveyed)
            replace_text(ledger, fd, control, _content(ledger, surveyed, state), state)
    return found


def _control(ledger: Ledger, fd: int, now_ms: int) -> tuple[Control, bool]:
    """What `control` says, and whether it can be believed: recovering may fail by the very damage to be mended."""
    with contextlib.suppress(CorruptLog):
        return ledger.settled(fd), True
    try:
        control = read_control(ledger.files, fd, ledger.lock.path)
    except CorruptLog:
        ledger.files.write_at(fd, [bytes(CONTROL_BYTES)], 0)
        control = new_control(bytes(16))._replace(layout=now_ms)  # above any that was counted
    settle(ledger)
    with contextlib.suppress(CorruptLog):
        control = control._replace(active=max(newest_state(ledger).generation, control.active))
    return control, False


def _set_aside(ledger: Ledger, control: Control, surveyed: Survey, aside: Path) -> Iterator[Damage]:
    """Keep what is damaged, as it is; gives what was found, and where it is kept."""
    name = f"{ledger.broker}.{control.active}"
    lines = _saved(ledger, aside / f"{name}.txt", _damaged_bytes(ledger, surveyed.bad))
    state = set_aside(ledger.files, ledger.folder / "state", aside / str(ledger.broker)) if surveyed.other else None
    beside = None if state is None else str(state)
    for damage in damages(surveyed, ledger.topic):
        yield replace(damage, set_aside=lines if damage.path == str(ledger.path) else beside)


def _damaged_bytes(ledger: Ledger, bad: Iterable[Bad]) -> Iterator[bytes]:
    for each in bad:
        if each.size:
            text, _ = ledger.text()  # kept while its descriptor is used
            yield ledger.files.read_at(text.handle.fd, each.size, each.position)


def _saved(ledger: Ledger, path: Path, parts: Iterable[bytes]) -> str | None:
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


def _new_state(ledger: Ledger, surveyed: Survey) -> State:
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


def _content(ledger: Ledger, surveyed: Survey, state: State) -> Iterator[bytes]:
    """The text that stays; *state* learns of it as it goes."""
    try:
        text, size = ledger.text()
    except CorruptLog:
        return
    told = surveyed.state.position if surveyed.state else 0
    for piece in walk(text, min(surveyed.limit, size)):
        if isinstance(piece, Bad) or piece.position in surveyed.left_out:
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
