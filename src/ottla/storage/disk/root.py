"""The root folder of a log on disk, and the file in it that says what it is.

<root>/ottla.json   {"engine": "file", "format": 1, "id": "…"}, written once, and locked for changes of topics
<root>/changes      8 bytes, little-endian: how often topics changed; odd while a change is under way
"""

import contextlib
import errno
import json
import os
import re
import struct
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.errors import InvalidValue, ReadOnly, StorageFailed, StorageFull, UnsupportedFormat
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.disk.lock import LockedFile

FORMAT = 1
_IDENTITY = "ottla.json"
_COUNTER = struct.Struct("<Q")
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse", "afs", "ceph", "glusterfs", "lustre")
_MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")


def folder_of(url: str) -> Path:
    """The folder that a URL such as `file:///data/log` names."""
    scheme = url.partition(":")[0]
    rule = f"name a folder by its whole path, as in {scheme}:///var/lib/ottla, with odd characters as %23"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidValue("URL", url, rule) from error
    path = unquote(parts.path)
    whole = path.startswith("/") and path.strip("/") and not parts.fragment and not parts.query
    if parts.netloc not in {"", "localhost"} or not whole or not url.isprintable() or "\0" in path:
        raise InvalidValue("URL", url, rule)
    return Path(path)


class Root:
    """The root folder, opened: its identity, its lock, and a counter of changes that readers can trust."""

    def __init__(self, files: Files, path: Path, engine: str, *, read_only: bool, allow_network: bool) -> None:
        self.files = files
        self.path = path
        self.read_only = read_only
        if sys.platform == "win32":
            raise InvalidValue("URL", str(path), "folders on Windows are not supported: run it in WSL or a container")
        if not allow_network:
            _refuse_network_file_system(path)
        with _usable(path):
            if not read_only:
                self._create(engine)
            self._check(engine)
        self.handles = OpenFiles(files, os.O_RDONLY if read_only else os.O_RDWR)
        self._lock = LockedFile(self.handles, path / _IDENTITY)
        self._changes = path / "changes"

    def _create(self, engine: str) -> None:
        """Both files, unless they are there. The first to link the identity makes the folder a log."""
        self.files.make_folder(self.path)
        identity = self.path / _IDENTITY
        if not identity.exists():
            self._refuse_strangers(identity)
            temporary = self.path / f"{_IDENTITY}.{uuid.uuid4().hex}"
            content = {"engine": engine, "format": FORMAT, "id": uuid.uuid4().hex}
            self.files.replace(temporary, json.dumps(content).encode())
            with contextlib.suppress(FileExistsError):
                self.files.link(temporary, identity)
            self.files.unlink(temporary)
            self.files.sync_folder(self.path)
        if not (self.path / "changes").exists():
            self.files.close(self.files.open(self.path / "changes", os.O_WRONLY | os.O_CREAT))

    def _refuse_strangers(self, identity: Path) -> None:
        """A folder that holds anything else is none of ours, unless somebody made it a log this very moment."""
        ours = (f"{_IDENTITY}.", "~", "lost+found")
        strangers = [entry for entry in os.listdir(self.path) if not entry.startswith(ours)]
        if strangers and not identity.exists():
            rule = f"it is not empty (it holds {min(strangers)!r}) and no ottla log: choose an empty or a new folder"
            raise InvalidValue("folder", str(self.path), rule)

    def _check(self, engine: str) -> None:
        stored = self.files.read(self.path / _IDENTITY)
        if stored is None:
            raise InvalidValue("folder", str(self.path), "there is no ottla log in it: open it without read_only first")
        try:
            content = json.loads(stored)
            found = (content["engine"], content["format"])
        except (ValueError, KeyError, TypeError):
            found = ("an unreadable ottla.json", "?")
        if found != (engine, FORMAT):
            supported = f"engine {engine} in format {FORMAT}"
            raise UnsupportedFormat(str(self.path), f"engine {found[0]} in format {found[1]}", supported)

    def changes(self) -> int:
        """How often topics changed; an odd count is a change under way, or one whose process died."""
        try:
            counter = self.handles.get(self._changes)
            data = self.files.read_at(counter.fd, _COUNTER.size, 0)
        except FileNotFoundError:  # nobody counts, so nothing can be relied on
            return 1
        return int(_COUNTER.unpack(data)[0]) if len(data) == _COUNTER.size else 1

    @contextlib.contextmanager
    def locked(self, what: str) -> Iterator[None]:
        """Hold the root's lock, for metadata."""
        if self.read_only:
            raise ReadOnly(what)
        with storage_full_at(self.path), self._lock.locked():
            yield

    @contextlib.contextmanager
    def changing(self, what: str) -> Iterator[None]:
        """Hold the root's lock and tell every process to look at the topics again."""
        with self.locked(what):
            counter = self.handles.get(self._changes)
            count = self.changes() | 1
            self.files.write_at(counter.fd, [_COUNTER.pack(count)], 0)
            try:
                yield
            finally:  # a change that was refused, or failed half-way, is over too
                self.files.write_at(counter.fd, [_COUNTER.pack(count + 1)], 0)


@contextlib.contextmanager
def storage_full_at(path: Path) -> Iterator[None]:
    """Turn the operating system's words for what went wrong at *path* into ours."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error


def storage_error(error: OSError, path: Path) -> StorageFull | StorageFailed:
    """An operating system's error in our words."""
    return StorageFull(str(path)) if is_full(error) else StorageFailed(str(path), error.strerror or str(error))


def is_full(error: OSError) -> bool:
    """Whether the disk, or the user's share of it, is full."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


@contextlib.contextmanager
def _usable(path: Path) -> Iterator[None]:
    """A folder that cannot be made or entered is the caller's mistake; anything else is the disk's."""
    try:
        with storage_full_at(path):
            yield
    except StorageFailed as error:
        if isinstance(error.__cause__, PermissionError | NotADirectoryError | FileExistsError | FileNotFoundError):
            raise InvalidValue("folder", str(path), f"it cannot be used ({error.reason}): choose another") from error
        raise


def _refuse_network_file_system(path: Path) -> None:
    kind = file_system(path)
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        rule = f"it is on {kind}, where locks and syncs are not to be trusted: use a local disk, or add ?network=allow"
        raise InvalidValue("folder", str(path), rule)


def file_system(path: Path) -> str:
    """The kind of file system a path is, or will be, on; empty where the system does not tell."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    target, best, kind = str(path.resolve()), "", ""
    for line in mounts.splitlines():
        fields, _, after = line.partition(" - ")
        point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4])
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind
