"""The file engine keeps every promise of the engine contract."""

from pathlib import Path

from ottla.testing import EngineContract


class TestFileEngine(EngineContract):
    def url(self, folder: Path) -> str:
        return f"file://{folder}"
