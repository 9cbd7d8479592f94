from collections.abc import Iterable

from ottla.model import Damage


def verify(engine) -> Iterable[Damage]:
    return []


def repair(engine) -> Iterable[Damage]:
    return []
