"""Topics of a log on disk, and small versioned metadata. Changes happen under the root's lock.

<root>/topics/<topic>/<topic id>/topic.json   the topic as JSON; replacing this file is the change. Its last
                                              field is CRC-32C, in hexadecimal, of all the others as written here
<root>/metadata/<key>=                        a line `ottla-metadata 1 <version> <CRC-32C>`, then the bytes; the
                                              checksum is of the version and the bytes
<root>/trash/<topic id>                       a deleted topic on its way out; emptied whenever one is deleted
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c

from ottla.errors import CorruptLog, InvalidValue, MetadataConflict, TopicExists, UnknownTopic
from ottla.model import Topic
from ottla.settings import TopicSettings, check_name
from ottla.storage.altering import altered
from ottla.storage.contract import Versioned
from ottla.storage.disk.root import Root

_METADATA = b"ottla-metadata 1"
_SUFFIX = "="
"""No checked name has it, so that the keys `a` and `a/b` are a file and a folder beside each other."""


class Catalog:
    """The topics and metadata of one root. Topics are cached until some process changes one."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._files = root.files
        self._one: dict[str, tuple[int, Topic | None]] = {}
        self._all: tuple[int, list[Topic]] = (-1, [])

    def topics(self) -> list[Topic]:
        """Every topic, sorted by name; all files are read again if any changed."""
        changes = self._root.changes()
        if self._all[0] != changes or changes % 2:
            names = sorted(_names_in(self._root.path / "topics"))
            found = [topic for name in names if (topic := self._read(name)) is not None]
            self._all = (changes, found)
        return list(self._all[1])

    def topic(self, name: str) -> Topic:
        """The topic as it is now; one `pread` if nothing changed."""
        topic = self._look_up(name)
        if topic is None:
            raise UnknownTopic(name)
        return topic

    def is_current(self, topic: Topic) -> bool:
        return self.current(topic) is not None

    def current(self, topic: Topic) -> Topic | None:
        """The topic as it is now; `None` if it was deleted, also if there is another of its name."""
        current = self._look_up(topic.name)
        return current if current is not None and current.id == topic.id else None

    def _look_up(self, name: str) -> Topic | None:
        """A change that is under way, or that a killed process left half counted, is never trusted to a cache."""
        changes = self._root.changes()
        seen_at, topic = self._one.get(name, (-1, None))
        if seen_at != changes or changes % 2:
            topic = self._read(name)
            if topic is None:  # any name may be asked for, so only what exists is remembered
                self._one.pop(name, None)
            else:
                self._one[name] = (changes, topic)
        return topic

    def _read(self, name: str) -> Topic | None:
        try:
            folder = self._root.path / "topics" / check_name(name)
        except InvalidValue:  # there is no topic of a name that cannot be, whatever a path of that name leads to
            return None
        for topic_id in _names_in(folder):
            path = folder / topic_id / "topic.json"
            stored = self._files.read(path)
            if stored is not None:
                return decode_topic(stored, path)
        return None

    def damage(self) -> Iterator[CorruptLog]:
        """Every topic and all metadata that are not as they were written."""
        topics = self._root.path / "topics"
        paths = [
            topics / name / topic_id / "topic.json"
            for name in _names_in(topics)
            for topic_id in _names_in(topics / name)
        ]
        for path in sorted(paths) + sorted((self._root.path / "metadata").rglob(f"*{_SUFFIX}")):
            stored = self._files.read(path)
            decode = decode_topic if path.name == "topic.json" else _decode_metadata
            try:
                if stored is not None:
                    decode(stored, path)
            except CorruptLog as error:
                yield error

    def whole_topics(self) -> list[Topic]:
        """The topics whose description is not damaged."""
        found = []
        for name in sorted(_names_in(self._root.path / "topics")):
            with contextlib.suppress(CorruptLog):
                found.append(self._read(name))
        return [topic for topic in found if topic is not None]

    def folder(self, topic: Topic) -> Path:
        return self._root.path / "topics" / topic.name / topic.id

    def create(self, topic: Topic, prepare: Callable[[Path], None] | None = None) -> Topic:
        """Make a topic. What *prepare* puts into its folder is there before the topic is."""
        check_name(topic.name)
        with self._root.changing("create a topic"):
            if self._read(topic.name) is not None:
                raise TopicExists(topic.name)
            folder = self.folder(topic)
            self._files.make_folder(folder)
            self._files.sync_folder(folder.parent)  # a creator that was killed may have made it, and not synced it
            if prepare is not None:
                prepare(folder)
            self.write(topic)
        return topic

    def alter(self, topic: Topic) -> Topic:
        with self._root.changing("change a topic"):
            new = altered(self._read(topic.name), topic)
            self.write(new)
        return new

    def remove(self, topic: Topic) -> None:
        """Take the topic out of sight in one step, then delete its files; the caller holds its partitions' locks."""
        trash = self._root.path / "trash"
        self._files.make_folder(trash)
        folder = self.folder(topic)
        self._files.rename(folder, trash / topic.id)
        self._files.sync_folder(folder.parent)
        with contextlib.suppress(OSError):
            folder.parent.rmdir()

    def empty_trash(self) -> None:
        """The folder itself stays: another process may be about to move a topic into it."""
        trash = self._root.path / "trash"
        for name in _names_in(trash):
            shutil.rmtree(trash / name, ignore_errors=True)

    def load(self, key: str) -> Versioned | None:
        path = self._metadata_path(key)
        stored = self._files.read(path)
        return None if stored is None else _decode_metadata(stored, path)

    def store(self, key: str, data: bytes, version: int) -> int:
        path = self._metadata_path(key)
        with self._root.locked("store metadata"):
            current = self.load(key)
            actual = current.version if current else 0
            if actual != version:
                raise MetadataConflict(key, version, actual)
            self._files.make_folder(path.parent)
            self._files.replace(path, _encode_metadata(Versioned(data, version + 1)))
        return version + 1

    def keys(self, prefix: str) -> list[str]:
        root = self._root.path / "metadata"
        folder = self._metadata_path(prefix).with_name(prefix.rpartition("/")[2])
        return sorted(str(path.relative_to(root))[: -len(_SUFFIX)] for path in folder.rglob(f"*{_SUFFIX}"))

    def discard(self, key: str) -> None:
        path = self._metadata_path(key)
        with self._root.locked("remove metadata"):
            if path.exists():
                self._files.unlink(path)
                self._files.sync_folder(path.parent)

    def _metadata_path(self, key: str) -> Path:
        *parents, name = (check_name(part, "metadata key") for part in key.split("/"))
        return self._root.path.joinpath("metadata", *parents, f"{name}{_SUFFIX}")

    def write(self, topic: Topic) -> None:
        """Make *topic* what is stored; the caller holds the root's lock."""
        stored = {"name": topic.name, "id": topic.id, "created_ms": topic.created_ms, "version": topic.version}
        content = stored | {"settings": topic.settings.to_json()}
        sealed = json.dumps(content | {"crc32c": _crc_of(content)}, indent=2) + "\n"
        self._files.replace(self.folder(topic) / "topic.json", sealed.encode())


