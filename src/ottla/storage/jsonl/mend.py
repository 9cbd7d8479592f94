"""To be written."""

from collections.abc import Iterator
from ottla.model import Damage


def verify(engine: object) -> Iterator[Damage]:
    yield from ()


def repair(engine: object) -> Iterator[Damage]:
    yield from ()
