"""What a partition remembers of its producers, so that a retry is recognised. Shared by all engines.

A producer is an id of 16 bytes with an epoch; its batches in one partition are counted by sequences from
0. The rules, for a batch with sequence *s* where the last stored is *l*:

- unknown producer: *s* must be 0, else `UnknownProducer`; never a silent accept
- a lower epoch than the stored one: `ProducerFenced`; a higher one starts again at 0
- *s* = *l* + 1: new; *s* > *l* + 1: `OutOfSequence`, unless the batch says its sequences may skip
- *s* ≤ *l*: a duplicate; its first numbers if it is among the last 8, else `DuplicateSequence`

The table is part of the partition's durable state. It is not thread-safe: its owner holds a lock.
Stored form, little-endian, followed by CRC-32C of all before it:

    uint32 number of producers, then for each, the least recently used first:
        16 bytes id, uint32 epoch, int64 last append time in ms, uint32 number of remembered batches,
        then for each, oldest first: uint64 sequence, uint64 first number, uint32 count
"""

import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c

from ottla.batch import Batch, Header
from ottla.batch.header import SPARSE_SEQUENCE
from ottla.errors import (
    CorruptBatch,
    DuplicateSequence,
    OutOfSequence,
    ProducerFenced,
    UnexpectedNext,
    UnknownProducer,
)
from ottla.model import Appended

REMEMBERED_BATCHES = 8
MAX_PRODUCERS = 4096
"""The least recently used are forgotten first; a forgotten one that goes on gets `UnknownProducer`."""

_COUNT = struct.Struct("<I")
_PRODUCER = struct.Struct("<16sIqI")
_BATCH = struct.Struct("<QQI")


class _Known(NamedTuple):
    """What is remembered of one producer."""

    epoch: int
    append_ms: int
    batches: tuple[tuple[int, int, int], ...]
    """(sequence, first number, count) of the last batches, oldest first; never empty."""

    @property
    def last(self) -> int:
        return self.batches[-1][0]


class Producers:
    """The producers of one partition: what is in the log, and nothing that is not."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, producer_id: bytes) -> bool:
        return producer_id in self._known

    def get(self, producer_id: bytes) -> _Known | None:
        return self._known.get(producer_id)

    def note(self, header: Header) -> None:
        """Remember a numbered batch that is in the log now."""
        if header.has_producer:
            self._known[header.producer_id] = _advanced(self._known.get(header.producer_id), header)
            self._known.move_to_end(header.producer_id)
            if len(self._known) > MAX_PRODUCERS:
                self._known.popitem(last=False)

    def encode(self) -> bytes:
        """The stored form, drawn in this module's docstring."""
        parts = [_COUNT.pack(len(self._known))]
        for producer_id, known in self._known.items():
            parts.append(_PRODUCER.pack(producer_id, known.epoch, known.append_ms, len(known.batches)))
            parts += (_BATCH.pack(*batch) for batch in known.batches)
        data = b"".join(parts)
        return data + _COUNT.pack(google_crc32c.value(data))

    @classmethod
    def decode(cls, stored: bytes) -> "Producers":
        data = stored[:-4]
        if len(stored) < 2 * _COUNT.size or _COUNT.unpack(stored[-4:])[0] != google_crc32c.value(data):
            raise CorruptBatch("the checksum of the producers' table does not match")
        table = cls()
        count, at = _COUNT.unpack_from(data)[0], _COUNT.size
        while len(table) < count:
            producer_id, known, at = _decode_known(data, at)
            if producer_id in table:
                raise CorruptBatch("a producer is twice in the producers' table")
            table._known[producer_id] = known
        if at != len(data):
            raise CorruptBatch(f"{len(data) - at} bytes too many in the producers' table")
        return table


