"""`ottla verify`, `repair`, `compact`, `doctor`, `bench` and `version`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program


def damage(folder: Path) -> None:
    """Change a byte in the middle of the first segment."""
    segment = min(folder.glob("topics/*/*/0/*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)


@pytest.fixture
def damaged(folder: Path) -> Path:
    with ottla.open(f"file://{folder}") as log:
        for _ in range(3):
            log.append("t", [b"x" * 100] * 10)
    damage(folder)
    return folder


class TestVerify:
    def test_a_whole_log(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.append("t", [b"x"])
        ended = program("verify", str(folder)).done()
        assert (ended.out, ended.err) == (b"", "ottla: every stored message is whole\n")
        assert program("verify", str(folder), "--json").done().json == {"damage": []}

    def test_damage_is_named_and_has_its_own_code(self, program: "Program", damaged: Path) -> None:
        ended = program("verify", str(damaged))
        assert ended.code == 5
        (row,) = ended.table
        assert (row["TOPIC"], row["PARTITION"], row["LOST"]) == ("t", "0", "11-20")
        (found,) = program("verify", str(damaged), "--json").json["damage"]
        assert found["path"].startswith(str(damaged))
        assert found["set_aside"] is None

    @pytest.mark.usefixtures("damaged")
    def test_reading_over_damage_says_so(self, program: "Program") -> None:
        ended = program("consume", "t")
        assert ended.code == 5
        assert "`ottla verify` shows all damage" in ended.err


class TestRepair:
    def test_nothing_to_repair(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.append("t", [b"x"])
        assert "nothing to repair" in program("repair", str(folder)).done().err

    def test_it_asks_first(self, program: "Program", damaged: Path) -> None:
        ended = program("repair", str(damaged))
        assert ended.code == 2
        assert "Set 1 damaged piece aside?" in ended.err
        assert program("verify", str(damaged)).code == 5

    def test_afterwards_all_that_is_whole_can_be_read(self, program: "Program", damaged: Path) -> None:
        (aside,) = program("repair", str(damaged), "--yes", "--json").done().json["damage"]
        assert Path(aside["set_aside"]).exists()
        assert program("verify", str(damaged)).code == 0
        ended = program("consume", "t", "--json").done()
        assert [line["number"] for line in ended.json_lines] == [*range(1, 11), *range(21, 31)]
        assert ended.err == "ottla: messages 11 to 20 of t/0 were removed before they were read\n"


class TestCompact:
    def test_sealed_segments_become_parquet(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.create_topic("t", segment_bytes="64KiB", sync="never")
        for _ in range(20):
            log.append("t", [b"x" * 1000] * 20)
        log.append("u", [b"x"])
        before = program("consume", "t").out
        t, u = program("compact", str(folder), "--json").done().json
        assert (t["topic"], u["topic"], u["segments"]) == ("t", "u", 0)
        assert t["segments"] > 0
        assert t["bytes_after"] < t["bytes_before"]
        assert list(folder.glob("topics/t/*/0/*.parquet"))
        assert program("consume", "t").out == before

    def test_only_the_topics_that_are_named(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        for topic in ("t", "u"):
            log.append(topic, [b"x"])
        assert [row["TOPIC"] for row in program("compact", str(folder), "u").done().table] == ["u"]


class TestDoctor:
    def test_a_healthy_log(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.append("t", [b"x"])
        before = sorted(folder.rglob("*"))
        findings = {found["what"]: found for found in program("doctor", str(folder), "--json").done().json["findings"]}
        assert set(findings) == {"folder", "file system", "space", "sync", "log"}
        assert findings["folder"]["state"] == "good"
        assert findings["log"]["says"].startswith("1 topic with 1 message,")
        assert sorted(folder.rglob("*")) == before

    def test_in_plain_words(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.create_topic("t", sync="never")
        folder.chmod(0o755)
        lines = program("doctor", str(folder)).done().lines
        assert lines[:2] == [f"! folder: others may enter {folder} (mode 055 for them)", f"  chmod go-rwx {folder}"]
        assert "! durability: a power cut can lose messages of t" in lines

    def test_a_folder_that_is_not_there_yet(self, program: "Program", folder: Path) -> None:
        ended = program("doctor", str(folder), "--json")
        assert ended.code == 1
        first, *_, last = ended.json["findings"]
        assert first["says"] == f"{folder} does not exist yet"
        assert (last["what"], last["state"]) == ("log", "bad")
        assert not folder.exists()

    def test_writing_leaves_nothing_behind(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        log.create_topic("t")
        findings = program("doctor", str(folder), "--write", "--json").done().json["findings"]
        assert (findings[-1]["what"], findings[-1]["state"]) == ("write", "good")
        assert [topic.name for topic in log.topics()] == ["t"]

    def test_memory_is_a_log_too(self, program: "Program") -> None:
        program("doctor", "memory:", "--write").done()

    @pytest.mark.usefixtures("log")
    def test_a_folder_of_somebody_else(self, program: "Program", folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        ended = program("doctor", str(folder))
        assert ended.code == 1
        assert ended.lines[0] == f"✗ folder: {folder} cannot be written to by this user"


class TestBench:
    def test_figures_and_no_leftovers(self, program: "Program", log: ottla.Log, folder: Path) -> None:
        options = ["--seconds", "0.05", "--messages", "1000", "--sync", "never"]
        figures = program("bench", str(folder), *options, "--json").done().json
        assert figures["url"] == f"file://{folder}"
        for name in ("produce_per_s", "consume_per_s", "send_p50_ms", "send_p99_ms", "end_to_end_p50_ms"):
            assert figures[name] > 0
        assert log.topics() == []
        assert "messages/s" in program("bench", "memory:", *options).done().out.decode()

    def test_without_a_log_a_temporary_folder(
        self, program: "Program", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        program("bench", "--seconds", "0.05", "--messages", "1000", "--sync", "never", url=None).done()
        assert list(tmp_path.glob("ottla-bench-*")) == []


def test_the_version_of_everything(program: "Program") -> None:
    assert program("version").done().out.decode().startswith(f"ottla {ottla.__version__} (")
    assert program("--version").done().out.decode() == f"ottla {ottla.__version__}\n"
    told = program("version", "--json").done().json
    assert told["ottla"] == ottla.__version__
    assert "pyarrow" in told["packages"]
