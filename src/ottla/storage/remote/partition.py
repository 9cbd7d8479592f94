"""One partition of a remote log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.batch import Batch
from ottla.errors import MessageTooLarge
from ottla.model import Appended, Bounds, Topic
from ottla.storage.remote.reading import Reading
from ottla.storage.remote.uploads import Started, Uploads
from ottla.v1 import log_pb2 as pb

if TYPE_CHECKING:
    from ottla.storage.remote.engine import RemoteEngine

MOST_REQUEST_BYTES: Final = 16 * 2**20
"""Of batches in one request, unless a single batch is larger: a server takes 32 MiB unless it is told otherwise."""


class RemotePartition:
    """Every method is a call to the server; appends share one stream."""

    def __init__(self, engine: "RemoteEngine", topic: Topic, index: int) -> None:
        self._engine = engine
        self.names: dict[str, Any] = {"topic": topic.name, "topic_id": topic.id, "partition": index}
        self.index = index
        self._uploads = Uploads(engine.calls, topic.name, topic.id, index)
        self._reading = Reading(engine.calls, self.names, index)

    def append(self, batches: Sequence[Batch], *, expected_next: int | None = None) -> list[Appended]:
        """As the contract says, for up to 16 MiB of batches or a single larger one.

        More is stored piece by piece: when it fails, those before the piece that failed are in the log.
        """
        self._engine.check_writable("append")
        pieces = list(_pieces(batches))
        if expected_next is not None and len(pieces) > 1:
            size = sum(batch.size for batch in batches)
            raise MessageTooLarge(
                "an append with expected_next", size, MOST_REQUEST_BYTES, "nothing: it is one request"
            )
        appended: list[Appended] = []
        for piece in pieces:
            appended += self._uploads.append(piece, expected_next)
        return appended

    def start(self, batches: Sequence[Batch]) -> Started:
        """Send an append in one request; `finish` of what is returned waits for its numbers."""
        self._engine.check_writable("append")
        return self._uploads.start(batches)

    def read(self, start: int, max_bytes: int) -> list[Batch]:
        return self.fetch(start, max_bytes)[0]

    def fetch(self, start: int, max_bytes: int) -> tuple[list[Batch], Bounds]:
        """What `read` gives, and the bounds of that moment."""
        self._engine.check_open()
        return self._reading.read(start, max_bytes)

    def bounds(self) -> Bounds:
        answer = self._engine.call("GetBounds", pb.GetBoundsRequest(**self.names), pb.Bounds, partition=self.index)
        return Bounds(answer.first, answer.next)

    def find(self, timestamp_ms: int) -> int:
        request = pb.FindByTimeRequest(**self.names, timestamp_ms=timestamp_ms)
        return self._engine.call("FindByTime", request, pb.FindByTimeResponse, partition=self.index).number

    def size(self) -> int:
        request = pb.GetSizeRequest(**self.names)
        return self._engine.call("GetSize", request, pb.GetSizeResponse, partition=self.index).bytes

    def trim(self, before: int) -> Bounds:
        self._engine.check_writable("trim")
        request = pb.TrimRequest(**self.names, before=max(before, 0))
        return self._removed(self._engine.call("Trim", request, pb.Bounds, partition=self.index))

    def expire(self, *, older_than_ms: int | None = None, max_bytes: int | None = None) -> Bounds:
        self._engine.check_writable("expire messages")
        request = pb.ExpireRequest(**self.names, older_than_ms=older_than_ms, max_bytes=max_bytes)
        return self._removed(self._engine.call("Expire", request, pb.Bounds, partition=self.index))

    def wait(self, number: int, seconds: float) -> bool:
        """Wait for a message at or above *number*."""
        return self._reading.wait(number, seconds)

    def _removed(self, answer: pb.Bounds) -> Bounds:
        self.forget_read()
        return Bounds(answer.first, answer.next)

    def forget_read(self) -> None:
        """What was read ahead may be gone."""
        self._reading.drop()

    def close(self) -> None:
        self._uploads.close()
        self._reading.drop()


def _pieces(batches: Sequence[Batch]) -> list[list[Batch]]:
    """The batches by request."""
    pieces: list[list[Batch]] = []
    room = 0
    for batch in batches:
        if not pieces or batch.size > room:
            pieces.append([])
            room = MOST_REQUEST_BYTES
        pieces[-1].append(batch)
        room -= batch.size
    return pieces
