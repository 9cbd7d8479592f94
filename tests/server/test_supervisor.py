"""W3: a supervisor keeps brokers running. Here the brokers are small scripts that behave, or do not, on command."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import InvalidValue, ServerError
from ottla.server.broker import Membership, settings_of
from ottla.server.cluster import Member
from ottla.server.config import ServeSettings, find_settings
from ottla.server.supervisor import Patience, Supervisor
from ottla.testing.servers import is_running

SCRIPT = """
import json, os, signal, sys, time
from pathlib import Path

told = json.loads(sys.stdin.readline())
number = told["broker"]
folder = Path(sys.argv[1])
life = len(list(folder.glob(f"{number}-*.told"))) + 1
(folder / f"{number}-{life}.told").write_text(json.dumps(told))
(folder / f"{number}-{life}.pid").write_text(str(os.getpid()))

def say(line):
    print(json.dumps(line), flush=True)

def listen():
    port = int(told["settings"]["grpc"].rpartition(":")[2]) or 40000 + number
    address = f"127.0.0.1:{port}"
    say({"id": number, "grpc": address, "bound": address, "metrics": None, "pid": os.getpid()})

def follow():
    for line in sys.stdin:
        (folder / f"{number}.members").write_text(line)

behaviour = sys.argv[2]
"""

GOOD = "listen(); follow()"
"""Does what it should; SIGTERM ends it, and so does the end of its input."""


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Supervisors of scripted brokers, which are killed in the end."""
    made: list[Supervisor] = []

    def make(behaviour: str = GOOD, brokers: int = 3, **patience: Any) -> Supervisor:
        command = [sys.executable, "-S", "-c", f"{SCRIPT}\n{behaviour}", str(tmp_path), ""]
        made.append(
            Supervisor(
                settings(brokers=brokers),
                command=command,
                patience=Patience(**({"shortest_s": 0.01, "grace_s": 30} | patience)),
            )
        )
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.kill()
        supervisor.stop()


def settings(**flags: Any) -> ServeSettings:
    given = {"url": "/tmp/nowhere", "grpc": "127.0.0.1:0"} | flags
    return find_settings(given, {}, files=False).settings()


