"""Looking at every line of a text file: what is whole, what is damaged, which messages are lost. Nothing is changed."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.control import Control
from ottla.storage.jsonl.lines import Line, decode_line
from ottla.storage.jsonl.rescue import newest_state
from ottla.storage.jsonl.scan import Stored, Text, check_follows, raw_lines
from ottla.storage.jsonl.state import PartitionState, State

if TYPE_CHECKING:
    from ottla.storage.jsonl.ledger import Ledger

_HINT = re.compile(rb'"partition":(\d{1,6}),"offset":(\d{1,18}),')


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
    total: int = 1
    """What `control` says of all partitions together: the number of messages ever stored, plus one."""
    limit: int = 0
    """So much of the file was looked at."""
    left_out: set[int] = field(default_factory=set)
    """Where whole batches are that do not count."""
    firsts: dict[int, int] = field(default_factory=dict)
    """The lowest number of each partition that a line has."""
    append_ms: int = 0

    def known(self, partition: int) -> PartitionState:
        """What the state says of a partition."""
        return (self.state or State()).partitions.get(partition, PartitionState())

    @property
    def uncounted(self) -> int:
        """How many messages of all that there should be no line was found of yet."""
        return self.total - 1 - sum(number - 1 for number in self.nexts.values())

    @property
    def sound(self) -> bool:
        return not (self.bad or self.missing or self.unattributed or self.other)


def survey(ledger: "Ledger", control: Control | None, *, to_end: bool = False) -> Survey:
    """Every line up to the acknowledged end, or *to_end*: as there is no `control`, or it cannot be believed.

    Where there is damage, lines that were acknowledged may have moved behind that end: as many of those as there
    should be are counted too.
    """
    found = Survey(ledger.path, total=1 if control is None else control.next)
    end = None if control is None or to_end else control.end
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
        found.limit = size
        for piece in walk(text, size):
            _take(found, piece, size if end is None else end)
        if end is not None and size < end:
            found.bad.append(Bad(size, 0, f"it ends there, but {end} bytes were acknowledged"))
    _find_ends(found, ledger.partitions())
    return found


def _take(found: Survey, piece: Bad | Stored, end: int) -> None:
    """Judge what was found, given where the acknowledged bytes end."""
    if isinstance(piece, Bad):
        found.bad += [piece] if piece.position < end else []
    elif piece.position + piece.size > end and (found.sound or len(piece.lines) > found.uncounted):
        found.left_out.add(piece.position)
    elif (bad := _counted(found, piece)) is not None:
        found.bad.append(bad)
        found.left_out.add(piece.position)


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
        expected = min(number, found.known(partition).first) if found.state else number
    if number < expected:
        reason = f"message {number} of partition {partition} stands where {expected} should"
        return Bad(piece.position, piece.size, reason)
    try:
        piece.batch()
    except CorruptBatch as error:
        return Bad(piece.position, piece.size, error.reason, (partition, number))
    for start, end in _without(expected, number, found.known(partition).gaps):
        found.missing.append(Missing(partition, start, end, piece.position))
    found.firsts.setdefault(partition, number)
    found.nexts[partition] = piece.next_number
    found.append_ms = max(found.append_ms, piece.append_ms)
    return None


def _without(start: int, end: int, gaps: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of *start* to *end* lies in no gap."""
    edges = [(start, start), *sorted(gap for gap in gaps if gap[1] > start and gap[0] < end), (end, end)]
    for (_, behind), (before, _) in pairwise(edges):
        if behind < before:
            yield behind, before


def _find_ends(found: Survey, partitions: Sequence[int]) -> None:
    """How far each partition went, where its last lines are lost: by the state, by what is left of them, by count."""
    nexts, seen = found.nexts, dict(found.nexts)
    for partition, known in (found.state or State()).partitions.items():
        seen.setdefault(partition, known.first)
        nexts[partition] = max(nexts.get(partition, 1), known.next)
    lost = found.uncounted
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
        for start, end in _without(seen.get(partition, 1), number, found.known(partition).gaps):
            found.missing.append(Missing(partition, start, end, found.limit))
