"""The root folder of a log on disk, and the file in it that says what it is.

<root>/ottla.json   {"engine": "file", "format": 1, "id": "…"}, written once, and locked for changes of topics
<root>/changes      8 bytes, little-endian: how often topics changed; odd while a change is under way
"""

import contextlib
import json
import os
import struct
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.errors import InvalidValue, ReadOnly, StorageFull, UnsupportedFormat
from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFiles
from ottla.storage.disk.lock import LockedFile

FORMAT = 1
_COUNTER = struct.Struct("<Q")
_NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse", "afs", "ceph", "glusterfs", "lustre")


def folder_of(url: str) -> Path:
    """The folder that a URL such as `file:///data/log` names."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc not in {"", "localhost"} or not path.startswith("/") or path == "/" or "\0" in path:
        scheme = parts.scheme
        raise InvalidValue("URL", url, f"name a folder by its whole path, as in {scheme}:///var/lib/ottla")
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
        if not read_only:
            with storage_full_at(path):
                self._create(engine)
        self._check(engine)
        mode = os.O_RDONLY if read_only else os.O_RDWR
        self.handles = OpenFiles(files, mode, limit=256)
        self._lock = LockedFile(self.handles, path / "ottla.json")

    def _create(self, engine: str) -> None:
        """Both files, unless they are there: the identity comes last, and the first to link it wins."""
        self.files.make_folder(self.path)
        with contextlib.suppress(FileExistsError):
            fd = self.files.open(self.path / "changes", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            self.files.write_at(fd, [_COUNTER.pack(0)], 0)
            self.files.close(fd)
        identity = self.path / "ottla.json"
        if identity.exists():
            return
        if strangers := [entry for entry in os.listdir(self.path) if not entry.startswith(("changes", "ottla.json"))]:
            rule = f"it is not empty (it holds {strangers[0]!r}) and no ottla log: choose an empty or a new folder"
            self.files.unlink(self.path / "changes")
            raise InvalidValue("folder", str(self.path), rule)
        temporary = self.path / f"ottla.json.{uuid.uuid4().hex}.tmp"
        content = {"engine": engine, "format": FORMAT, "id": uuid.uuid4().hex}
        self.files.replace(temporary, json.dumps(content).encode())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, identity)
        self.files.unlink(temporary)
        self.files.sync_folder(self.path)

    def _check(self, engine: str) -> None:
        stored = self.files.read(self.path / "ottla.json")
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
        data = self.files.read_at(self.handles.get(self.path / "changes").fd, _COUNTER.size, 0)
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
            fd = self.handles.get(self.path / "changes").fd
            count = self.changes() | 1
            self.files.write_at(fd, [_COUNTER.pack(count)], 0)
            yield
            self.files.write_at(fd, [_COUNTER.pack(count + 1)], 0)


@contextlib.contextmanager
def storage_full_at(path: Path) -> Iterator[None]:
    """Turn the operating system's words for a full disk into ours."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise StorageFull(str(path)) from error
        raise


def is_full(error: OSError) -> bool:
    """Whether the disk, or the user's share of it, is full."""
    import errno  # noqa: PLC0415  (only here)

    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _refuse_network_file_system(path: Path) -> None:
    kind = _file_system(path)
    if kind.startswith(_NETWORK_FILE_SYSTEMS):
        rule = f"it is on {kind}, where locks and syncs are not to be trusted: use a local disk, or add ?network=allow"
        raise InvalidValue("folder", str(path), rule)


def _file_system(path: Path) -> str:
    """The kind of file system a path is, or will be, on; empty where the system does not tell."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    target, best, kind = str(path.resolve()), "", ""
    for line in mounts.splitlines():
        fields, _, after = line.partition(" - ")
        point = fields.split(" ")[4].encode().decode("unicode_escape")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind
