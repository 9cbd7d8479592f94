"""Writers are killed with SIGKILL, hundreds of times; every acknowledged message is found once, at its number.

`OTTLA_ROUNDS=5000 pytest -m campaign tests/test_crash.py` runs a campaign of that many rounds for each case.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Fault, Report, run_rounds
from ottla.testing.workers import Workers

ENGINES = ["file"]
CAMPAIGN_ROUNDS = int(os.environ.get("OTTLA_ROUNDS", "0"))

WRITING = [
    Fault("pwritev", 5, "kill", "before", on=".log"),
    Fault("pwritev", 7, "half", "after", on=".log"),
    Fault("pwritev", 3, "half", "after", on=".log", keep=88),
    Fault("pwritev", 2, "half", "after", on=".log", keep=1),
    Fault("pwritev", 6, "kill", "after", on=".log"),
    Fault("sync", 4, "kill", "before", on=".log"),
    Fault("sync", 9, "kill", "after", on=".log"),
    Fault("pwritev", 3, "kill", "before", on="control"),
    Fault("pwritev", 8, "half", "after", on="control", keep=50),
    Fault("pwritev", 4, "kill", "after", on="control"),
]
"""Before the write, in the middle of it, between write and sync, between sync and publication, after it."""

ROLLING = [
    Fault("open", 2, "kill", "before", on=".log"),
    Fault("open", 2, "kill", "after", on=".log"),
    Fault("rename", 1, "kill", "before", on=".producers"),
    Fault("rename", 2, "kill", "after", on=".producers"),
    Fault("sync_folder_fd", 1, "kill", "before"),
    Fault("sync_folder_fd", 2, "kill", "after"),
    Fault("sync", 1, "kill", "before", on="control"),
    Fault("sync", 2, "kill", "after", on="control"),
]
"""While a segment is sealed and the next one is made."""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}://{tmp_path / 'log'}"


def assert_sound(report: Report, rounds: int) -> None:
    assert report.anomalies == []
    assert report.failures == []
    assert report.rounds == rounds
    assert report.acknowledged <= report.kept <= report.attempted


def test_one_writer_killed_at_random(url: str, workers: Workers) -> None:
    """200 rounds: nothing acknowledged is lost, moved, doubled or out of order, and a retry is recognised."""
    assert_sound(run_rounds(url, rounds=200, workers=workers), 200)


def test_four_writers_killed_at_random(url: str, workers: Workers) -> None:
    """Four processes on the same partitions, killed one after another while the others go on."""
    assert_sound(run_rounds(url, rounds=60, writers=4, seed=1, workers=workers), 60)


def test_threads_of_two_writers_killed_at_random(url: str, workers: Workers) -> None:
    """Group commit: a kill takes three threads' batches with it, and each of them is whole or absent."""
    assert_sound(run_rounds(url, rounds=40, writers=2, threads=3, seed=2, workers=workers), 40)


def test_unstamped_writers_killed_at_random(url: str, workers: Workers) -> None:
    """Without producer ids what was acknowledged is kept just the same."""
    assert_sound(run_rounds(url, rounds=30, writers=2, mode="plain", seed=3, workers=workers), 30)


def test_producers_killed_at_random(url: str, workers: Workers) -> None:
    """The whole way, through `ottla.open` and a producer."""
    assert_sound(run_rounds(url, rounds=30, writers=2, mode="producer", seed=4, workers=workers), 30)


@pytest.mark.parametrize("writers", [1, 3])
def test_killed_at_every_step_of_a_commit(url: str, workers: Workers, writers: int) -> None:
    """The writer dies exactly there, and the next one, or one beside it, cleans up."""
    rounds = 2 * len(WRITING)
    report = run_rounds(url, rounds=rounds, writers=writers, faults=WRITING, seed=5, workers=workers)
    assert_sound(report, rounds)
    assert report.faults == rounds


@pytest.mark.parametrize("writers", [1, 3])
def test_killed_at_every_step_of_a_roll(url: str, workers: Workers, writers: int) -> None:
    rounds = 2 * len(ROLLING)
    settings = {"segment_bytes": "2KiB"}
    report = run_rounds(url, rounds=rounds, writers=writers, faults=ROLLING, settings=settings, seed=6, workers=workers)
    assert_sound(report, rounds)
    assert report.faults == rounds


def test_skipped_locks_are_found(url: str, workers: Workers) -> None:
    """The rounds can fail: writers whose locks do nothing are found out."""
    report = run_rounds(url, rounds=50, writers=4, sabotage="skip locks", seed=7, workers=workers)
    assert report.anomalies


def test_acknowledging_first_is_found(url: str, workers: Workers) -> None:
    """So is a writer that is told of success before anything is written."""
    report = run_rounds(url, rounds=50, sabotage="acknowledge first", seed=8, workers=workers)
    assert {anomaly.kind for anomaly in report.anomalies} >= {"lost"}


@pytest.mark.campaign
@pytest.mark.skipif(not CAMPAIGN_ROUNDS, reason="set OTTLA_ROUNDS to say how many")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("mode", ["stamped", "plain", "producer"])
def test_campaign(url: str, workers: Workers, writers: int, mode: str) -> None:
    report = run_rounds(
        url,
        rounds=CAMPAIGN_ROUNDS,
        writers=writers,
        mode=mode,  # type: ignore[arg-type]
        faults=[*WRITING, *ROLLING] if mode != "producer" else (),
        seed=CAMPAIGN_ROUNDS,
        workers=workers,
    )
    assert_sound(report, CAMPAIGN_ROUNDS)
