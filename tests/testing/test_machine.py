"""The state machine finds a log that does not behave like a list."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ottla.storage.memory import MemoryPartition
from ottla.testing import LogMachine


class Machine(LogMachine):
    survives_reopen = False

    def url(self, folder: Path) -> str:  # noqa: ARG002  (nothing is stored)
        return "memory:"


def skip_a_batch(read: Any) -> Any:
    return lambda partition, start, max_bytes: [
        batch for batch in read(partition, start, max_bytes) if batch.first_number != 7
    ]


def find_one_too_far(find: Any) -> Any:
    return lambda partition, timestamp_ms: min(find(partition, timestamp_ms) + 1, partition.bounds().next)


def forget_the_last_retry(append: Any) -> Any:
    def broken(partition: MemoryPartition, batches: Any, **more: Any) -> Any:
        results = append(partition, batches, **more)
        return [result._replace(duplicate=False) for result in results]

    return broken


@pytest.mark.parametrize(
    ("method", "breaking"), [("read", skip_a_batch), ("find", find_one_too_far), ("append", forget_the_last_retry)]
)
def test_a_broken_log_is_found(monkeypatch: pytest.MonkeyPatch, method: str, breaking: Any) -> None:
    monkeypatch.setattr(MemoryPartition, method, breaking(getattr(MemoryPartition, method)))
    quick = settings(
        max_examples=200,
        stateful_step_count=30,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=quick)


def test_a_machine_must_say_its_url(tmp_path: Path) -> None:
    machine = Machine()
    with pytest.raises(NotImplementedError, match=r"override url\(\)"):
        LogMachine.url(machine, tmp_path)
    machine.teardown()
