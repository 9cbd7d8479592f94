"""The real program, as a person at a terminal or a script meets it."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla

if TYPE_CHECKING:
    from tests.cli.conftest import Program

Started = Callable[..., subprocess.Popen[bytes]]

PROGRAM = [sys.executable, "-m", "ottla"]
PATIENCE_S = 60.0


def test_what_is_produced_is_consumed(process: "Program") -> None:
    sent = process("produce", "deliveries", stdin=b"truck 1021 on time\ntruck 7 late\n").done()
    assert sent.err == "ottla: sent 2 messages (deliveries is at 3)\n"
    assert sent.out == b""
    assert process("consume", "deliveries").done().out == b"truck 1021 on time\ntruck 7 late\n"


def test_lines_are_sent_as_they_come_and_followed_as_they_come(started: Started, log: ottla.Log) -> None:
    """Neither end waits for the other's end of file."""
    log.create_topic("t")
    consumer = started("consume", "t", "--follow")
    producer = started("produce", "t")
    assert producer.stdin is not None
    assert consumer.stdout is not None
    for line in (b"first\n", b"second\n"):
        producer.stdin.write(line)
        producer.stdin.flush()
        assert consumer.stdout.readline() == line


def test_ctrl_c_is_clean_while_following(started: Started, log: ottla.Log) -> None:
    log.append("t", [b"one"])
    consumer = started("consume", "t", "--follow", "--group", "g")
    assert consumer.stdout is not None
    assert consumer.stdout.readline() == b"one\n"
    consumer.send_signal(signal.SIGINT)
    _, errors = consumer.communicate(timeout=PATIENCE_S)
    assert consumer.returncode == 130
    assert errors == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_producer_that_is_stopped_has_sent_what_it_took(
    started: Started, log: ottla.Log, number: signal.Signals, code: int
) -> None:
    producer = started("produce", "t")
    assert producer.stdin is not None
    producer.stdin.write(b"one\ntwo\nthr")
    producer.stdin.flush()
    log.create_topic("t", exist_ok=True)
    consumer = log.consumer("t")
    seen = 0
    while seen < 2:
        seen += len(consumer.poll(PATIENCE_S)[0])
    producer.send_signal(number)
    _, errors = producer.communicate(timeout=PATIENCE_S)
    assert producer.returncode == code
    assert errors == b"ottla: sent 2 messages (t is at 3)\n"
    assert log.read("t").values() == [b"one", b"two"]


def test_a_closed_pipe_is_silent(log: ottla.Log, folder: Path) -> None:
    log.append("t", [b"x" * 1000] * 10_000)
    command = f"{sys.executable} -m ottla consume t -u {folder} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=PATIENCE_S, check=True)
    assert done.stderr == b""
    assert done.stdout.splitlines() == [b"x" * 1000, b"141"]


def test_a_table_on_a_terminal_and_tabs_in_a_pipe(process: "Program", log: ottla.Log, folder: Path) -> None:
    log.append("t", [b"x"] * 1234)
    assert process("topics", "list").done().lines[1].startswith("t\t1\t1234\t")
    seen = _on_a_terminal("topics", "list", "-u", str(folder))
    assert "1,234" in seen
    assert "\t" not in seen


def test_a_terminal_is_asked_before_something_is_deleted(log: ottla.Log, folder: Path) -> None:
    log.append("t", [b"x"])
    seen = _on_a_terminal("topics", "delete", "t", "-u", str(folder), typed=b"n\n")
    assert "Delete topic 't' with 1 message? [y/N]" in seen
    assert "nothing was changed" in seen
    assert log.bounds("t").next == 2
    _on_a_terminal("topics", "delete", "t", "-u", str(folder), typed=b"y\n")
    assert log.topics() == []


def test_no_colour_where_none_is_wanted(log: ottla.Log, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    log.create_topic("t")
    assert "\x1b[3" not in _on_a_terminal("doctor", str(folder))


def test_without_its_packages_the_program_says_what_to_install(process: "Program", tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Nothing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.modules['typer'] = None\n"
    )
    done = process("topics", "list", PYTHONPATH=str(tmp_path))
    assert done.code == 1
    assert done.err == "ottla: the command line needs the package 'typer': pip install 'ottla[cli]'\n"


def test_help_loads_no_grpc_and_no_pandas(tmp_path: Path) -> None:
    """So that it is there at once."""
    program = (
        "import sys\nfrom ottla.cli.app import run\nrun(['topics', '--help'])\n"
        "heavy = {'grpc', 'pandas', 'google.protobuf', 'prometheus_client', 'pyspark'} & sys.modules.keys()\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_a_traceback_is_there_for_those_who_ask(process: "Program", log: ottla.Log) -> None:
    log.create_topic("t")
    assert "Traceback" not in process("consume", "nothing").err
    told = process("consume", "nothing", OTTLA_DEBUG="1")
    assert told.code == 3
    assert "Traceback" in told.err
    assert told.err.endswith("`ottla topics create nothing`, or post to it first\n")


def test_both_ways_to_start_it_as_a_module() -> None:
    for module in ("ottla", "ottla.cli"):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, check=True)
        assert done.stdout.decode() == f"ottla {ottla.__version__}\n"


def _on_a_terminal(*arguments: str, typed: bytes = b"") -> str:
    """What a person sees who runs the program and types."""
    terminal, other = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *arguments], stdin=other, stdout=other, stderr=other, close_fds=True)
    os.close(other)
    os.write(terminal, typed)
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # the program has gone
            break
    os.close(terminal)
    process.wait(PATIENCE_S)
    return seen.decode()
