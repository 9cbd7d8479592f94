"""Writers are killed with SIGKILL, hundreds of times; every acknowledged message is found once, at its number.

`OTTLA_ROUNDS=5000 pytest -m campaign tests/test_crash.py` runs a campaign of that many rounds for each case.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ottla.testing import Fault, Report, run_rounds
from ottla.testing.workers import Workers

CAMPAIGN_ROUNDS = int(os.environ.get("OTTLA_ROUNDS", "0"))


def writing(kind: str) -> list[Fault]:
    """Before the write, in the middle of it, between write and sync, between sync and publication, after it."""
    data = {"file": ".log", "jsonl": ".txt"}[kind]
    return [
        Fault("pwritev", 5, "kill", "before", on=data),
        Fault("pwritev", 7, "half", "after", on=data),
        Fault("pwritev", 3, "half", "after", on=data, keep=88),
        Fault("pwritev", 2, "half", "after", on=data, keep=1),
        Fault("pwritev", 6, "kill", "after", on=data),
        Fault("sync", 4, "kill", "before", on=data),
        Fault("sync", 9, "kill", "after", on=data),
        Fault("pwritev", 3, "kill", "before", on="control"),
        Fault("pwritev", 8, "half", "after", on="control", keep=50),
        Fault("pwritev", 4, "kill", "after", on="control"),
    ]


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

REMOVING = [
    Fault("pwritev", 1, "kill", "before", on="control"),
    Fault("pwritev", 1, "kill", "after", on="control"),
    Fault("sync", 2, "kill", "after", on="control"),
    Fault("unlink", 1, "kill", "before", on=".log"),
    Fault("unlink", 2, "kill", "after", on=".log"),
    Fault("unlink", 3, "kill", "after", on=".producers"),
    Fault("rename", 1, "kill", "before", on=".parquet"),
    Fault("rename", 1, "kill", "after", on=".parquet"),
    Fault("sync_folder_fd", 1, "kill", "before"),
]
"""While segments are removed, or compacted into a run."""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers() as workers:
        yield workers


@pytest.fixture(params=["file", "jsonl"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> str:
    return f"{kind}://{tmp_path / 'log'}"


@pytest.fixture
def run(kind: str, url: str, workers: Workers) -> Callable[..., Report]:
    """Rounds on the log; a text log is read slowly, so its topics see fewer of them."""
    return partial(run_rounds, url, workers=workers, rounds_per_topic={"file": 20, "jsonl": 6}[kind])


def assert_sound(report: Report, rounds: int) -> None:
    assert report.anomalies == []
    assert report.failures == []
    assert report.rounds == rounds
    assert report.kept <= report.attempted


def test_one_writer_killed_at_random(kind: str, run: Callable[..., Report]) -> None:
    """Hundreds of rounds: nothing acknowledged is lost, moved, doubled or out of order, and a retry is recognised."""
    rounds = {"file": 200, "jsonl": 40}[kind]
    report = run(rounds=rounds)
    assert_sound(report, rounds)
    assert report.kept >= report.acknowledged


def test_four_writers_killed_at_random(kind: str, run: Callable[..., Report]) -> None:
    """Four processes on the same partitions, killed one after another while the others go on."""
    rounds = {"file": 60, "jsonl": 15}[kind]
    assert_sound(run(rounds=rounds, writers=4, seed=1), rounds)


def test_threads_of_two_writers_killed_at_random(kind: str, run: Callable[..., Report]) -> None:
    """Group commit: a kill takes three threads' batches with it, and each of them is whole or absent."""
    rounds = {"file": 30, "jsonl": 10}[kind]
    assert_sound(run(rounds=rounds, writers=2, threads=3, seed=2), rounds)


def test_unstamped_writers_killed_at_random(run: Callable[..., Report]) -> None:
    """Without producer ids what was acknowledged is kept just the same."""
    assert_sound(run(rounds=15, writers=2, mode="plain", seed=3), 15)


def test_producers_killed_at_random(run: Callable[..., Report]) -> None:
    """The whole way, through `ottla.open` and a producer."""
    assert_sound(run(rounds=15, writers=2, mode="producer", seed=4), 15)


def test_a_janitor_killed_at_random(kind: str, run: Callable[..., Report]) -> None:
    """A process that trims and compacts beside the writers takes away what it said, and nothing else."""
    rounds = {"file": 30, "jsonl": 10}[kind]
    assert_sound(run(rounds=rounds, writers=2, janitor=True, seed=9), rounds)


@pytest.mark.parametrize("writers", [1, 3])
def test_killed_at_every_step_of_a_commit(kind: str, run: Callable[..., Report], writers: int) -> None:
    """The writer dies exactly there, and the next one, or one beside it, cleans up."""
    rounds = len(writing(kind))
    report = run(rounds=rounds, writers=writers, faults=writing(kind), seed=5)
    assert_sound(report, rounds)
    assert report.faults == rounds


@pytest.mark.parametrize("kind", ["file"], indirect=True)
@pytest.mark.parametrize("writers", [1, 3])
def test_killed_at_every_step_of_a_roll(run: Callable[..., Report], writers: int) -> None:
    rounds = len(ROLLING)
    report = run(rounds=rounds, writers=writers, faults=ROLLING, settings={"segment_bytes": "2KiB"}, seed=6)
    assert_sound(report, rounds)
    assert report.faults == rounds


@pytest.mark.parametrize("kind", ["file"], indirect=True)
def test_killed_at_every_step_of_a_removal(run: Callable[..., Report]) -> None:
    """The janitor dies while it publishes, renames and unlinks, and everybody else goes on."""
    rounds = len(REMOVING)
    report = run(rounds=rounds, writers=2, janitor=True, faults=REMOVING, settings={"segment_bytes": "2KiB"}, seed=10)
    assert_sound(report, rounds)
    assert report.faults == rounds


def test_skipped_locks_are_found(run: Callable[..., Report]) -> None:
    """The rounds can fail: writers whose locks do nothing are found out."""
    report = run(rounds=50, writers=4, sabotage="skip locks", seed=7)
    assert report.anomalies


def test_acknowledging_first_is_found(run: Callable[..., Report]) -> None:
    """So is a writer that is told of success before anything is written."""
    report = run(rounds=50, sabotage="acknowledge first", seed=8)
    assert {anomaly.kind for anomaly in report.anomalies} >= {"lost"}


@pytest.mark.campaign
@pytest.mark.timeout(0)
@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("mode", ["stamped", "plain", "producer"])
@pytest.mark.parametrize("janitor", [False, True], ids=["writers", "janitor"])
def test_campaign(run: Callable[..., Report], writers: int, mode: str, janitor: bool) -> None:
    report = run(rounds=CAMPAIGN_ROUNDS, writers=writers, mode=mode, janitor=janitor, seed=CAMPAIGN_ROUNDS)
    assert_sound(report, CAMPAIGN_ROUNDS)


@pytest.mark.campaign
@pytest.mark.timeout(0)
@pytest.mark.parametrize("writers", [1, 4])
def test_campaign_of_chosen_points(kind: str, run: Callable[..., Report], writers: int) -> None:
    faults = writing(kind) + (ROLLING if kind == "file" else [])
    assert_sound(run(rounds=CAMPAIGN_ROUNDS, writers=writers, faults=faults, seed=CAMPAIGN_ROUNDS), CAMPAIGN_ROUNDS)
