"""What people type, understood: URLs, escapes, durations."""

from pathlib import Path
from urllib.parse import unquote

import pytest

import ottla
from ottla.cli.options import as_url, seconds_of, unescaped
from ottla.errors import InvalidValue


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("file:///data", "file:///data"),
        ("memory:", "memory:"),
        ("jsonl:///data?brokers=2", "jsonl:///data?brokers=2"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("grpc://host:9999", "grpc://host:9999"),
        ("localhost:9999", "grpc://localhost:9999"),
        ("10.0.0.1:1", "grpc://10.0.0.1:1"),
        ("[::1]:9999", "grpc://[::1]:9999"),
        (":9999", "grpc://127.0.0.1:9999"),
        ("/data/log", "file:///data/log"),
        ("/data/a b#c", "file:///data/a%20b%23c"),
    ],
)
def test_urls_and_what_is_none(typed: str, meant: str) -> None:
    assert as_url(typed) == meant


def test_a_folder_is_looked_for_here_and_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    assert unquote(as_url("./data")) == f"file://{tmp_path}/data"
    assert as_url("data") == as_url("./data")
    assert as_url("~/data") == "file:///home/someone/data"


def test_a_folder_is_opened_by_the_engine_that_it_belongs_to(tmp_path: Path) -> None:
    for engine in ("file", "jsonl"):
        ottla.open(f"{engine}://{tmp_path}/{engine}").close()
        assert as_url(str(tmp_path / engine)) == f"{engine}://{tmp_path}/{engine}"
    (tmp_path / "ottla.json").write_text("nonsense")
    assert as_url(str(tmp_path)) == f"file://{tmp_path}"


def test_escapes() -> None:
    assert unescaped(r"a\tb\n\r\0\\n\x") == "a\tb\n\r\0\\n\\x"


def test_seconds() -> None:
    assert seconds_of("1.5", "x") == 1.5
    assert seconds_of("250ms", "x") == 0.25
    assert seconds_of("0", "x") == 0
    assert seconds_of("forever", "x") == float("inf")
    for wrong in ("-1", "nan", "soon", ""):
        with pytest.raises(InvalidValue, match="is not valid"):
            seconds_of(wrong, "--timeout")
