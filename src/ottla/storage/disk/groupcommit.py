"""Group commit: many threads append, one of them writes for all who are waiting.

The first to come leads. It commits at once what has queued up, itself included, in its own thread, because
handing work to another thread costs more than a small sync; then it wakes the others and passes the lead to
the first who queued up meanwhile. Nobody waits for more than the commit under way and its own.
"""

import threading
from collections.abc import Callable, Sequence

from ottla.batch import Batch
from ottla.errors import Uncertain
from ottla.model import Appended

MAX_COMMIT_BYTES = 16 * 2**20


class Request:
    """One call to append, and what became of it."""

    __slots__ = ("_done", "batches", "error", "expected_next", "partition", "results", "size")

    def __init__(self, batches: Sequence[Batch], expected_next: int | None, partition: int) -> None:
        self.batches = batches
        self.expected_next = expected_next
        self.partition = partition
        self.size = sum(batch.size for batch in batches)
        self.results: list[Appended] | None = None
        self.error: BaseException | None = None
        self._done: threading.Lock | None = None

    def queue_up(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self) -> None:
        assert self._done is not None
        self._done.acquire()

    def wake(self) -> None:
        if self._done is not None:
            self._done.release()

    @property
    def finished(self) -> bool:
        return self.results is not None or self.error is not None

    def outcome(self) -> list[Appended]:
        if self.error is not None:
            raise self.error
        assert self.results is not None
        return self.results


class GroupCommit:
    """Queues requests and has *commit* called with as many at once as fit, one call at a time.

    *commit* gives every request a result or an error; if it raises, all of them get that error.
    """

    def __init__(self, commit: Callable[[Sequence[Request]], None]) -> None:
        self._commit = commit
        self.forget()

    def forget(self) -> None:
        """After a fork: the requests of the parent's threads are the parent's."""
        self._mutex = threading.Lock()
        self._queue: list[Request] = []
        self._leader: Request | None = None
        """The request whose thread commits, or was woken to."""

    def append(self, batches: Sequence[Batch], expected_next: int | None, partition: int) -> list[Appended]:
        """Append to *partition*, one of those that share this commit, as `PartitionStore.append` says."""
        request = Request(batches, expected_next, partition)
        try:
            with self._mutex:
                self._queue.append(request)
                if self._leader is None:
                    self._leader = request
                else:
                    request.queue_up()
            if self._leader is not request:
                request.wait()
            if not request.finished:
                self._lead(request)
        except BaseException:  # Ctrl-C may come anywhere: whoever leads next must not be one who has left
            self._leave(request)
            raise
        return request.outcome()

    def _lead(self, own: Request) -> None:
        taken = [own]
        try:
            with self._mutex:
                taken = self._take()
            self._commit(taken)
        except BaseException as error:
            for request in taken:
                if not request.finished:
                    request.error = error if isinstance(error, Exception) else _interrupted(error)
            raise
        finally:
            self._leave(own)
            for request in taken[1:]:
                request.wake()

    def _leave(self, request: Request) -> None:
        """Take back what was not begun, and pass on the lead."""
        with self._mutex:
            if request in self._queue:
                self._queue.remove(request)
            if self._leader is request:
                self._leader = self._queue[0] if self._queue else None
                if self._leader is not None:
                    self._leader.wake()

    def _take(self) -> list[Request]:
        """The first request, which is the leader's own, and those behind it that fit."""
        size = count = 0
        for request in self._queue:
            size += request.size
            if count and size > MAX_COMMIT_BYTES:
                break
            count += 1
        taken, self._queue = self._queue[:count], self._queue[count:]
        return taken


def _interrupted(error: BaseException) -> Exception:
    return Uncertain("a batch", f"the thread that wrote it was interrupted by {type(error).__name__}")
