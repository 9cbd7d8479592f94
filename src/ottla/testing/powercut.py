"""Power cuts without a power switch: what a disk may hold when the machine stops at any system call.

A killed process loses nothing that it wrote, because the kernel still has it; a machine that stops loses what was
not synced. `VolatileFiles` does every call for real and remembers what was synced: the bytes of a file at its last
sync, the names in a folder at its last. `cut` then makes a folder as it may be found after the restart: of every
file each sector is the synced or the newest one, of every folder the names are the synced or the newest ones.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

from ottla.storage.disk.files import Buffer, Files

SECTOR_BYTES = 512


class VolatileFiles(Files):
    """The operating system's files, under *root*, with a memory of what is durable.

    *before* is called before every call that changes something: the moments at which the power may go.
    """

    def __init__(self, root: Path, before: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._before = before
        self._bytes: dict[Path, bytes] = {}
        """What is durable of a file, by its path now."""
        self._names: dict[Path, dict[str, Path | None]] = {}
        """The durable names in a folder; each with the path to its bytes, or `None` for a folder."""
        self._removed: dict[Path, bytes] = {}
        """Bytes of files that were removed or replaced, while a durable name may still lead to them."""
        self._paths: dict[int, Path] = {}

    def settle(self) -> None:
        """Take everything as it is for durable: where a test starts from."""
        for folder, _, names in os.walk(self._root):
            self._note_names(Path(folder))
            for name in names:
                path = Path(folder, name)
                self._bytes[path] = path.read_bytes()

    def open(self, path: Path, flags: int) -> int:
        self._before()
        if not path.exists():
            self._bytes.pop(path, None)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def pwritev(self, fd: int, parts: list[Buffer], position: int) -> int:  # type: ignore[override]
        self._before()
        return super().pwritev(fd, parts, position)

    def truncate(self, fd: int, size: int) -> None:
        self._before()
        super().truncate(fd, size)

    def sync(self, fd: int) -> None:
        self._before()
        super().sync(fd)
        self._bytes[self._paths[fd]] = self._paths[fd].read_bytes()

    def sync_folder(self, path: Path) -> None:
        self._before()
        super().sync_folder(path)
        self._note_names(path)

    def rename(self, source: Path, target: Path) -> None:
        self._before()
        kept = self._bytes.pop(source, b"")
        self._set_aside(target)
        super().rename(source, target)
        self._bytes[target] = kept
        self._lead(source, target)  # the durable name, if it had one, still leads to the same bytes
        for fd, path in self._paths.items():
            if path == source:
                self._paths[fd] = target

    def unlink(self, path: Path) -> None:
        self._before()
        self._set_aside(path)
        super().unlink(path)

    def _set_aside(self, path: Path) -> None:
        """Keep what is durable of a file that is about to lose its name, for the folder may still show it."""
        if path in self._bytes:
            aside = path.with_name(f"{path.name}#{len(self._removed)}")
            self._removed[aside] = self._bytes.pop(path)
            self._lead(path, aside)

    def _lead(self, path: Path, elsewhere: Path) -> None:
        """Durable names of what was at *path* lead elsewhere from now on."""
        for names in self._names.values():
            names.update({name: elsewhere for name, source in names.items() if source == path})

    def _note_names(self, folder: Path) -> None:
        self._names[folder] = _names_in(folder)

    def cut(self, target: Path, chance: random.Random) -> None:
        """Make *target* the root as it may be found after the restart."""
        self._cut(self._root, target, chance)

    def _cut(self, folder: Path, target: Path, chance: random.Random) -> None:
        target.mkdir()
        durable, now = self._names.get(folder, {}), _names_in(folder)
        for name, source in chance.choice((durable, now)).items():
            if source is None:
                self._cut(folder / name, target / name, chance)
            else:
                (target / name).write_bytes(self._mixed(source, chance))

    def _mixed(self, path: Path, chance: random.Random) -> bytes:
        if path in self._removed:
            return self._removed[path]
        old = self._bytes.get(path, b"")
        new = path.read_bytes() if path.exists() else old
        how = chance.choice(("old", "new", "mixed"))
        if how != "mixed":
            return old if how == "old" else new
        size = chance.randint(min(len(old), len(new)), max(len(old), len(new)))
        old, new = old.ljust(size, b"\0"), new.ljust(size, b"\0")
        sectors = range(0, size, SECTOR_BYTES)
        return b"".join(chance.choice((old, new))[at : min(at + SECTOR_BYTES, size)] for at in sectors)


def _names_in(folder: Path) -> dict[str, Path | None]:
    if not folder.is_dir():
        return {}
    return {entry.name: None if entry.is_dir() else Path(entry.path) for entry in os.scandir(folder)}
