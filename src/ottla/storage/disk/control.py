"""The control file: what of a partition's files is acknowledged. Read without a lock, written under it.

Two slots of the same form at bytes 0 and 512, so that a torn write leaves the other whole; the valid one
with the higher serial counts. All integers are little-endian.

     at  size  field
      0     8  magic, the bytes `OTLCTRL1`
      8     8  serial: goes up by one with each write, which goes to the slot of its parity
     16    16  incarnation: whose page cache the bytes below are true in (see `incarnation_of`)
     32     8  active: the first number of the active segment, which names its file
     40     8  end: bytes of the active segment that are acknowledged
     48     8  synced: bytes of the active segment that are known to be durable
     56     8  synced next: the number of the first message behind the synced bytes
     64     8  next: the number of the next message
     72     8  first: the number of the oldest message kept
     80     8  layout: goes up when files are added or removed, so that readers look again
     88     8  append time of the newest batch in Unix milliseconds
     96     4  failed: bit 0 if a sync of the active segment failed, and it must not be appended to;
                bit 1 while a `jsonl:` log is replacing its file
    100     4  CRC-32C of bytes 0 to 99

The file is synced only when the active segment changes. After a restart of the machine it may be behind
the segments, never ahead of what was durable: what counts then is found by reading on from *synced*.
"""

import hashlib
import os
import struct
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import google_crc32c

from ottla.errors import CorruptLog
from ottla.storage.disk.files import Files

_MAGIC = b"OTLCTRL1"
_FORM = struct.Struct("<8sQ16sQQQQQQQqI")
_CRC = struct.Struct("<I")
_SLOT_BYTES = 512
CONTROL_BYTES = 2 * _SLOT_BYTES
_ATTEMPTS = 100
_NOBODYS = bytes(16)

FAILED = 1
REPLACING = 2


class Control(NamedTuple):
    """One slot, decoded. Field by field the drawing in this module's docstring."""

    serial: int
    incarnation: bytes
    active: int
    end: int
    synced: int
    synced_next: int
    next: int
    first: int
    layout: int
    append_ms: int
    failed: int


def new_control(incarnation: bytes, number: int = 1) -> Control:
    """An empty partition whose next message gets *number*."""
    return Control(1, incarnation, number, 0, 0, number, number, number, 1, 0, 0)


def read_control(files: Files, fd: int, path: Path, *, locked: bool = False) -> Control:
    """The current slot. A write that is under way is waited out; two bad slots are damage.

    Under the lock nobody writes, so one bad slot is damage too, and it may have been the newer one: what the other
    says is then given as that of no incarnation, so that what counts is found by reading on from it.
    """
    for _ in range(_ATTEMPTS):
        data = files.read_at(fd, CONTROL_BYTES, 0)
        slots = [slot for slot in (_decode(data, 0), _decode(data, _SLOT_BYTES)) if slot is not None]
        if slots:
            newest = max(slots)
            damaged = locked and len(slots) == 1 and (newest.serial > 1 or bad_slots(data))
            return newest._replace(incarnation=_NOBODYS) if damaged else newest
    raise CorruptLog(str(path), 0, "neither of its two slots is valid")


def bad_slots(data: bytes) -> list[int]:
    """Where in a control file, read whole, damage is. An empty slot is none, unless both are: it was never synced."""
    bad = [at for at in (0, _SLOT_BYTES) if _decode(data, at) is None]
    return bad if bad == [0, _SLOT_BYTES] else [at for at in bad if any(data[at : at + _SLOT_BYTES])]


def write_control(files: Files, fd: int, control: Control) -> Control:
    """Publish *control* under the next serial; the caller holds the lock."""
    control = control._replace(serial=control.serial + 1)
    files.write_at(fd, [_encode(control)], _SLOT_BYTES * (control.serial % 2))
    return control


def first_content(control: Control) -> bytes:
    """The whole file for a new partition."""
    slots = [bytes(_SLOT_BYTES), bytes(_SLOT_BYTES)]
    slots[control.serial % 2] = _encode(control)
    return b"".join(slots)


def _encode(control: Control) -> bytes:
    data = _FORM.pack(_MAGIC, *control)
    return (data + _CRC.pack(google_crc32c.value(data))).ljust(_SLOT_BYTES, b"\0")


def _decode(data: bytes, at: int) -> Control | None:
    if len(data) < at + _FORM.size + _CRC.size:
        return None
    (crc,) = _CRC.unpack_from(data, at + _FORM.size)
    if crc != google_crc32c.value(data[at : at + _FORM.size]) or data[at : at + 8] != _MAGIC:
        return None
    return Control._make(_FORM.unpack_from(data, at)[1:])


def incarnation_of(fd: int) -> bytes:
    """Names this boot of the machine and this file: a restart, a copy or a restored backup has another.

    Within one incarnation what a process wrote is what another one reads, synced or not.
    """
    return hashlib.sha256(f"{_boot_id()} {os.fstat(fd).st_ino}".encode()).digest()[:16]


@lru_cache(maxsize=1)
def _boot_id() -> str:
    if sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603  (fixed)
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
