"""After a restart of the machine, or a replacement that was cut short: what of a text file counts.

`control` may be behind the file then. So the file is read on from where the stored state speaks of it; whole batches
that carry on the numbering count, and what follows them is a torn tail. Nothing is written here: an appender makes
the result true under its lock, a read-only reader just believes it.
"""

from typing import TYPE_CHECKING

from ottla.errors import CorruptLog
from ottla.storage.disk.control import REPLACING, Control
from ottla.storage.jsonl.replacement import NEW_STATE, published
from ottla.storage.jsonl.scan import batches
from ottla.storage.jsonl.state import State, load_state
from ottla.storage.jsonl.tail import Tail

if TYPE_CHECKING:
    from ottla.storage.jsonl.ledger import Ledger


def load(ledger: "Ledger", generation: int) -> State:
    """The stored state of a generation; `CorruptLog` if there is none, because it was replaced or is damaged."""
    state = newest_state(ledger)
    if state.generation != generation:
        reason = f"it describes generation {state.generation} of the file, not {generation}"
        raise CorruptLog(str(ledger.folder / "state"), 0, reason)
    return state


def newest_state(ledger: "Ledger") -> State:
    """The state that belongs to the text file: `state.new` once the new file has its name."""
    files, folder = ledger.files, ledger.folder
    state = None if ledger.new_path.exists() else load_state(files, folder / NEW_STATE)
    state = state or load_state(files, folder / "state")
    if state is None:
        raise CorruptLog(str(folder / "state"), 0, "the file is missing")
    return state


def rescued(ledger: "Ledger", control: Control, incarnation: bytes) -> Control:
    """What `control` would say had it been synced with the last acknowledged append, or one later."""
    state = newest_state(ledger)
    if state.generation == control.active + 1:
        control = published(control, state)
    else:
        control = control._replace(failed=control.failed & ~REPLACING)
        if state.generation != control.active:
            load(ledger, control.active)  # raises, and says why
    same_boot = control.incarnation == incarnation
    return control if same_boot else _read_on(ledger, control, state)._replace(incarnation=incarnation)


def _read_on(ledger: "Ledger", control: Control, state: State) -> Control:
    tail = Tail(state, control.layout)
    text, size = ledger.text()
    try:
        for stored in batches(text, tail.position, size):
            tail.take(stored, text)
    except CorruptLog:
        if tail.position < control.synced:
            raise
    known = max(control.synced, state.position)
    if size < known or tail.position < known:
        raise text.damaged(min(size, tail.position), f"it ends there, but {known} bytes were acknowledged")
    number = tail.state().total_next
    return control._replace(
        end=tail.position, synced=tail.position, next=number, synced_next=number,
        append_ms=max(control.append_ms, tail.append_ms), layout=control.layout + 1, failed=0,
    )  # fmt: skip
