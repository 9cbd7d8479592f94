"""One peer after another, each in a process group of its own, so that nothing of it is left when it is done."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.peers.contract import NotRun, Peer
from benchmarks.peers.measure import Plan, measure
from benchmarks.rows import Row

PEERS = {
    "ottla": "ottla_log:PEER",
    "ottla-library": "ottla_log:LIBRARY_PEER",
    "redis": "redis_streams:PEER",
    "nats": "nats_jetstream:PEER",
    "rabbitmq": "rabbitmq_streams:PEER",
    "kafka": "kafka_broker:PEER",
    "kafka-default": "kafka_broker:DEFAULT_PEER",
    "fdatasync": "limits:PEER",
    "grpcio": "limits:STREAM_PEER",
}
_STOP_S = 15.0


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of one peer."""

    peer: Peer
    version: str = ""
    rows: list[Row] = field(default_factory=list)
    not_run: str = ""
    """Why there are no rows."""


def run(name: str, plan: Plan, folder: Path | None) -> Result:
    """Measure one peer. Whatever happens, its processes are gone in the end, and so is its data."""
    module, _, attribute = PEERS[name].partition(":")
    result = Result(peer=getattr(import_module(f"benchmarks.peers.{module}"), attribute))
    spawn = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="ottla-peers-", dir=folder, ignore_cleanup_errors=True) as data:
        here, there = spawn.Pipe(duplex=False)
        process = spawn.Process(target=_run, args=(result.peer, plan, Path(data), there))
        process.start()
        there.close()
        try:
            for what, value in _said(here, plan.limit_s):
                _take(result, what, value)
            process.join(_STOP_S)
        except NotRun as reason:
            result.not_run = str(reason)
        finally:
            _end(process)
    if result.not_run:
        result.rows.clear()
    return result


def _take(result: Result, what: str, value: Any) -> None:
    match what:
        case "version":
            result.version = value
        case "row":
            result.rows.append(value)
        case "not run":
            raise NotRun(value)


def _said(process: Connection, limit_s: float) -> Iterator[tuple[str, Any]]:
    deadline = time.monotonic() + limit_s
    while process.poll(max(0.0, deadline - time.monotonic())):
        try:
            said: tuple[str, Any] = process.recv()
        except EOFError:
            raise NotRun("its benchmark died; what it printed is above") from None
        if said[0] == "done":
            return
        yield said
    raise NotRun(f"it was not done after {limit_s:.0f} s")


def _end(process: Any) -> None:
    """Ask the peer's process to stop, then end all that is left of its group."""
    process.terminate()
    process.join(_STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.join()


def _run(peer: Peer, plan: Plan, folder: Path, parent: Connection) -> None:
    """In the peer's process: start its server, measure, and tell the parent."""
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with peer.run(folder) as started:
            parent.send(("version", started.version))
            for row in measure(peer, started.address, plan):
                parent.send(("row", row))
    except NotRun as reason:
        parent.send(("not run", str(reason)))
    except Exception as error:  # noqa: BLE001  (one peer must not end the run of the others)
        parent.send(("not run", f"it failed with {type(error).__name__}: {error}"))
    else:
        parent.send(("done", None))
