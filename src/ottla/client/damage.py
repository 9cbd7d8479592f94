"""Checking every stored byte of a log, and setting aside what is damaged."""

from ottla.errors import InvalidValue
from ottla.model import Damage
from ottla.storage import Engine, Repairable, open_engine


def verify(url: str) -> list[Damage]:
    """Check every batch of the log at *url*; returns what is damaged and where, and changes nothing."""
    engine = open_engine(url, read_only=True)
    try:
        return list(_repairable(engine, url).verify())
    finally:
        engine.close()


def repair(url: str) -> list[Damage]:
    """Set damage aside, never delete it, so that all that is whole can be read again; returns what was set aside."""
    engine = open_engine(url)
    try:
        return list(_repairable(engine, url).repair())
    finally:
        engine.close()


def _repairable(engine: Engine, url: str) -> Repairable:
    if not isinstance(engine, Repairable):
        scheme = url.partition(":")[0]
        raise InvalidValue("log", f"{scheme}:", "its engine stores nothing that could be checked or repaired")
    return engine
