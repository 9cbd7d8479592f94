"""Storage engines behind one contract."""

from ottla.storage.contract import (
    Compactable,
    Compacted,
    Engine,
    EngineOptions,
    PartitionStore,
    Repairable,
    Served,
    Versioned,
)
from ottla.storage.registry import open_engine

__all__ = [
    "Compactable",
    "Compacted",
    "Engine",
    "EngineOptions",
    "PartitionStore",
    "Repairable",
    "Served",
    "Versioned",
    "open_engine",
]
