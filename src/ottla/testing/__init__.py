"""What engine authors and users test with: the engine contract, a model machine, crash rounds and faults.

`EngineContract` and `LogMachine` need pytest and hypothesis (`pip install 'ottla[testing]'`); the rest needs
nothing. Each is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.clock import ManualClock
from ottla.errors import MissingDependency

if TYPE_CHECKING:
    from ottla.testing.checker import Anomaly, History, check
    from ottla.testing.contract import EngineContract
    from ottla.testing.crash import Report, run_rounds
    from ottla.testing.faults import Fault, FaultyFiles
    from ottla.testing.machine import LogMachine

_HOMES = {
    "Anomaly": "checker",
    "EngineContract": "contract",
    "Fault": "faults",
    "FaultyFiles": "faults",
    "History": "checker",
    "LogMachine": "machine",
    "Report": "crash",
    "check": "checker",
    "run_rounds": "crash",
}

__all__ = [
    "Anomaly",
    "EngineContract",
    "Fault",
    "FaultyFiles",
    "History",
    "LogMachine",
    "ManualClock",
    "Report",
    "check",
    "run_rounds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    try:
        return getattr(import_module(f"ottla.testing.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in {"pytest", "hypothesis"}:
            raise
        raise MissingDependency(f"ottla.testing.{name}", error.name, "'ottla[testing]'") from error
