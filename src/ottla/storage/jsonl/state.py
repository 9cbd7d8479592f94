"""What the lines of a text file no longer prove, or would take long to: stored beside `control`, replaced as a whole.

It is true at byte *position* of the file's *generation*, and what follows there is found by reading on. It is
written when messages are removed, when the file is replaced, and now and then, so that opening a long file reads
only its end. It never speaks of bytes that are not durable. Stored form, on one line and sealed as a message is:

    {"v":1,"generation":1,"position":0,"appended":0,"partitions":{"0":{"first":1,"next":1,"first_at":0,"size":0,
     "dead":0,"gaps":[],"producers":"base64 of the producers' table"}},"crc":"8f3a21c4"}
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path

from ottla.errors import CorruptBatch, CorruptLog
from ottla.storage.disk.files import Files
from ottla.storage.jsonl.lines import sealed, unsealed
from ottla.storage.producers import Producers

_VERSION = 1
_FIELDS = "first", "next", "first_at", "size", "dead"


@dataclass(slots=True)
class PartitionState:
    """What is known of one partition."""

    first: int = 1
    next: int = 1
    first_at: int = 0
    """The partition's first kept batch lies at this byte or behind it."""
    size: int = 0
    """Bytes of all its lines in this generation of the file."""
    dead: int = 0
    """Those of them that lie below *first*, in batches that are gone whole."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Numbers, from and up to, that `repair` could not save."""
    producers: Producers = field(default_factory=Producers)


@dataclass(slots=True)
class State:
    """What is known at one byte of one generation of a file."""

    generation: int = 1
    position: int = 0
    append_ms: int = 0
    partitions: dict[int, PartitionState] = field(default_factory=dict)

    @property
    def total_next(self) -> int:
        """How many messages the file ever held, plus one."""
        return 1 + sum(part.next - 1 for part in self.partitions.values())


def encode_state(state: State) -> bytes:
    """The stored form, drawn in this module's docstring."""
    partitions = {
        str(index): {name: getattr(part, name) for name in _FIELDS}
        | {"gaps": part.gaps, "producers": b64encode(part.producers.encode()).decode()}
        for index, part in sorted(state.partitions.items())
    }
    head = {"v": _VERSION, "generation": state.generation, "position": state.position, "appended": state.append_ms}
    return sealed(json.dumps(head | {"partitions": partitions}, separators=(",", ":"))[:-1]) + b"\n"


def decode_state(stored: bytes) -> State:
    """The state; `CorruptBatch` if the bytes are none."""
    content = unsealed(stored.removesuffix(b"\n"))
    try:
        if content["v"] != _VERSION:
            raise CorruptBatch(f"format version {content['v']} is not known here: a newer ottla may read it")
        partitions = {
            int(index): PartitionState(
                **{name: int(part[name]) for name in _FIELDS},
                gaps=tuple((int(start), int(end)) for start, end in part["gaps"]),
                producers=Producers.decode(b64decode(part["producers"])),
            )
            for index, part in content["partitions"].items()
        }
        return State(int(content["generation"]), int(content["position"]), int(content["appended"]), partitions)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptBatch(f"it does not say what it should ({error})") from error


def load_state(files: Files, path: Path) -> State | None:
    """The state in a file; `None` where there is no file, `CorruptLog` where it is damaged."""
    stored = files.read(path)
    try:
        return None if stored is None else decode_state(stored)
    except CorruptBatch as error:
        raise CorruptLog(str(path), 0, error.reason) from error