def eventually(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


class Folder:
    """What the scripts wrote down about themselves."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lives(self, broker: int) -> int:
        return len(list(self._path.glob(f"{broker}-*.pid")))

    def told(self, broker: int, life: int = 1) -> Any:
        return json.loads((self._path / f"{broker}-{life}.told").read_text())

    def pid(self, broker: int, life: int = 1) -> int:
        return int((self._path / f"{broker}-{life}.pid").read_text())

    def members(self, broker: int) -> list[dict[str, Any]]:
        try:
            return list(json.loads((self._path / f"{broker}.members").read_text()))
        except (FileNotFoundError, ValueError):
            return []

    def alive(self, broker: int) -> list[bool]:
        return [member["alive"] for member in self.members(broker)]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


class TestRunning:
    def test_all_brokers_start_and_learn_about_each_other(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        listening = supervise().start()
        assert [broker.id for broker in listening] == [1, 2, 3]
        eventually(lambda: all(folder.alive(broker) == [True] * 3 for broker in (1, 2, 3)))
        addresses = [broker.grpc for broker in listening]
        assert all([member["address"] for member in folder.members(broker)] == addresses for broker in (1, 2, 3))

    def test_a_dead_broker_is_started_again_where_it_was_and_the_others_know(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        behaviour = f"time.sleep(1) if number == 2 and life == 2 else None; {GOOD}"
        supervisor = supervise(behaviour)
        (_, second, _) = supervisor.start()
        supervisor._keepers[1].signal(kill=True)
        eventually(lambda: folder.alive(1) == [True, False, True])
        eventually(lambda: folder.alive(1) == [True, True, True])
        assert folder.lives(2) == 2
        assert folder.told(2, life=2)["settings"]["grpc"] == second.bound
        assert folder.lives(1) == folder.lives(3) == 1

    def test_one_that_came_back_learns_about_all(self, supervise: Callable[..., Supervisor], folder: Folder) -> None:
        supervisor = supervise(f"(folder / f'{{number}}.members').unlink(missing_ok=True); {GOOD}")
        supervisor.start()
        supervisor._keepers[1].signal(kill=True)
        eventually(lambda: folder.lives(2) == 2 and folder.alive(2) == [True, True, True])

    def test_one_that_keeps_dying_ends_everything_with_its_error(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        supervisor = supervise("listen(); sys.exit(7) if number == 2 else follow()", tries=3)
        supervisor.start()
        with pytest.raises(ServerError, match=r"broker 2 ended 3 times in a row soon after its start \(exit code 7\)"):
            supervisor.wait()
        assert folder.lives(2) == 3
        assert not any(is_running(folder.pid(broker)) for broker in (1, 3))

    def test_one_that_dies_now_and_then_is_not_given_up(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        supervisor = supervise("listen(); sys.exit(1) if number == 2 and life < 6 else follow()", tries=3, soon_s=0)
        supervisor.start()
        eventually(lambda: folder.lives(2) == 6 and folder.alive(1) == [True] * 3)

    def test_a_restart_that_finds_its_port_taken_picks_another_if_it_may(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        taken = "say({'error': {'name': 'InvalidValue', 'message': 'taken', 'facts': '{}'}})"
        supervisor = supervise(f"({taken}, sys.exit(1)) if number == 2 and life == 2 else (listen(), follow())")
        supervisor.start()
        supervisor._keepers[1].signal(kill=True)
        eventually(lambda: folder.lives(2) == 3)
        assert folder.told(2, life=3)["settings"]["grpc"].endswith(":0")


class TestStarting:
    def test_one_that_cannot_start_ends_it_with_what_it_said(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        facts = json.dumps({"what": "address", "value": "x", "rule": "taken"})
        said = {"name": "InvalidValue", "message": "address x is not valid: taken", "facts": facts}
        supervisor = supervise(f"(say({{'error': {said}}}), sys.exit(1)) if number == 3 else (listen(), follow())")
        with pytest.raises(InvalidValue, match="address x is not valid: taken") as caught:
            supervisor.start()
        assert caught.value.rule == "taken"
        assert folder.lives(3) == 1
        assert not any(is_running(folder.pid(broker)) for broker in (1, 2) if folder.lives(broker))

    def test_one_that_dies_without_a_word_ends_it_too(self, supervise: Callable[..., Supervisor]) -> None:
        with pytest.raises(ServerError, match=r"broker \d could not be started: killed by SIGKILL"):
            supervise("os.kill(os.getpid(), 9)").start()

    def test_it_can_be_stopped_while_it_starts(self, supervise: Callable[..., Supervisor], folder: Folder) -> None:
        supervisor = supervise("time.sleep(3600)")
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(supervisor.start()))
        thread.start()
        eventually(lambda: all(folder.lives(broker) for broker in (1, 2, 3)))
        supervisor.stop()
        thread.join(30)
        supervisor.wait()
        assert found == [[]]

    def test_settings_travel_by_a_pipe_that_nobody_else_reads(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        """A URL may hold credentials, and every user of the machine can read a command line."""
        supervisor = supervise()
        supervisor.start()
        assert folder.told(1)["settings"]["url"] == "file:///tmp/nowhere"
        assert not any("nowhere" in word for word in supervisor._keepers[0]._command)


class TestStopping:
    def test_it_stops_all_and_leaves_none(self, supervise: Callable[..., Supervisor], folder: Folder) -> None:
        supervisor = supervise()
        supervisor.start()
        supervisor.stop()
        supervisor.wait()
        assert not any(is_running(folder.pid(broker)) for broker in (1, 2, 3))
        assert folder.lives(1) == 1

    def test_one_that_does_not_stop_in_time_is_killed(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN); listen(); time.sleep(3600)"
        supervisor = supervise(stubborn, grace_s=0.2)
        supervisor.start()
        supervisor.stop()
        supervisor.wait()
        assert not any(is_running(folder.pid(broker)) for broker in (1, 2, 3))

    def test_one_that_hangs_does_not_hang_the_news_for_others(
        self, supervise: Callable[..., Supervisor], folder: Folder
    ) -> None:
        """Its pipe fills up, and that is its own trouble."""
        supervisor = supervise("listen(); time.sleep(3600) if number == 3 else follow()")
        supervisor.start()
        for _ in range(2000):
            supervisor.announce()
        eventually(lambda: folder.alive(1) == [True] * 3)


class TestSettings:
    def test_ports_are_consecutive_unless_they_are_picked(self) -> None:
        told = settings(grpc="127.0.0.1:9999", metrics="127.0.0.1:0", brokers=3)
        assert [settings_of(told, number).grpc for number in (1, 2, 3)] == [
            "127.0.0.1:9999",
            "127.0.0.1:10000",
            "127.0.0.1:10001",
        ]
        assert settings_of(told, 3).metrics == "127.0.0.1:0"

    @pytest.mark.parametrize(
        ("url", "becomes"),
        [
            ("jsonl:///data", "jsonl:///data?brokers=3"),
            ("jsonl:///data?network=allow", "jsonl:///data?network=allow&brokers=3"),
            ("jsonl:///data?brokers=5", "jsonl:///data?brokers=5"),
            ("file:///data", "file:///data"),
        ],
    )
    def test_text_files_are_named_for_their_broker(self, url: str, becomes: str) -> None:
        """W4: `topic-broker_id.txt`."""
        assert settings_of(settings(url=url, brokers=3), 1).url == becomes

    def test_before_any_news_there_are_as_many_members_as_there_will_be(self) -> None:
        """Ownership goes by their number, so it must be right from the first call."""
        members = Membership(2)
        assert members.current() == [Member(1, "", alive=False), Member(2, "", alive=False)]
        members.replace([{"id": 1, "address": "a:1", "alive": True}, {"id": 2, "address": "a:2", "alive": False}])
        assert members.current() == [Member(1, "a:1"), Member(2, "a:2", alive=False)]
