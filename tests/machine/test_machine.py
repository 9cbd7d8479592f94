"""A log of each engine behaves as a plain list does, whatever happens to it."""

from pathlib import Path

from hypothesis import HealthCheck, settings

from ottla.testing import LogMachine

SETTINGS = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))


class MemoryMachine(LogMachine):
    survives_reopen = False

    def url(self, folder: Path) -> str:  # noqa: ARG002  (nothing is stored)
        return "memory:"


class FileMachine(LogMachine):
    def url(self, folder: Path) -> str:
        return f"file://{folder}"


class JsonlMachine(LogMachine):
    def url(self, folder: Path) -> str:
        return f"jsonl://{folder}"


TestMemoryLog = MemoryMachine.TestCase
TestMemoryLog.settings = SETTINGS
TestFileLog = FileMachine.TestCase
TestFileLog.settings = SETTINGS
TestJsonlLog = JsonlMachine.TestCase
TestJsonlLog.settings = SETTINGS
