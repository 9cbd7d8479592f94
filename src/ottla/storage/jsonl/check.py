"""Looking at every line of every text file: what is whole, what is damaged, which messages are lost.

Nothing is changed here. `ottla.storage.jsonl.mend` uses the same survey to set damage aside.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptBatch, CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.control import Control
from ottla.storage.jsonl.lines import Line, decode_line
from ottla.storage.jsonl.rescue import newest_state
from ottla.storage.jsonl.scan import Stored, Text, check_follows, raw_lines
from ottla.storage.jsonl.state import State

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine
    from ottla.storage.jsonl.ledger import Ledger

_HINT = re.compile(rb'"partition":(\d{1,6}),"offset":(\d{1,18}),')
_NAME = re.compile(r"(.+)-([1-9]\d*)\.txt")
_ATTEMPTS = 5


class Bad(NamedTuple):
    """Bytes that are no line of this log, or a line that must not be where it is."""

    position: int
    size: int
    reason: str
    hint: tuple[int, int] | None = None
    """The partition and number that it seems to have been."""


class Missing(NamedTuple):
    """Numbers of a partition that no line has."""

    partition: int
    start: int
    end: int
    position: int
    """Where the next line of the partition is."""


@dataclass
class Survey:
    """What one text file turned out to be."""

    path: Path
    bad: list[Bad] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    nexts: dict[int, int] = field(default_factory=dict)
    """The next number of each partition, as far as anything tells."""
    unattributed: int = 0
    """Messages that are lost without a trace of where they belonged."""
    other: list[CorruptLog] = field(default_factory=list)
    """What is wrong with the files beside the text."""
    state: State | None = None
    limit: int = 0
    """So much of the file was looked at."""
    firsts: dict[int, int] = field(default_factory=dict)
    """The lowest number of each partition that a line has."""
    append_ms: int = 0

    @property
    def sound(self) -> bool:
        return not (self.bad or self.missing or self.unattributed or self.other)


def verify(engine: "JsonlEngine") -> Iterator[Damage]:
    """All damage in all topics, and files that belong to none."""
    for topic in engine.topics():
        try:
            ledgers = [ledger for ledger in engine.committed(topic) if ledger.exists()]
        except CorruptLog as error:
            yield Damage(
                topic=topic.name, partition=None, path=error.path, position=error.position, reason=error.reason
            )
            continue
        for ledger in ledgers:
            yield from damages(_settled_survey(ledger), topic)
    yield from strays(engine)


def damage_of(error: CorruptLog, topic: Topic, set_aside: str | None = None) -> Damage:
    """What an error says, as a finding."""
    return Damage(
        topic=topic.name, partition=None, path=error.path, position=error.position, reason=error.reason,
        set_aside=set_aside,
    )  # fmt: skip


def strays(engine: "JsonlEngine") -> Iterator[Damage]:
    """Text files that a deletion left behind when it was cut short."""
    topics = {topic.name: topic for topic in engine.topics()}
    for path in sorted(engine.root.path.glob("*.txt")):
        match = _NAME.fullmatch(path.name)
        if match and not (match[1] in topics and int(match[2]) <= engine.brokers(topics[match[1]])):
            yield Damage(topic=match[1], partition=None, path=str(path), position=0, reason="it belongs to no topic")


def _settled_survey(ledger: "Ledger") -> Survey:
    """A survey of one state of the file: should it be replaced meanwhile, of the next one."""
    for _ in range(_ATTEMPTS):
        try:
            control = ledger.control()
        except CorruptLog as error:
            found = survey(ledger, None)
            if found.sound:  # otherwise the survey says the same, and more
                found.other.append(error)
            return found
        found = survey(ledger, control)
        if found.sound or control == ledger.control():
            break
    return found


def survey(ledger: "Ledger", control: Control | None, *, to_end: bool = False) -> Survey:
    """Every line up to the acknowledged end, or *to_end*: as there is no `control`, or it cannot be believed."""
    found = Survey(ledger.path)
    try:
        found.state = newest_state(ledger)
        found.append_ms = found.state.append_ms
    except CorruptLog as error:
        found.other.append(error)
    try:
        text, size = ledger.text()
    except CorruptLog as error:
        found.bad.append(Bad(0, 0, error.reason))
    else:
        found.limit = size if control is None or to_end else control.end
        for piece in walk(text, min(found.limit, size)):
            bad = piece if isinstance(piece, Bad) else _counted(found, piece)
            found.bad += [] if bad is None else [bad]
        if size < found.limit:
            found.bad.append(Bad(size, 0, f"it ends there, but {found.limit} bytes were acknowledged"))
    _find_ends(found, ledger.partitions(), 1 if control is None else control.next)
    return found


def walk(text: Text, limit: int) -> Iterator[Bad | Stored]:
    """The lines of the file, gathered to batches as far as they go; one may lack its first or last lines."""
    gathered: list[Line] = []
    start = behind = 0
    for at, raw in raw_lines(text, 0, limit):
        try:
            if at + len(raw) >= limit:
                raise CorruptBatch("the line has no end")  # noqa: TRY301  (one exit for all damage)
            line = decode_line(raw, text.topic)
        except CorruptBatch as error:
            if gathered:
                yield Stored(start, behind - start, gathered)
                gathered = []
            hint = _HINT.search(raw)
            yield Bad(at, min(len(raw) + 1, limit - at), error.reason, hint and (int(hint[1]), int(hint[2])))
            continue
        if gathered and not _follows(gathered, line):
            yield Stored(start, behind - start, gathered)
            gathered = []
        start = start if gathered else at
        behind = at + len(raw) + 1
        gathered.append(line)
        if line.which == line.of:
            yield Stored(start, behind - start, gathered)
            gathered = []
    if gathered:
        yield Stored(start, behind - start, gathered)


def _follows(gathered: list[Line], line: Line) -> bool:
    try:
        check_follows(gathered, line)
    except CorruptBatch:
        return False
    return True


def is_whole(stored: Stored) -> bool:
    """Whether a batch that `walk` gathered has all of its lines."""
    return stored.lines[0].which == 1 and stored.lines[-1].which == stored.lines[-1].of


def _counted(found: Survey, piece: Stored) -> Bad | None:
    """Count a batch, and note which numbers are missing before it; what is wrong if it must not be where it is."""
    partition, number = piece.partition, piece.first_number
    expected = found.nexts.get(partition)
    if expected is None:
        known = found.state.partitions.get(partition) if found.state else None
        expected = min(number, known.first) if known else number
    if number < expected:
        reason = f"message {number} of partition {partition} stands where {expected} should"
        return Bad(piece.position, piece.size, reason)
    try:
        piece.batch()
    except CorruptBatch as error:
        return Bad(piece.position, piece.size, error.reason, (partition, number))
    for start, end in _without(expected, number, _gaps(found, partition)):
        found.missing.append(Missing(partition, start, end, piece.position))
    found.firsts.setdefault(partition, number)
    found.nexts[partition] = piece.next_number
    found.append_ms = max(found.append_ms, piece.append_ms)
    return None


def _gaps(found: Survey, partition: int) -> tuple[tuple[int, int], ...]:
    known = found.state.partitions.get(partition) if found.state else None
    return known.gaps if known else ()


def _without(start: int, end: int, gaps: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of *start* to *end* lies in no gap."""
    edges = [(start, start), *sorted(gap for gap in gaps if gap[1] > start and gap[0] < end), (end, end)]
    for (_, behind), (before, _) in pairwise(edges):
        if behind < before:
            yield behind, before


