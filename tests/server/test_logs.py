"""The server's log: lines for people on a terminal, JSON for everything else, and no payloads."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

import ottla
from ottla.server import Server
from ottla.server.logs import configure_logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Leave the process's logging as it was."""
    root, own = logging.getLogger(), logging.getLogger("ottla")
    handlers, levels = root.handlers[:], (root.level, own.level)
    root.handlers.clear()
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def test_elsewhere_it_is_json_lines() -> None:
    stream = io.StringIO()
    configure_logs("auto", "info", broker=2, stream=stream)
    logging.getLogger("ottla.server").info("listening on %s", "here", extra={"event": "started", "address": "here"})
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "ottla.server",
        "message": "listening on here",
        "broker": 2,
        "event": "started",
        "address": "here",
    }


def test_on_a_terminal_it_is_text() -> None:
    stream = Terminal()
    configure_logs("auto", "info", broker=2, stream=stream)
    logging.getLogger("ottla").warning("no space")
    assert stream.getvalue().rstrip().endswith("warning  broker 2: no space")


@pytest.mark.parametrize(("log_format", "is_json"), [("json", True), ("text", False)])
def test_a_format_that_is_asked_for_is_used_anywhere(log_format: str, is_json: bool) -> None:
    for stream in (Terminal(), io.StringIO()):
        configure_logs(log_format, "info", stream=stream)
        logging.getLogger("ottla").info("hello")
        assert stream.getvalue().startswith("{") == is_json


def test_an_error_has_its_traceback_in_both() -> None:
    for log_format in ("json", "text"):
        stream = io.StringIO()
        configure_logs(log_format, "info", stream=stream)
        logging.getLogger("ottla").error("it failed", exc_info=KeyError("facts"))
        assert "KeyError: 'facts'" in stream.getvalue()
        if log_format == "json":
            assert len(stream.getvalue().splitlines()) == 1


def test_the_level_counts_for_ottla_and_others_only_warn() -> None:
    stream = io.StringIO()
    configure_logs("text", "debug", stream=stream)
    logging.getLogger("ottla.server").debug("ours")
    logging.getLogger("other").info("theirs")
    logging.getLogger("other").warning("their warning")
    assert "ours" in stream.getvalue()
    assert "theirs" not in stream.getvalue()
    assert "their warning" in stream.getvalue()


def test_a_servers_life_is_logged_without_what_it_carries() -> None:
    stream = io.StringIO()
    configure_logs("json", "debug", stream=stream)
    with ottla.open("memory:") as log:
        server = Server(log)
        server.start("127.0.0.1:0")
        log.append("t", [b"a payload"], keys=[b"a key"])
        server.stop()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("event") for line in lines] == ["started", "stopping", "stopped"]
    assert "a payload" not in stream.getvalue()
    assert "a key" not in stream.getvalue()