def _names_in(folder: Path) -> list[str]:
    """The names in a folder; none where it is not there, or no more."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _crc_of(content: dict[str, Any]) -> str:
    return f"{google_crc32c.value(json.dumps(content).encode()):08x}"


def decode_topic(stored: bytes, path: Path) -> Topic:
    """The topic that a topic.json describes, or `CorruptLog` if it is not as it was written."""
    try:
        content = json.loads(stored)
        crc = content.pop("crc32c")
        if crc != _crc_of(content):
            raise ValueError("the checksum does not match")  # noqa: TRY301  (one exit for all damage)
        settings = TopicSettings.from_json(content.pop("settings"))
        return Topic(**content, settings=settings)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptLog(str(path), 0, f"it does not describe a topic ({error})") from error


def _encode_metadata(value: Versioned) -> bytes:
    return b"%s %d %08x\n%s" % (_METADATA, value.version, _crc_of_metadata(value), value.data)


def _decode_metadata(stored: bytes, path: Path) -> Versioned:
    head, _, data = stored.partition(b"\n")
    try:
        magic, version, crc = head.rsplit(b" ", 2)
        value = Versioned(data, int(version))
        if magic != _METADATA or int(crc, 16) != _crc_of_metadata(value):
            raise ValueError("the checksum does not match")  # noqa: TRY301  (one exit for all damage)
    except ValueError as error:
        raise CorruptLog(str(path), 0, f"it is no metadata ({error})") from error
    return value


def _crc_of_metadata(value: Versioned) -> int:
    return int(google_crc32c.extend(google_crc32c.value(b"%d\n" % value.version), bytes(value.data)))
