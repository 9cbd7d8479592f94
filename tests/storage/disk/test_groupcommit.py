"""Group commit: one thread writes for all who wait, and nobody is left waiting, whatever happens to whom."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from ottla.errors import OttlaError, StorageFailed, Uncertain
from ottla.model import Appended
from ottla.storage.disk import groupcommit
from ottla.storage.disk.groupcommit import GroupCommit, Request
from ottla.testing.samples import batch_of

WAIT_S = 20


class Commits:
    """Commits that take as long as the test likes."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.next = 1
        self.error: BaseException | None = None

    def __call__(self, requests: Sequence[Request]) -> None:
        self.groups.append(len(requests))
        self.entered.release()
        assert self.go_on.acquire(timeout=WAIT_S)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        for request in requests:
            request.results = [Appended(self.next, 1)]
            self.next += 1


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def append(group: GroupCommit, results: list[object]) -> None:
    try:
        results.append(group.append([batch_of(b"x")], None, 0)[0].first)
    except BaseException as error:  # noqa: BLE001  (the test looks at it)
        results.append(error)


def queue_up(group: GroupCommit, count: int, results: list[object]) -> list[threading.Thread]:
    before = len(group._queue)
    threads = [started(lambda: append(group, results)) for _ in range(count)]
    deadline = time.monotonic() + WAIT_S
    while len(group._queue) < before + count:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return threads


def test_those_who_wait_are_written_together() -> None:
    commits = Commits()
    group, results = GroupCommit(commits), []  # type: GroupCommit, list[object]
    first = started(lambda: append(group, results))
    assert commits.entered.acquire(timeout=WAIT_S)
    others = queue_up(group, 5, results)
    commits.go_on.release(2)
    for thread in (first, *others):
        thread.join(WAIT_S)
    assert commits.groups == [1, 5]
    assert sorted(map(str, results)) == ["1", "2", "3", "4", "5", "6"]


def test_no_more_at_once_than_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groupcommit, "MAX_COMMIT_BYTES", 2 * batch_of(b"x").size)
    commits = Commits()
    group, results = GroupCommit(commits), []  # type: GroupCommit, list[object]
    first = started(lambda: append(group, results))
    assert commits.entered.acquire(timeout=WAIT_S)
    others = queue_up(group, 5, results)
    commits.go_on.release(10)
    for thread in (first, *others):
        thread.join(WAIT_S)
    assert commits.groups == [1, 2, 2, 1]


def test_a_failure_reaches_everybody_it_concerns() -> None:
    commits = Commits()
    group, results = GroupCommit(commits), []  # type: GroupCommit, list[object]
    first = started(lambda: append(group, results))
    assert commits.entered.acquire(timeout=WAIT_S)
    others = queue_up(group, 3, results)
    commits.go_on.release()
    assert commits.entered.acquire(timeout=WAIT_S)
    commits.error = StorageFailed("disk", "broken")
    commits.go_on.release(2)
    for thread in (first, *others):
        thread.join(WAIT_S)
    assert sorted(type(result).__name__ for result in results) == ["StorageFailed"] * 3 + ["int"]
    commits.go_on.release()
    assert group.append([batch_of(b"x")], None, 0)[0].first == 2


def test_an_interrupted_leader_leaves_the_others_uncertain_and_the_lead_to_the_next() -> None:
    """Ctrl-C in the middle of a commit: nobody knows what was stored, and nobody waits for ever."""
    commits = Commits()
    group, results = GroupCommit(commits), []  # type: GroupCommit, list[object]
    first = started(lambda: append(group, results))
    assert commits.entered.acquire(timeout=WAIT_S)
    others = queue_up(group, 3, results)
    commits.go_on.release()
    assert commits.entered.acquire(timeout=WAIT_S)
    late = queue_up(group, 2, results)
    commits.error = KeyboardInterrupt()
    commits.go_on.release(2)
    for thread in (first, *others, *late):
        thread.join(WAIT_S)
    kinds = sorted(type(result).__name__ for result in results)
    assert kinds == ["KeyboardInterrupt", "Uncertain", "Uncertain", "int", "int", "int"]


@pytest.mark.parametrize("where", ["queue_up", "wait"])
def test_an_interrupted_follower_is_not_missed(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Whoever was to lead next must not be one who has left."""
    commits = Commits()
    group, results = GroupCommit(commits), []  # type: GroupCommit, list[object]
    first = started(lambda: append(group, results))
    assert commits.entered.acquire(timeout=WAIT_S)

    def interrupt(_: Request) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Request, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            group.append([batch_of(b"x")], None, 0)
    others = queue_up(group, 2, results)
    commits.go_on.release(3)
    for thread in (first, *others):
        thread.join(WAIT_S)
    assert sorted(map(str, results)) == ["1", "2", "3"]
    assert commits.groups == [1, 2]


def test_a_leader_interrupted_before_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lead is passed on even if the one who has it never came to use it."""
    commits = Commits()
    group = GroupCommit(commits)

    def interrupt(_: Request) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(group, "_lead", interrupt)
        with pytest.raises(KeyboardInterrupt):
            group.append([batch_of(b"x")], None, 0)
    commits.go_on.release()
    assert group.append([batch_of(b"x")], None, 0)[0].first == 1
    assert commits.groups == [1]


def test_interrupted_commits_are_uncertain_for_those_who_wait() -> None:
    assert isinstance(groupcommit._interrupted(KeyboardInterrupt()), Uncertain)
    assert issubclass(Uncertain, OttlaError)
