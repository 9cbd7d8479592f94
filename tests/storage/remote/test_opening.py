"""From a URL to a remote engine."""

import subprocess
import sys

import pytest

import ottla
from ottla.errors import InvalidValue, MissingDependency, ReadOnly
from ottla.storage import Served, open_engine


@pytest.mark.parametrize(
    "url",
    [
        "grpc:",
        "grpc://",
        "grpc:9999",
        "grpc://localhost",
        "grpc://localhost:",
        "grpc://:9999",
        "grpc://localhost:port",
        "grpc://localhost:0",
        "grpc://localhost:99999",
        "grpc://localhost:9999/path",
        "grpc://user:secret@localhost:9999",
        "grpc://localhost:9999#part",
        "grpc://one:9999,two",
        "grpc://one:9999,,two:9999",
        "grpc://[::1:9999",
    ],
)
def test_a_bad_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(InvalidValue, match=r"write it as grpc://host:port, as in grpc://127.0.0.1:9999"):
        open_engine(url)


@pytest.mark.parametrize("url", ["grpc://h:1?timeout=0s", "grpc://h:1?timeout=soon", "grpc://h:1?tls=yes"])
def test_a_bad_option_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match=r"timeout"):
        open_engine(url)


@pytest.mark.parametrize(
    ("url", "served_by"),
    [
        ("grpc://127.0.0.1:9999", "127.0.0.1:9999"),
        ("GRPC://Example.com:9999/", "example.com:9999"),
        ("grpc://[::1]:9999?timeout=5s", "[::1]:9999"),
        ("grpc://one:9999,two:9998?timeout=forever", "one:9999, two:9998"),
    ],
)
def test_nothing_is_connected_before_the_first_use(url: str, served_by: str) -> None:
    engine = open_engine(url)
    assert isinstance(engine, Served)
    assert engine.served_by == served_by
    engine.close()


def test_read_only_refuses_without_asking_the_server() -> None:
    with ottla.open("grpc://127.0.0.1:1", read_only=True) as log, pytest.raises(ReadOnly):
        log.engine.store("a", b"b", 0)


def test_without_protobuf_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("ottla.storage.remote.", "ottla.v1", "google.protobuf"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingDependency, match=r"grpc:// needs the package .*: pip install 'ottla\[server\]'"):
        open_engine("grpc://127.0.0.1:9999")


def test_a_client_does_not_load_grpc() -> None:
    """It has no thread, and leaves a fork alone."""
    code = "import sys, ottla; ottla.open('grpc://127.0.0.1:9999').close(); print('grpc' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
