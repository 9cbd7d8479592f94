"""The control file: two slots, of which one is always whole."""

import os
import threading
from pathlib import Path

import pytest

from ottla.errors import CorruptLog
from ottla.storage.disk.control import (
    CONTROL_BYTES,
    Control,
    bad_slots,
    first_content,
    incarnation_of,
    new_control,
    read_control,
    write_control,
)
from ottla.storage.disk.files import Files

FILES = Files()
OURS = b"i" * 16


class Slots:
    """A control file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(first_content(new_control(OURS)))
        self.fd = os.open(path, os.O_RDWR)

    def read(self, *, locked: bool = False) -> Control:
        return read_control(FILES, self.fd, self.path, locked=locked)

    def write(self, *, end: int, number: int = 1, append_ms: int = 0) -> Control:
        return write_control(FILES, self.fd, self.read()._replace(end=end, next=number, append_ms=append_ms))

    def spoil(self, at: int) -> None:
        byte = os.pread(self.fd, 1, at)[0]
        os.pwrite(self.fd, bytes([byte ^ 0x10]), at)


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path / "control")


def test_the_newest_counts(slots: Slots) -> None:
    for end in range(1, 10):
        written = slots.write(end=end)
        assert slots.read() == slots.read(locked=True) == written
        assert written.end == end
        assert written.serial == end + 1


def test_writes_alternate_so_that_the_one_before_stays_whole(slots: Slots) -> None:
    slots.write(end=1)
    slots.write(end=2)
    for at, end in ((512 * (slots.read().serial % 2), 1),):
        slots.spoil(at)
        assert slots.read().end == end


def test_under_the_lock_a_bad_slot_may_have_been_the_newer_one(slots: Slots) -> None:
    """So what the other says is nobody's: it is recovered from, and never trusted to be the latest."""
    slots.write(end=1)
    slots.write(end=2)
    whole = slots.path.read_bytes()
    for at in (10, 522):
        slots.path.write_bytes(whole)
        slots.spoil(at)
        assert slots.read(locked=True).incarnation == bytes(16)
        assert slots.read().incarnation == OURS
    slots.path.write_bytes(whole)
    assert slots.read(locked=True).incarnation == OURS


def test_a_slot_that_was_never_used_is_not_damaged(slots: Slots) -> None:
    assert slots.read(locked=True).incarnation == OURS
    assert bad_slots(slots.path.read_bytes()) == []
    slots.write(end=1)
    slots.write(end=2)
    os.pwrite(slots.fd, bytes(512), 0)  # as after a power cut
    assert bad_slots(slots.path.read_bytes()) == []
    assert slots.read(locked=True).incarnation == bytes(16)
    os.pwrite(slots.fd, bytes(512), 512)
    assert bad_slots(slots.path.read_bytes()) == [0, 512]


def test_two_bad_slots_are_damage(slots: Slots) -> None:
    slots.write(end=1)
    slots.spoil(20)
    slots.spoil(532)
    for locked in (True, False):
        with pytest.raises(CorruptLog, match="neither") as damage:
            slots.read(locked=locked)
        assert damage.value.path == str(slots.path)


@pytest.mark.parametrize("size", [0, 1, 104, 511, 512, 600, 1023])
def test_a_short_file_is_read_as_far_as_it_goes(slots: Slots, size: int) -> None:
    slots.write(end=1)
    os.truncate(slots.path, size)
    if size >= 104:
        assert slots.read().serial in {1, 2}
    else:
        with pytest.raises(CorruptLog):
            slots.read()


def test_readers_beside_a_writer_never_see_a_torn_or_an_older_state(slots: Slots) -> None:
    stop = threading.Event()
    seen: list[Control] = []

    def look() -> None:
        while not stop.is_set():
            seen.append(slots.read())

    reader = threading.Thread(target=look)
    reader.start()
    for n in range(3000):
        slots.write(end=n, number=n)
    stop.set()
    reader.join()
    assert all(control.end == control.next or control.serial == 1 for control in seen)
    assert [control.serial for control in seen] == sorted(control.serial for control in seen)


def test_an_incarnation_is_of_one_file_in_one_run_of_the_machine(tmp_path: Path) -> None:
    fds = []
    for name in ("a", "b"):
        (tmp_path / name).touch()
        fds.append(os.open(tmp_path / name, os.O_RDONLY))
    again = os.open(tmp_path / "a", os.O_RDONLY)
    assert incarnation_of(fds[0]) == incarnation_of(again) != incarnation_of(fds[1])
    for fd in (*fds, again):
        os.close(fd)


def test_the_size_is_fixed(slots: Slots) -> None:
    slots.write(end=2**63 - 1, append_ms=-1)
    assert slots.path.stat().st_size == CONTROL_BYTES
    assert slots.read().append_ms == -1
