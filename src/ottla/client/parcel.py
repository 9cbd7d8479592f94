"""Batches of one partition, packed and stamped for one append, and what is known about that append."""

from collections.abc import Sequence

from ottla.batch import Batch, Compression, Stamp
from ottla.client.pending import Pending
from ottla.errors import (
    OttlaError,
    ProducerError,
    ProducerFenced,
    ServerBusy,
    ServerUnavailable,
    StorageError,
    TopicRecreated,
    Uncertain,
    UnknownProducer,
)

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0


class Parcel:
    """What is on its way, and sent again and again with the same stamps while its outcome is not known."""

    __slots__ = ("_pause_s", "batches", "deadline", "pendings", "retry_at", "uncertain")

    def __init__(self, pendings: list[Pending], deadline: float) -> None:
        self.pendings = pendings
        self.batches: list[Batch] = []
        self.deadline = deadline
        self.retry_at = 0.0
        self.uncertain: Uncertain | None = None
        self._pause_s = FIRST_PAUSE_S

    def pack(self, now_ms: int, compression: Compression, stamps: Sequence[Stamp | None]) -> list[Batch]:
        """Pack what is not packed yet; returns just that."""
        new = [
            Batch.pack(pending.columns(now_ms), compression=compression, stamp=stamp)
            for pending, stamp in zip(self.pendings[len(self.batches) :], stamps, strict=True)
        ]
        self.batches += new
        return new

    def settled(self, count: int, deadline: float) -> None:
        """The first so many are stored; those after them have until *deadline*. Called with the lock held."""
        del self.pendings[:count], self.batches[:count]
        self.deadline = deadline

    def postpone(self, now: float, error: BaseException) -> None:
        """Try again after a pause, each longer than the one before, and as long as a busy server asks for."""
        asked_s = error.retry_after_ms / 1000 if isinstance(error, ServerBusy) else 0.0
        self.retry_at = now + max(self._pause_s, asked_s)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)


def is_fatal(error: BaseException) -> bool:
    """Whether nothing that this producer sends will ever be stored again."""
    return isinstance(error, ProducerFenced | TopicRecreated)


def is_open(parcel: Parcel, error: BaseException) -> bool:
    """Whether the parcel may be in the log, now or later, although the append raised *error*."""
    return isinstance(error, Uncertain) or (parcel.uncertain is not None and isinstance(error, StorageError))


def is_passing(error: BaseException) -> bool:
    """Whether the append was refused before anything was written, for a reason that may soon be gone."""
    return isinstance(error, ServerBusy | ServerUnavailable)


def is_forgotten(parcel: Parcel, error: BaseException) -> bool:
    """Whether the log refused the parcel only because it forgot a producer that was quiet for long."""
    return isinstance(error, UnknownProducer) and parcel.uncertain is None


def loses_count(parcel: Parcel, error: BaseException) -> bool:
    """Whether the log may expect another sequence than the parcel's first after it failed with *error*."""
    return parcel.uncertain is not None or isinstance(error, ProducerError) or not isinstance(error, OttlaError)
