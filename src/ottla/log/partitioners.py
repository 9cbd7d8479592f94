"""Which partition a message goes to. Partitioners keep no state; whoever sends deals out what has no preference.

    round-robin         the default: no preference, so messages are dealt out one after another, evenly
    key-hash            murmur2 of the key, the same partition that a Kafka producer picks
    json-field:<name>   murmur2 of a field of the JSON value; dots lead into nested objects
    <another name>      from the entry point group `ottla.partitioners`

A message without what the partitioner looks at (a null key, no such field, a value that is no JSON) has no
preference. Messages of the same key keep their order as long as the number of partitions stays the same.
"""

import json
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch import Columns
from ottla.errors import InvalidValue
from ottla.log.murmur2 import positive_hash, positive_hashes

JSON_FIELD = "json-field:"
_MOST_REMEMBERED_BYTES = 256
"""Hashes of longer keys are not kept in memory."""


@runtime_checkable
class Partitioner(Protocol):
    """Picks partitions, for one message or for whole columns; both ways must agree. Safe from many threads."""

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:
        """The partition of one message, 0 to *partitions* - 1; `None` where it has no preference."""

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        """The partition of each message as an integer array, null where it has no preference; `None` if none has."""


PartitionFunction = Callable[[bytes | None, bytes | None, int], int | None]
"""One's own rule: (key, value, partitions) to the partition, or `None` for no preference."""


class RoundRobin:
    """No message prefers a partition (row W2: evenly spread by default)."""

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:  # noqa: ARG002  (the protocol)
        return None

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:  # noqa: ARG002  (the protocol)
        return None


class KeyHash:
    """The partition that Kafka's default partitioner picks for the key."""

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:  # noqa: ARG002  (the protocol)
        return None if key is None else _partition_of(key, partitions)

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        return None if columns.keys is None else _partitions_of(columns.keys, partitions)


class JsonField:
    """The hash of one field of the JSON value (row W2).

    Text counts as its UTF-8 bytes, so it goes where `key-hash` sends the same text as a key; everything else
    as its JSON text without spaces. A field that is null counts as missing.
    """

    def __init__(self, name: str) -> None:
        if not name:
            raise InvalidValue("partitioner", JSON_FIELD, f"name the field, as in {JSON_FIELD}city")
        self.name = name
        self._path = name.split(".")

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:  # noqa: ARG002  (the protocol)
        field = self._field(value)
        return None if field is None else _partition_of(field, partitions)

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        fields = pa.array(map(self._field, columns.values.to_pylist()), pa.binary(), size=len(columns))
        return _partitions_of(fields, partitions)

    def _field(self, value: bytes | None) -> bytes | None:
        try:
            found = json.loads(value or b"")
            if not isinstance(found, dict):
                return None
            if self.name in found:
                found = found[self.name]
            else:
                for step in self._path:
                    found = found[step]
            if found is None:
                return None
            text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), sort_keys=True)
            return text.encode()
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            return None


class ByFunction:
    """A function that picks, as a partitioner; it is called once for each message."""

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:
        return self._function(key, value, partitions)

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        count = len(columns)
        keys = [None] * count if columns.keys is None else columns.keys.to_pylist()
        rows = zip(keys, columns.values.to_pylist(), strict=True)
        picked = [check_pick(self._function(key, value, partitions), partitions) for key, value in rows]
        return pa.array(picked, pa.int32())


_BUILT_IN: dict[str, Callable[[], Partitioner]] = {"round-robin": RoundRobin, "key-hash": KeyHash}


def partitioner_for(name: str) -> Partitioner:
    """The partitioner that a topic's setting names."""
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    if name.startswith(JSON_FIELD):
        return JsonField(name.removeprefix(JSON_FIELD))
    plugins = {point.name: point for point in entry_points(group="ottla.partitioners")}
    if name in plugins:
        loaded = plugins[name].load()
        return as_partitioner(loaded() if isinstance(loaded, type) else loaded)
    known = ", ".join([*_BUILT_IN, f"{JSON_FIELD}<name>", *sorted(plugins)])
    raise InvalidValue("partitioner", name, f"there is none of that name; known: {known}")


def as_partitioner(given: Any) -> Partitioner:
    """What a program gives as a partitioner: an object, a function, or the name of one."""
    if isinstance(given, str):
        return partitioner_for(given)
    if isinstance(given, Partitioner) and not isinstance(given, type):
        return given
    if callable(given) and not isinstance(given, type):
        return ByFunction(given)
    raise InvalidValue("partitioner", given, "give a name, a function (key, value, partitions) -> int or a Partitioner")


def check_pick(picked: Any, partitions: int) -> int | None:
    """What a partitioner picked, or one sentence about why it is no partition."""
    if picked is None or (type(picked) is int and 0 <= picked < partitions):
        return picked
    raise InvalidValue("partition", picked, f"a partitioner must return 0 to {partitions - 1}, or None for any")


def check_assigned(assigned: Any, columns: Columns, partitions: int) -> pa.Array | None:
    """What a partitioner assigned, as 32-bit numbers, or one sentence about what is wrong with it."""
    if assigned is None:
        return None
    if not isinstance(assigned, pa.Array) or not pa.types.is_integer(assigned.type) or len(assigned) != len(columns):
        raise InvalidValue("partitions", assigned, "assign must return one integer for each message, or None")
    span = pc.min_max(assigned)
    low, high = span["min"].as_py(), span["max"].as_py()
    if low is not None:
        check_pick(low, partitions)
        check_pick(high, partitions)
    return assigned.cast(pa.int32())


def by_partition(columns: Columns, assigned: pa.Array) -> Iterator[tuple[int, Columns]]:
    """The messages of each partition that *assigned* (without nulls) names, in their order."""
    order = pc.array_sort_indices(assigned)  # stable: messages of one partition keep their order
    runs = pc.run_end_encode(assigned.take(order))
    partitions, ends = runs.values.to_pylist(), runs.run_ends.to_pylist()
    together = columns if len(partitions) <= 1 else columns.take(order)
    start = 0
    for partition, end in zip(partitions, ends, strict=True):
        yield partition, together.slice(start, end - start)
        start = end


def _partition_of(key: bytes, partitions: int) -> int:
    hash_ = positive_hash if len(key) <= _MOST_REMEMBERED_BYTES else positive_hash.__wrapped__
    return hash_(key) % partitions


def _partitions_of(keys: pa.BinaryArray, partitions: int) -> pa.Array:
    """`_partition_of` for a column; null where the key is."""
    if keys.null_count:
        present = pc.is_valid(keys)
        found = _partitions_of(keys.filter(present), partitions)
        return pc.replace_with_mask(pa.nulls(len(keys), pa.int32()), present, found)
    hashes = positive_hashes(keys).cast(pa.int32())  # positive, so the sign bit is free
    divisor = pa.scalar(partitions, pa.int32())
    return pc.subtract(hashes, pc.multiply(pc.divide(hashes, divisor), divisor))
