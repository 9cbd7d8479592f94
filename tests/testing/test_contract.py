"""The contract finds engines that break their promises, each by the test that names the promise."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BROKEN_ENGINES = '''
    """Memory engines that are broken in one way each."""

    import pytest
    from ottla.model import Bounds
    from ottla.storage import EngineOptions
    from ottla.storage.memory import MemoryEngine, MemoryPartition
    from ottla.testing import EngineContract


    class Broken(EngineContract):
        survives_reopen = False
        shared_between_processes = False

        def url(self, folder):
            return "memory:"

        def open(self, url, *, clock, read_only):
            return MemoryEngine(EngineOptions(clock=clock, read_only=read_only))

        @pytest.fixture(autouse=True)
        def broken(self, monkeypatch):
            for name, function in vars(type(self)).items():
                if name.startswith("do_"):
                    monkeypatch.setattr(MemoryPartition, name[3:], function)


    class TestNumbersRestart(Broken):
        def do_trim(self, before, trim=MemoryPartition.trim):
            bounds = trim(self, before)
            if bounds.first == bounds.next:
                self._first = self._next = 1
            return Bounds(self._first, self._next)


    class TestReadsWithoutLimit(Broken):
        def do_read(self, start, max_bytes, read=MemoryPartition.read):
            return read(self, start, 1 << 60)


    class TestForgetsProducers(Broken):
        def do_append(self, batches, *, expected_next=None, append=MemoryPartition.append):
            self._producers = type(self._producers)()
            return append(self, batches, expected_next=expected_next)


    class TestIgnoresExpectations(Broken):
        def do_append(self, batches, *, expected_next=None, append=MemoryPartition.append):
            return append(self, batches)


    class TestHalfOfACall(Broken):
        def do_append(self, batches, *, expected_next=None, append=MemoryPartition.append):
            return [each for batch in batches for each in append(self, [batch], expected_next=expected_next)]


    class TestNeverLooksAgain(Broken):
        def do__check_alive(self):
            """A handle of a deleted topic goes on."""


    class TestFindsTooEarly(Broken):
        def do_find(self, timestamp_ms, find=MemoryPartition.find):
            return min(self._first, find(self, timestamp_ms))


    class TestKeepsEverything(Broken):
        def do_expire(self, **limits):
            return self.bounds()
'''

FOUND_BY = {
    "TestNumbersRestart": "test_m2_numbers_go_on_after_removal",
    "TestReadsWithoutLimit": "test_a_read_keeps_to_its_limit",
    "TestForgetsProducers": "test_a_retry_gets_the_first_numbers",
    "TestIgnoresExpectations": "test_compare_and_append_refused_writes_nothing",
    "TestHalfOfACall": "test_a_call_is_refused_whole",
    "TestNeverLooksAgain": "test_an_old_handle_says_that_its_topic_is_gone",
    "TestFindsTooEarly": "test_find_by_time",
    "TestKeepsEverything": "test_m5_messages_older_than_the_retention_go",
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of all the broken engines, each run against the whole contract."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "test_broken.py").write_text(textwrap.dedent(BROKEN_ENGINES))
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider", "-p", "no:randomly"]
    arguments = ["-k", " or ".join(FOUND_BY.values()), "--rootdir", str(folder), str(folder)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.mark.parametrize("engine", FOUND_BY)
def test_a_broken_engine_is_found(failed: str, engine: str) -> None:
    assert f"::{engine}::{FOUND_BY[engine]}" in failed


def test_an_engine_must_say_its_url(tmp_path: Path) -> None:
    from ottla.testing import EngineContract  # noqa: PLC0415  (pytest would collect it as a test of this module)

    with pytest.raises(NotImplementedError, match=r"override url\(\)"):
        EngineContract().url(tmp_path)
