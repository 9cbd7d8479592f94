"""System calls in one place: whole writes, whole replacements, durable names."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.storage.disk.files import Buffer, Files, temporary_name
from ottla.testing.faults import Fault, FaultyFiles


class Slow(Files):
    """Writes a few bytes at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.calls = 0

    def pwritev(self, fd: int, parts: Sequence[Buffer], position: int) -> int:
        self.calls += 1
        return os.pwrite(fd, b"".join(parts)[: self._most], position)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 100])
def test_short_writes_are_continued(tmp_path: Path, most: int) -> None:
    files = Slow(most)
    fd = files.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    assert files.write_at(fd, [b"ab", b"", b"cdefg", memoryview(b"h")], 3) == 11
    assert files.read_at(fd, 100, 0) == b"\0\0\0abcdefgh"
    files.close(fd)


def test_more_parts_than_one_call_takes(tmp_path: Path) -> None:
    """And in time that grows with their number, not with its square."""
    files = Files()
    fd = files.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    parts = [b"%07d" % n for n in range(50_000)]
    files.write_at(fd, parts, 0)
    assert files.read_at(fd, 400_000, 0) == b"".join(parts)
    files.close(fd)


def test_writing_nothing_at_all_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    files = Slow(0)
    fd = files.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    with pytest.raises(OSError, match="nothing was written"):
        files.write_at(fd, [b"x"], 0)
    files.close(fd)
    assert files.calls == 1


@pytest.mark.parametrize("operation", ["open", "pwritev", "sync", "rename"])
def test_a_replacement_that_fails_leaves_the_old_and_nothing_else(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    files.replace(tmp_path / "x", b"old")
    files.fail(Fault(operation, error=errno.ENOSPC))  # type: ignore[arg-type]  # one of the operations
    with pytest.raises(OSError, match="No space"):
        files.replace(tmp_path / "x", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"x": b"old"}


def test_a_replacement_syncs_the_bytes_before_the_name(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.replace(tmp_path / "x", b"new")
    assert [operation for operation, _ in files.calls] == ["open", "pwritev", "sync", "rename", "sync_folder_fd"]
    files.calls.clear()
    files.replace(tmp_path / "x", b"newer", durable=False)
    assert [operation for operation, _ in files.calls] == ["open", "pwritev", "rename"]


def test_any_name_that_fits_can_be_replaced(tmp_path: Path) -> None:
    """The name for the unfinished file does not grow with it."""
    path = tmp_path / ("n" * 255)
    Files().replace(path, b"x")
    assert path.read_bytes() == b"x"
    assert temporary_name() != temporary_name()


def test_folders_are_made_with_their_parents_and_synced(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.make_folder(tmp_path / "a" / "b")
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    assert [operation for operation, _ in files.calls] == ["sync_folder_fd"] * 2


def test_a_missing_file_reads_as_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert Files().read(tmp_path / "missing") is None
    assert Files().read(tmp_path / "file" / "missing") is None
    assert Files().read(tmp_path / "file") == b"x"


def test_a_file_without_a_name_has_no_size(tmp_path: Path) -> None:
    files = Files()
    fd = files.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    assert files.size(fd) == 0
    files.unlink(tmp_path / "x")
    files.unlink(tmp_path / "x")
    assert files.size(fd) == -1
    files.close(fd)
