"""Saying what is damaged in a `jsonl:` log, where, and which messages are lost. Nothing is changed here.

`ottla.storage.jsonl.mend` uses the same surveys to set damage aside.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.storage.disk.mending import control_damage, described
from ottla.storage.jsonl.survey import Bad, Missing, Survey, survey

if TYPE_CHECKING:
    from ottla.storage.jsonl.engine import JsonlEngine
    from ottla.storage.jsonl.ledger import Ledger

_NAME = re.compile(r"(.+)-([1-9]\d*)\.txt")
_ATTEMPTS = 5


def verify(engine: "JsonlEngine") -> Iterator[Damage]:
    """All damage in all topics, and files that belong to none."""
    yield from (described(engine, error) for error in engine.catalog.damage())
    for topic in engine.catalog.whole_topics():
        try:
            ledgers = list(engine.committed(topic))
        except CorruptLog as error:
            yield described(engine, error)
            continue
        for ledger in ledgers:
            if ledger.exists() or ledger.holds_messages():
                yield from control_damages(ledger)
                yield from damages(_settled_survey(ledger), topic)
    yield from strays(engine)


def control_damages(ledger: "Ledger", set_aside: str | None = None) -> list[Damage]:
    """What is wrong with a control file."""
    path = str(ledger.lock.path)
    return [
        Damage(
            topic=ledger.topic.name, partition=None, path=path, position=position, reason=reason, set_aside=set_aside
        )
        for position, reason in control_damage(ledger)
    ]


def strays(engine: "JsonlEngine") -> Iterator[Damage]:
    """Text files that a deletion left behind when it was cut short."""
    for path in sorted(engine.root.path.glob("*.txt")):
        match = _NAME.fullmatch(path.name)
        if match and not list((engine.root.path / "topics" / match[1]).glob(f"*/{match[2]}")):
            yield Damage(topic=match[1], partition=None, path=str(path), position=0, reason="it belongs to no topic")


def _settled_survey(ledger: "Ledger") -> Survey:
    """A survey of one state of the file: should it be replaced meanwhile, of the next one."""
    for _ in range(_ATTEMPTS):
        try:
            control = ledger.control()
        except CorruptLog as error:
            found = survey(ledger, None)
            if found.sound and error.path != str(ledger.lock.path):  # otherwise the same was said already
                found.other.append(error)
            return found
        found = survey(ledger, control)
        if found.sound or control == ledger.control():
            break
    return found


def damages(found: Survey, topic: Topic) -> Iterator[Damage]:
    """One damage for each bad place, with the numbers that are lost with it, and one for each other loss."""
    for error in found.other:
        yield Damage(topic=topic.name, partition=None, path=error.path, position=error.position, reason=error.reason)
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
