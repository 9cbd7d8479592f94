"""What finding and setting aside damage have in common: the catalog, control files, copies of what is damaged."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.errors import CorruptLog
from ottla.model import Damage, Topic
from ottla.settings import TopicSettings
from ottla.storage.disk.control import CONTROL_BYTES, bad_slots
from ottla.storage.disk.controlled import ControlledFolder
from ottla.storage.disk.files import Files, temporary_name

if TYPE_CHECKING:
    from ottla.storage.disk.engine import DiskEngine

_COPY_BYTES = 2**20
_LOOKS = 5
_PAUSE_S = 0.002


def described(engine: "DiskEngine[Any]", error: CorruptLog) -> Damage:
    """Damage to a topic's description, or to metadata, which belong to no partition."""
    place = Path(error.path).relative_to(engine.root.path).parts
    topic = place[1] if place[0] == "topics" else ""
    return Damage(topic=topic, partition=None, path=error.path, position=error.position, reason=error.reason)


def control_damage(folder: ControlledFolder) -> list[tuple[int, str]]:
    """Where the control file is damaged. A write that is under way looks like that too, but not for long."""
    for _ in range(_LOOKS):
        data = folder.files.read(folder.lock.path)
        if data is None:
            return [(0, "the file is missing")]
        bad = bad_slots(data[:CONTROL_BYTES])
        if not bad:
            break
        time.sleep(_PAUSE_S)
    both = "neither of its two slots is valid"
    return [(0, both)] if len(bad) > 1 else [(at, "one of its two slots is not valid") for at in bad]


def mend_catalog(engine: "DiskEngine[Any]", partitions_in: Callable[[Path], int]) -> Iterator[Damage]:
    """A topic whose description is lost gets the default settings; metadata that is lost is as if never stored.

    *partitions_in* says how many partitions a topic has, by what is in its folder.
    """
    errors = list(engine.catalog.damage())
    if not errors:
        return
    with engine.root.changing("repair"):
        for error in errors:
            path = Path(error.path)
            aside = engine.root.path / "damaged" / path.parent.relative_to(engine.root.path)
            saved = set_aside(engine.files, path, aside)
            if path.name == "topic.json":
                settings = TopicSettings(partitions=partitions_in(path.parent))
                name, topic_id = path.parent.parent.name, path.parent.name
                engine.catalog.write(Topic(name=name, id=topic_id, created_ms=0, settings=settings))
            else:
                engine.files.unlink(path)
            yield replace(described(engine, error), set_aside=str(saved))


def put_control(engine: "DiskEngine[Any]", folder: ControlledFolder) -> None:
    """A control file to lock, where there are messages and it was lost; it says nothing."""
    with engine.root.locked("repair"):
        if not folder.exists():
            folder.files.replace(folder.lock.path, bytes(CONTROL_BYTES))


def set_aside(files: Files, path: Path, aside: Path) -> Path | None:
    """Keep the damaged file; `None` where there is none to keep."""
    if not path.is_file():
        return None
    files.make_folder(aside)
    unfinished, target, number = aside / temporary_name(), aside / path.name, 1
    copy_bytes(files, path, unfinished, 0, path.stat().st_size)
    while target.exists():
        target = aside / f"{path.name}.{number}"
        number += 1
    files.rename(unfinished, target)
    files.sync_folder(aside)
    return target


def copy_bytes(files: Files, source: Path, target: Path, start: int, stop: int) -> None:
    """Bytes of one file as a new one, durable."""
    fd = files.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with source.open("rb") as content:
            content.seek(start)
            position = 0
            while chunk := content.read(min(stop - start - position, _COPY_BYTES)):
                position = files.write_at(fd, [chunk], position)
        files.sync(fd)
    finally:
        files.close(fd)
