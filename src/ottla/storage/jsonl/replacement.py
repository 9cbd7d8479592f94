"""Putting another text file in the place of the current one: the price of one readable file.

A file cannot lose its head, so messages that were trimmed or expired are dropped by writing the others to a new
file, and a file whose sync failed is given up for a copy. The steps, under the lock:

    1. the new file beside the old one, as `<root>/~<topic id>-<broker>`, synced; then `state.new`, which describes it
    2. `control` says that the file is being replaced, so that readers wait
    3. the new file takes the name of the old one: this is the moment; then `state.new` takes that of `state`
    4. `control` names the new generation, and is synced

Killed anywhere, the next to hold the lock sees how far it went: while the new file has its first name, nothing has
happened. That name is in the same folder, because a rename between two folders may be half done when the power goes.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.storage.disk.control import REPLACING, Control, incarnation_of, write_control
from ottla.storage.jsonl.scan import batches
from ottla.storage.jsonl.state import PartitionState, State, encode_state
from ottla.storage.jsonl.tail import Tail

if TYPE_CHECKING:
    from ottla.storage.jsonl.ledger import Ledger

NEW_STATE = "state.new"
_WORTH_BYTES = 64 * 1024
_COPY_BYTES = 2**20


def start(ledger: "Ledger") -> None:
    """The first file, empty; one that a deletion left behind under its name goes."""
    files = ledger.files
    _abandon(ledger)
    files.close(files.open(ledger.new_path, os.O_WRONLY | os.O_CREAT))
    files.rename(ledger.new_path, ledger.path)
    files.sync_folder(ledger.path.parent)
    files.replace(ledger.folder / "state", encode_state(State()))
    ledger.drop_open()


def settle(ledger: "Ledger") -> None:
    """Finish, or undo, what a killed process left half done."""
    files, folder = ledger.files, ledger.folder
    if ledger.new_path.exists():
        _abandon(ledger)
    elif (folder / NEW_STATE).exists():
        files.sync_folder(ledger.path.parent)
        files.rename(folder / NEW_STATE, folder / "state")
        files.sync_folder(folder)


def _abandon(ledger: "Ledger") -> None:
    """In this order: a `state.new` alone would mean that the file was replaced."""
    for path in (ledger.folder / NEW_STATE, ledger.new_path):
        if path.exists():
            ledger.files.unlink(path)
            ledger.files.sync_folder(path.parent)


def renew(ledger: "Ledger", fd: int, control: Control, tail: Tail) -> tuple[Control, Tail]:
    """Go on in a copy: a sync of the file failed."""
    return replace_text(ledger, fd, control, _copied(ledger, [(0, control.end)]), tail.state())


def drop_dead(ledger: "Ledger", fd: int, control: Control, tail: Tail) -> None:
    """Write the file anew without the messages that are gone, if at least half of it is theirs."""
    dead = control.end - tail.live
    if not dead or dead * 2 < control.end or (dead <= _WORTH_BYTES and tail.live):
        return
    state = tail.state()
    partitions = {
        index: replace(part, first_at=0, dead=0, size=part.size - part.dead) for index, part in state.partitions.items()
    }
    kept = _copied(ledger, _kept(ledger, control.end, partitions))
    replace_text(ledger, fd, control, kept, replace(state, partitions=partitions))


def _kept(ledger: "Ledger", limit: int, partitions: dict[int, PartitionState]) -> Iterator[tuple[int, int]]:
    """Where the lines are that stay: from and up to."""
    start = end = 0
    for stored in batches(ledger.text()[0], 0, limit):
        if stored.next_number > partitions.get(stored.partition, PartitionState()).first:
            if end != stored.position:
                yield start, end
                start = stored.position
            end = stored.end
    yield start, end


def _copied(ledger: "Ledger", ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    text, _ = ledger.text()
    for start, end in ranges:
        for position in range(start, end, _COPY_BYTES):
            part = ledger.files.read_at(text.handle.fd, min(_COPY_BYTES, end - position), position)
            if len(part) < min(_COPY_BYTES, end - position):
                raise text.damaged(position + len(part), f"it ends there, but {end} bytes were acknowledged")
            yield part


def replace_text(
    ledger: "Ledger", fd: int, control: Control, content: Iterable[bytes], state: State
) -> tuple[Control, Tail]:
    """Put *content*, which *state* describes except for its position, in the place of the current file."""
    files, folder = ledger.files, ledger.folder
    with ledger.failing():
        _abandon(ledger)
        end = _write(ledger, content)
        state = replace(state, generation=control.active + 1, position=end)
        files.replace(folder / NEW_STATE, encode_state(state))
        control = write_control(files, fd, control._replace(failed=control.failed | REPLACING))
        files.rename(ledger.new_path, ledger.path)
        settle(ledger)
        control = write_control(files, fd, published(control, state)._replace(incarnation=incarnation_of(fd)))
        files.sync(fd)
    ledger.drop_open()
    tail = Tail(state, control.layout)
    ledger.know(tail)
    return control, tail


def published(control: Control, state: State) -> Control:
    """What `control` says of a file that was just replaced."""
    return control._replace(
        active=state.generation, end=state.position, synced=state.position,
        next=state.total_next, synced_next=state.total_next, layout=control.layout + 1,
        append_ms=max(control.append_ms, state.append_ms), failed=0,
    )  # fmt: skip


def _write(ledger: "Ledger", content: Iterable[bytes]) -> int:
    files, path = ledger.files, ledger.new_path
    fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    position = 0
    try:
        for part in content:
            position = files.write_at(fd, [part], position)
        files.sync(fd)
    finally:
        files.close(fd)
    files.sync_folder(path.parent)
    return position
