"""Processes that start in milliseconds and can be killed."""

import os
import signal
from collections.abc import Iterator

import pytest

from ottla.testing.workers import WorkerFailed, Workers


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


def test_a_worker_returns_what_its_function_returns(workers: Workers) -> None:
    worker = workers.start("ottla.settings:parse_duration", value="2h")
    assert worker.result() == 7_200_000
    assert worker.status() == 0


def test_an_error_comes_back_as_its_traceback(workers: Workers) -> None:
    worker = workers.start("ottla.settings:parse_duration", value="soon")
    with pytest.raises(WorkerFailed, match="duration 'soon' is not valid"):
        worker.result()
    assert worker.status() == 1


def test_a_killed_worker_is_gone_when_kill_returns(workers: Workers) -> None:
    worker = workers.start("time:sleep")  # fails at once, or is killed before it does
    worker.kill()
    assert worker.status() is not None
    worker.kill()


def test_a_worker_that_hangs_is_killed(workers: Workers) -> None:
    worker = workers.start("signal:pause")
    assert worker.status() is None
    with pytest.raises(WorkerFailed, match="did not end within"):
        worker.wait(timeout_s=0.05)
    assert worker.wait() == -signal.SIGKILL


def test_leaving_the_block_ends_everything() -> None:
    with Workers() as workers:
        worker = workers.start("signal:pause")
        assert worker.status() is None
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)