def _find_ends(found: Survey, partitions: Sequence[int], total: int) -> None:
    """How far each partition went, where its last lines are lost: by the state, by what is left of them, by count."""
    nexts, seen = found.nexts, dict(found.nexts)
    for partition, known in (found.state.partitions if found.state else {}).items():
        seen.setdefault(partition, known.first)
        nexts[partition] = max(nexts.get(partition, 1), known.next)
    lost = total - 1 - sum(number - 1 for number in nexts.values())
    for bad in found.bad:
        partition, number = bad.hint or (-1, 0)
        reached = nexts.get(partition, 1)
        if partition in partitions and reached <= number < reached + lost:
            lost -= number + 1 - reached
            nexts[partition] = number + 1
    if lost > 0 and len(partitions) == 1:
        nexts[partitions[0]] = nexts.get(partitions[0], 1) + lost
        lost = 0
    found.unattributed = max(lost, 0)
    for partition, number in nexts.items():
        for start, end in _without(seen.get(partition, 1), number, _gaps(found, partition)):
            found.missing.append(Missing(partition, start, end, found.limit))


def damages(found: Survey, topic: Topic) -> Iterator[Damage]:
    """One damage for each bad place, with the numbers that are lost with it, and one for each other loss."""
    for error in found.other:
        yield damage_of(error, topic)
    path, missing = str(found.path), sorted(found.missing, key=lambda each: each.position)
    for bad in found.bad:
        lost = next((each for each in missing if _explains(bad, each)), None)
        if lost is not None:
            missing.remove(lost)
        yield Damage(
            topic=topic.name,
            partition=bad.hint[0] if lost is None and bad.hint else lost.partition if lost else None,
            path=path,
            position=bad.position,
            reason=bad.reason,
            lost=range(lost.start, lost.end) if lost else None,
        )
    for each in missing:
        reason = f"messages {each.start} to {each.end - 1} of partition {each.partition} are missing"
        lost_numbers = range(each.start, each.end)
        yield Damage(
            topic=topic.name, partition=each.partition, path=path, position=each.position, reason=reason,
            lost=lost_numbers,
        )  # fmt: skip
    if found.unattributed:
        reason = f"{found.unattributed} messages at its end are lost, and nothing tells of which partition"
        yield Damage(topic=topic.name, partition=None, path=path, position=0, reason=reason)


def _explains(bad: Bad, missing: Missing) -> bool:
    """Whether these numbers were lost by this damage: it says so, or it says nothing and lies before the hole's end."""
    if bad.hint is not None:
        return bad.hint[0] == missing.partition and missing.start <= bad.hint[1] < missing.end
    return bad.position <= missing.position
