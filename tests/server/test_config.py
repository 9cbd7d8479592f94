"""M10: what a server is told, by whom, and the sentence for every wrong value."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import InvalidValue
from ottla.server.config import SETTINGS, Findings, find_settings
from ottla.server.config_values import shown_url


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `ottla.toml` of the machine that runs the tests counts."""
    monkeypatch.chdir(tmp_path)


def find(
    flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None, config: str | None = None
) -> Findings:
    return find_settings(flags or {}, environment or {}, config=config)


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


class TestSources:
    def test_without_a_word_there_are_defaults_and_memory(self) -> None:
        found = find()
        assert {row.source for row in found.rows} == {"default"}
        settings = found.settings()
        assert settings.url == "memory:"
        assert settings.grpc == "127.0.0.1:9999"
        assert settings.retention == "forever"
        assert settings.brokers == 1

    def test_memory_that_nobody_asked_for_is_pointed_out(self) -> None:
        (notice,) = find().notices()
        assert "nothing survives a restart" in notice
        assert not find({"url": "memory:"}).notices()

    def test_flags_are_stronger_than_the_environment_and_that_than_the_file(self, tmp_path: Path) -> None:
        path = write(tmp_path / "my.toml", '[serve]\ngrpc = "127.0.0.1:1"\nretention = "1h"\nbrokers = 4\n')
        environment = {"OTTLA_GRPC": "127.0.0.1:2", "OTTLA_RETENTION": "2h"}
        found = find({"grpc": "127.0.0.1:3"}, environment, path)
        assert (found["grpc"].value, found["grpc"].source) == ("127.0.0.1:3", "--grpc")
        assert (found["retention"].value, found["retention"].source) == ("2h", "OTTLA_RETENTION")
        assert (found["brokers"].value, found["brokers"].source) == (4, f"brokers in {path}")

    def test_the_seeds_variables_count_and_ours_are_stronger(self) -> None:
        """M10: address, retention and root directory."""
        seeds = {"MINIKAFKA_HOST": ":9998", "MINIKAFKA_RETENTIONTIME": "10s", "MINIKAFKA_ROOT_DIR": "/srv/log"}
        settings = find(environment=seeds).settings()
        assert (settings.grpc, settings.retention, settings.url) == (":9998", "10s", "file:///srv/log")
        found = find(environment=seeds | {"OTTLA_GRPC": "127.0.0.1:5"})
        assert (found["grpc"].value, found["grpc"].source) == ("127.0.0.1:5", "OTTLA_GRPC")

    def test_an_empty_variable_says_nothing(self) -> None:
        assert find(environment={"OTTLA_GRPC": "", "MINIKAFKA_ROOT_DIR": ""})["grpc"].source == "default"

    def test_the_first_file_that_is_there_counts(self, tmp_path: Path) -> None:
        home = {"HOME": str(tmp_path / "home")}
        write(tmp_path / "home/.config/ottla/ottla.toml", '[serve]\nretention = "1h"\n')
        assert find(environment=home)["retention"].value == "1h"
        write(tmp_path / "ottla.toml", '[serve]\nretention = "2h"\n')
        assert find(environment=home)["retention"].value == "2h"
        named = write(tmp_path / "named.toml", '[serve]\nretention = "3h"\n')
        assert find(environment=home | {"OTTLA_CONFIG": named})["retention"].value == "3h"
        flag = write(tmp_path / "flag.toml", '[serve]\nretention = "4h"\n')
        assert find(environment=home | {"OTTLA_CONFIG": named}, config=flag)["retention"].value == "4h"

    def test_a_file_may_write_names_with_dashes_and_have_other_tables(self, tmp_path: Path) -> None:
        write(tmp_path / "ottla.toml", '[serve]\nmax-in-flight = "1MiB"\ninsecure = true\n[other]\nx = 1\n')
        settings = find().settings()
        assert settings.max_in_flight == 2**20
        assert settings.insecure

    def test_without_files_none_is_looked_at(self, tmp_path: Path) -> None:
        write(tmp_path / "ottla.toml", "this is not TOML")
        assert find_settings({}, {}, files=False)["grpc"].source == "default"

    @pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
    def test_every_setting_can_be_a_variable_and_a_line_of_the_file(self, setting: Any, tmp_path: Path) -> None:
        value = {"metrics": "127.0.0.1:9400", "advertise": "log.example.org"}.get(setting.name, setting.default)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert find(environment={setting.variable: text})[setting.name].source == setting.variable
        stored = text if isinstance(value, bool | int) else f'"{value}"'
        write(tmp_path / "ottla.toml", f"[serve]\n{setting.name} = {stored}\n")
        found = find()[setting.name]
        assert found.problem is None
        assert "ottla.toml" in found.source


class TestWords:
    @pytest.mark.parametrize(
        ("words", "meaning"),
        [
            ("500ms", "500ms"),
            ("10s", "10s"),
            ("1h0m0s", "1h"),
            ("1m30s", "90s"),
            ("1.5h", "90m"),
            ("1500us", "2ms"),
            ("7d", "7d"),
            ("forever", "forever"),
        ],
    )
    def test_durations_are_ours_or_gos(self, words: str, meaning: str) -> None:
        assert find(environment={"MINIKAFKA_RETENTIONTIME": words}).settings().retention == meaning

    @pytest.mark.parametrize(
        ("words", "url"), [("/data", "file:///data"), ("/a b", "file:///a%20b"), ("jsonl:///data", "jsonl:///data")]
    )
    def test_a_bare_path_is_a_folder(self, words: str, url: str) -> None:
        assert find({"url": words}).settings().url == url

    def test_a_relative_path_is_below_the_current_folder(self, tmp_path: Path) -> None:
        assert find({"url": "data"}).settings().url == f"file://{tmp_path}/data"

    def test_an_address_without_a_host_is_pointed_out(self) -> None:
        found = find({"url": "/data", "grpc": ":9999"})
        (notice,) = found.notices()
        assert notice == "--grpc :9999 names no host: only this machine can connect (127.0.0.1)"
        assert found.settings().grpc == ":9999"

    @pytest.mark.parametrize("word", ["1", "true", "Yes", "on"])
    def test_a_switch_may_be_words(self, word: str) -> None:
        assert find(environment={"OTTLA_INSECURE": word}).settings().insecure


