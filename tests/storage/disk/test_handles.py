"""Open files: few, closed when nobody uses them, and never those of a parent process."""

import errno
import os
from pathlib import Path

import pytest

from ottla.storage.disk.files import Files
from ottla.storage.disk.handles import OpenFile, OpenFiles
from ottla.storage.disk.lock import LockedFile


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / str(n) for n in range(5)]
    for path in paths:
        path.write_text(path.name)
    return paths


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_the_least_recently_used_is_closed_first(paths: list[Path]) -> None:
    handles = OpenFiles(Files(), os.O_RDONLY, limit=2)
    fds = [handles.get(path).fd for path in paths[:2]]
    handles.get(paths[0])
    handles.get(paths[2])
    assert [is_open(fd) for fd in fds] == [True, False] or handles.get(paths[2]).fd == fds[1]
    assert handles.get(paths[0]).fd == fds[0]


def test_whoever_uses_a_file_keeps_it(paths: list[Path]) -> None:
    """Evicted or removed, it stays open until its last user lets go."""
    handles = OpenFiles(Files(), os.O_RDONLY, limit=1)
    handle = handles.get(paths[0])
    paths[0].unlink()
    handles.get(paths[1])
    assert os.pread(handle.fd, 10, 0) == b"0"
    fd = handle.fd
    del handle
    assert not is_open(fd)


def test_a_replaced_file_is_opened_again(paths: list[Path]) -> None:
    handles = OpenFiles(Files(), os.O_RDONLY)
    handles.get(paths[0])
    paths[1].replace(paths[0])
    handle, size = handles.sized(paths[0])
    assert os.pread(handle.fd, 10, 0) == b"1"
    assert size == 1
    with pytest.raises(FileNotFoundError):
        handles.sized(paths[1])


def test_a_process_short_of_descriptors_gives_up_what_it_can(paths: list[Path]) -> None:
    class Short(Files):
        fails = False

        def open(self, path: Path, flags: int) -> int:
            if self.fails:
                self.fails = False
                raise OSError(errno.EMFILE, "Too many open files")
            return super().open(path, flags)

    files = Short()
    handles = OpenFiles(files, os.O_RDONLY)
    first = handles.get(paths[0]).fd
    files.fails = True
    assert handles.get(paths[1]).fd >= 0
    assert not is_open(first) or handles.get(paths[1]).fd == first


def test_dropping_a_folder_drops_what_is_below_it(tmp_path: Path, paths: list[Path]) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "x").touch()
    handles = OpenFiles(Files(), os.O_RDONLY)
    kept, dropped = handles.get(paths[0]).fd, handles.get(tmp_path / "below" / "x").fd
    handles.drop_below(tmp_path / "below")
    assert is_open(kept)
    assert not is_open(dropped)


def test_closing_twice_closes_once(paths: list[Path]) -> None:
    """The number may belong to somebody else by then."""
    handle = OpenFile(Files(), paths[0], os.O_RDONLY)
    fd = handle.fd
    handle.close()
    other = os.open(paths[1], os.O_RDONLY)
    assert other == fd
    handle.close()
    assert is_open(other)
    os.close(other)


class TestTried:
    """A lock for long work, which is held or left alone."""

    @pytest.fixture
    def locks(self, paths: list[Path]) -> list[LockedFile]:
        return [LockedFile(OpenFiles(Files(), os.O_RDWR), paths[0]) for _ in range(2)]

    def test_one_at_a_time(self, locks: list[LockedFile]) -> None:
        one, other = locks
        with one.tried() as held:
            assert held
            with other.tried() as too:
                assert not too
            with one.tried() as again:
                assert not again
        with other.tried() as later:
            assert later

    def test_it_is_let_go_when_the_work_fails(self, locks: list[LockedFile]) -> None:
        one, other = locks
        with pytest.raises(KeyError), one.tried():
            raise KeyError
        with other.tried() as held:
            assert held
