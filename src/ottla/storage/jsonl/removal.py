"""Removing messages from the head of a partition: readers no longer see them at once, the file shrinks later."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.errors import StorageError
from ottla.model import Bounds
from ottla.storage.disk.control import write_control
from ottla.storage.jsonl.replacement import drop_dead
from ottla.storage.jsonl.scan import Stored, batches

if TYPE_CHECKING:
    from ottla.storage.jsonl.ledger import Ledger

_log = logging.getLogger("ottla")

Goes = Callable[[Stored, int], bool]
"""Whether a batch goes, given the bytes that the partition takes with it."""


def remove(ledger: "Ledger", partition: int, goes: Goes, before: int | None = None) -> Bounds:
    """Remove batches from the oldest on as long as they go; with *before*, all messages below that number."""
    with ledger.locked() as (fd, found), ledger.failing():
        control, tail = ledger.prepared(fd, found)
        part = tail.partition(partition)
        first, first_at, dead = part.first, part.first_at, part.dead
        for stored in batches(ledger.text()[0], first_at, control.end, partition):
            if not goes(stored, part.size - dead):
                break
            first, first_at, dead = stored.next_number, stored.end, dead + stored.size
        if before is not None:
            first = max(part.first, min(before, part.next))
        if first == part.first:
            return Bounds(first, part.next)
        changed = {partition: replace(part, first=first, first_at=first_at, dead=dead)}
        control = ledger.save(fd, control, tail, changed)
        control = write_control(ledger.files, fd, control._replace(layout=control.layout + 1))
        ledger.files.sync(fd)
        bounds = Bounds(first, part.next)
        try:
            drop_dead(ledger, fd, control, tail)
        except StorageError as error:
            _log.warning("%s keeps the lines that were removed, for now: %s", ledger.path, error)
        return bounds
