"""A `file:` log in a folder of its own, for tests that open it often, damage it, copy it and look at its files."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

from ottla.clock import Clock, ManualClock
from ottla.model import Topic
from ottla.storage.contract import EngineOptions
from ottla.storage.disk.files import Files
from ottla.storage.file import FileEngine
from ottla.storage.file.partition import FilePartition
from ottla.testing.samples import new_topic
from ottla.testing.steps import Unsynced, using

UNSYNCED = Unsynced()


class FileLog:
    """One folder. Its engines do not wait for the disk, unless they are given other files; `close` closes them all."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.clock = clock or ManualClock()
        self._engines: list[FileEngine] = []

    @property
    def url(self) -> str:
        return f"file://{self.root}"

    def open(self, *, read_only: bool = False, files: Files = UNSYNCED) -> FileEngine:
        """Another engine on the folder."""
        with using(files):
            engine = FileEngine(self.root, EngineOptions(clock=self.clock, read_only=read_only))
        self._engines.append(engine)
        return engine

    def create(self, topic: str = "deliveries", *, files: Files = UNSYNCED, **settings: Any) -> FilePartition:
        """The first partition of a new topic, in a new engine."""
        engine = self.open(files=files)
        return engine.partition(new_topic(engine, topic, **settings), 0)

    def partition(
        self, topic: str = "deliveries", *, read_only: bool = False, files: Files = UNSYNCED
    ) -> FilePartition:
        """The first partition of a topic, in a new engine."""
        engine = self.open(read_only=read_only, files=files)
        return engine.partition(engine.topic(topic), 0)

    def topic(self, name: str = "deliveries") -> Topic:
        return self.open(read_only=True).topic(name)

    def close(self) -> None:
        while self._engines:
            self._engines.pop().close()

    def reboot(self) -> None:
        """Close all, and make the folder one that was written before the machine was started."""
        self.close()
        aside = self.root.with_name(f"{self.root.name}-before")
        self.root.rename(aside)
        shutil.copytree(aside, self.root)
        shutil.rmtree(aside)

    def copy(self, name: str) -> "FileLog":
        """The folder as it is, beside this one: what a backup, or a restart of the machine, would find."""
        target = self.root.with_name(name)
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(self.root, target)
        return FileLog(target, self.clock)

    def folder(self, topic: str = "deliveries", partition: int = 0) -> Path:
        """A partition's folder."""
        (found,) = (self.root / "topics" / topic).glob(f"*/{partition}")
        return found

    def files(self, suffix: str, topic: str = "deliveries", partition: int = 0) -> list[Path]:
        """The partition's files of one kind (`.log`, `.parquet`), in order."""
        return sorted(self.folder(topic, partition).glob(f"*{suffix}"))

    def tree(self) -> dict[str, bytes]:
        """Every file and its bytes, to compare."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            with contextlib.suppress(IsADirectoryError):
                found[str(path.relative_to(self.root))] = path.read_bytes()
        return found


def flip(path: Path, position: int, bits: int = 0x01) -> None:
    """Change bits of one byte of a file; a negative position counts from its end."""
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)