def _decode_known(data: bytes, at: int) -> tuple[bytes, _Known, int]:
    """One producer, and where the next one starts."""
    batches_at = at + _PRODUCER.size
    if batches_at > len(data):
        raise CorruptBatch("the producers' table ends early")
    producer_id, epoch, append_ms, remembered = _PRODUCER.unpack_from(data, at)
    end = batches_at + remembered * _BATCH.size
    if not 1 <= remembered <= REMEMBERED_BATCHES or end > len(data):
        raise CorruptBatch(f"{remembered} batches of a producer cannot be remembered here")
    return producer_id, _Known(epoch, append_ms, tuple(_BATCH.iter_unpack(data[batches_at:end]))), end


class Admission:
    """The decisions of one commit, which may serve several calls, before anything is written.

    A call is admitted whole or refused whole. Batches are judged against the table and against those
    admitted earlier, so the same batch twice in one commit is stored once. The table changes only when
    `settle` says that the batches are in the log.
    """

    def __init__(self, producers: Producers, next_number: int, append_ms: int) -> None:
        self._producers = producers
        self._admitted: dict[bytes, _Known] = {}
        self._append_ms = append_ms
        self.next_number = next_number
        self.batches: list[Batch] = []
        """The new batches, numbered, in the order in which they are to be stored."""

    def admit(self, batches: Sequence[Batch], expected_next: int | None, name: tuple[str, int]) -> list[Appended]:
        """The numbers of each batch of one call to append to partition *name*, or the error that refuses it.

        *expected_next* is compared only if something new is to be stored: a retry of what was stored by
        then is a duplicate and gets its first numbers.
        """
        number = self.next_number
        producers: dict[bytes, _Known] = {}
        results: list[Appended] = []
        new: list[Batch] = []
        for batch in batches:
            producer_id = batch.header.producer_id
            known = producers.get(producer_id) or self._admitted.get(producer_id) or self._producers.get(producer_id)
            appended = judge(known, batch.header)
            if appended is None:
                numbered = batch.numbered(number, self._append_ms)
                if batch.header.has_producer:
                    producers[producer_id] = _advanced(known, numbered.header)
                new.append(numbered)
                appended = Appended(number, batch.count)
                number += batch.count
            results.append(appended)
        if new and expected_next is not None and expected_next != self.next_number:
            raise UnexpectedNext(*name, expected_next, self.next_number)
        self._admitted.update(producers)
        self.batches += new
        self.next_number = number
        return results

    def settle(self) -> None:
        """The batches are in the log now."""
        for batch in self.batches:
            self._producers.note(batch.header)


def judge(known: _Known | None, header: Header) -> Appended | None:
    """The numbers that the batch has already, `None` if it is new, or the error that refuses it."""
    if not header.has_producer:
        return None
    name, sequence = header.producer_id.hex(), header.sequence
    sparse = bool(header.flags & SPARSE_SEQUENCE)
    if known is not None and header.producer_epoch < known.epoch:
        raise ProducerFenced(name, header.producer_epoch, known.epoch)
    if known is None or header.producer_epoch > known.epoch:
        if sequence and not sparse:
            raise UnknownProducer(name, sequence) if known is None else OutOfSequence(name, sequence, 0)
        return None
    if sequence <= known.last:
        return _remembered(known, header)
    if sequence > known.last + 1 and not sparse:
        raise OutOfSequence(name, sequence, known.last + 1)
    return None


def _advanced(known: _Known | None, header: Header) -> _Known:
    batch = (header.sequence, header.first_number, header.count)
    if known is None or header.producer_epoch > known.epoch:
        return _Known(header.producer_epoch, header.append_ms, (batch,))
    return _Known(known.epoch, header.append_ms, (*known.batches, batch)[-REMEMBERED_BATCHES:])


def _remembered(known: _Known, header: Header) -> Appended:
    for sequence, first, count in known.batches:
        if sequence == header.sequence:
            return Appended(first, count, duplicate=True)
    raise DuplicateSequence(header.producer_id.hex(), header.sequence, known.last)
