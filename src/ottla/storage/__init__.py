"""Storage engines behind one contract."""

from ottla.storage.contract import (
    Compactable,
    Compacted,
    Engine,
    EngineOptions,
    Fetching,
    PartitionStore,
    Pipelined,
    Repairable,
    Served,
    Underway,
    Versioned,
)
from ottla.storage.registry import open_engine

__all__ = [
    "Compactable",
    "Compacted",
    "Engine",
    "EngineOptions",
    "Fetching",
    "PartitionStore",
    "Pipelined",
    "Repairable",
    "Served",
    "Underway",
    "Versioned",
    "open_engine",
]