WRONG = [
    ({"url": "grpc://other:9999"}, {}, "URL", "memory:, file:///data"),
    ({"url": "ftp://x/y"}, {}, "URL", "known: memory, file, jsonl"),
    ({"url": "memory:?x=1"}, {}, "URL", "has none"),
    ({"grpc": "9999"}, {}, "--grpc", "127.0.0.1:9999"),
    ({"grpc": "localhost:http"}, {}, "--grpc", "127.0.0.1:9999"),
    ({"grpc": "127.0.0.1:99999"}, {}, "--grpc", "127.0.0.1:9999"),
    ({"grpc": "0.0.0.0:9999"}, {}, "--grpc", "--insecure"),
    ({"metrics": "0.0.0.0:9400"}, {}, "--metrics", "--insecure"),
    ({}, {"MINIKAFKA_HOST": "nonsense"}, "MINIKAFKA_HOST", "127.0.0.1:9999"),
    ({}, {"MINIKAFKA_RETENTIONTIME": "ten seconds"}, "MINIKAFKA_RETENTIONTIME", "10s"),
    ({}, {"OTTLA_RETENTION": "10"}, "OTTLA_RETENTION", "10s"),
    ({}, {"OTTLA_RETENTION": "0s"}, "OTTLA_RETENTION", "10s"),
    ({}, {"OTTLA_BROKERS": "many"}, "OTTLA_BROKERS", "as in 3"),
    ({"url": "/data", "brokers": 0}, {}, "--brokers", "as in 3"),
    ({"url": "/data", "brokers": 1000}, {}, "--brokers", "as in 3"),
    ({"brokers": 2}, {}, "--brokers", "ottla serve /data --brokers 3"),
    ({"max_in_flight": "lots"}, {}, "--max-in-flight", "64KiB"),
    ({"max_in_flight": "unlimited"}, {}, "--max-in-flight", "64MiB"),
    ({"max_streams": 0}, {}, "--max-streams", "as in 512"),
    ({"log_format": "xml"}, {}, "--log-format", "auto, text, json"),
    ({"log_level": "loud"}, {}, "--log-level", "debug"),
    ({"advertise": "host:1"}, {}, "--advertise", "log.example.org"),
    ({}, {"OTTLA_INSECURE": "perhaps"}, "OTTLA_INSECURE", "true or false"),
]


class TestWrongValues:
    @pytest.mark.parametrize(("flags", "environment", "source", "example"), WRONG)
    def test_the_sentence_names_the_source_and_shows_an_example(
        self, flags: dict[str, Any], environment: dict[str, str], source: str, example: str
    ) -> None:
        """M10: a wrong value is fatal and the message shows an example."""
        with pytest.raises(InvalidValue) as caught:
            find(flags, environment).settings()
        sentence = str(caught.value)
        assert sentence.startswith(source)
        assert example in sentence
        assert "\n" not in sentence

    def test_all_problems_are_found_at_once(self) -> None:
        assert len(find({"grpc": "1", "retention": "x"}, {"OTTLA_BROKERS": "?"}).problems()) == 3

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("[serve]\ncolour = 1\n", "grpc"),
            ('grpc = "127.0.0.1:1"\n', "[serve]"),
            ("[serve\n", "not TOML"),
            ("[serve]\nretention = 10\n", "10s"),
            ("[serve]\nbrokers = 1.5\n", "as in 3"),
            ("[serve]\nurl = 7\n", "file:///data"),
        ],
    )
    def test_a_wrong_file_is_refused(self, tmp_path: Path, text: str, words: str) -> None:
        write(tmp_path / "ottla.toml", text)
        with pytest.raises(InvalidValue, match=r"ottla\.toml") as caught:
            find().settings()
        assert words in str(caught.value)

    def test_a_file_that_is_named_must_be_there(self) -> None:
        with pytest.raises(InvalidValue, match=r"--config 'missing\.toml' .* cannot be read"):
            find(config="missing.toml")

    def test_a_store_that_is_not_there_yet_is_no_problem(self, tmp_path: Path) -> None:
        assert not find({"url": str(tmp_path / "new")}).problems()
        assert not (tmp_path / "new").exists()


class TestSecrets:
    def test_credentials_are_in_no_repr_and_no_sentence(self) -> None:
        found = find({"url": "s3://key:secret@bucket/p?token=hidden&brokers=2"})
        (problem,) = found.problems()
        for text in (str(problem), str(found["url"].shown)):
            assert "secret" not in text
            assert "hidden" not in text
        settings = find({"url": "/data"}).settings()
        assert "/data" not in repr(settings)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("memory:", "memory:"),
            ("file:///data", "file:///data"),
            ("jsonl:///data?brokers=3", "jsonl:///data?brokers=3"),
            ("s3://k:s@bucket/p?token=x", "s3://bucket/p?token=…"),
        ],
    )
    def test_a_url_is_shown_without_them(self, url: str, shown: str) -> None:
        assert shown_url(url) == shown
