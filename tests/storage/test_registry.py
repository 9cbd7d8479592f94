"""From a URL to an engine."""

import sys
from pathlib import Path

import pytest

from ottla.clock import ManualClock
from ottla.errors import InvalidValue, UnknownEngine
from ottla.storage import EngineOptions, open_engine
from ottla.storage.memory import MemoryEngine


def test_the_scheme_names_the_engine() -> None:
    """Schemes are not case-sensitive, as in any URL."""
    assert isinstance(open_engine("memory:"), MemoryEngine)
    assert isinstance(open_engine("Memory:"), MemoryEngine)


def test_an_unknown_scheme_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownEngine) as refused:
        open_engine("ftp://x")
    sentence = str(refused.value)
    assert sentence.startswith(
        "URL 'ftp://x' is not valid: there is no storage engine for 'ftp'; known: memory, file, jsonl, grpc"
    )


@pytest.mark.parametrize("url", ["", "deliveries", "/var/lib/ottla", None, 7, b"memory:", Path("/x")])
def test_what_is_no_url_is_refused_with_an_example(url: object) -> None:
    with pytest.raises(InvalidValue, match=r"write it as memory:, file:///folder, jsonl:///folder or grpc://host:port"):
        open_engine(url)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["memory:?sync", "memory:?a=1&b"])
def test_malformed_options_are_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="name=value"):
        open_engine(url)


class TestEnginesOfOthers:
    """A package registers its engine in the entry point group `ottla.engines`, by URL scheme."""

    @pytest.fixture(autouse=True)
    def installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A distribution as pip would leave it, in a folder of its own."""
        (tmp_path / "ottla_tape.py").write_text(
            "opened = []\ndef open_tape(url, options):\n    opened.append((url, options))\n    return 'an engine'\n"
        )
        info = tmp_path / "ottla_tape-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ottla-tape\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[ottla.engines]\ntape = ottla_tape:open_tape\nmemory = nowhere:at_all\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "ottla_tape", raising=False)

    def test_its_scheme_opens_it(self) -> None:
        """It gets the address, the clock and the options of the URL, as a built-in engine does."""
        clock = ManualClock()
        engine: object = open_engine("tape://drive/7?speed=slow&label=", clock=clock, read_only=True)
        assert engine == "an engine"
        url, options = sys.modules["ottla_tape"].opened.pop()
        assert url == "tape://drive/7"
        assert options == EngineOptions(clock=clock, read_only=True, settings={"speed": "slow", "label": ""})

    def test_it_is_listed_among_the_known(self) -> None:
        with pytest.raises(UnknownEngine, match=r"known: memory, file, jsonl, grpc, (.*, )?tape$"):
            open_engine("ftp://x")

    def test_it_does_not_replace_a_built_in_one(self) -> None:
        """`memory:` stays what it is, whatever is installed."""
        assert isinstance(open_engine("memory:"), MemoryEngine)
