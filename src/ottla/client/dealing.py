"""Dealing messages out to partitions: those with a preference by it, the others in turn, evenly."""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch import Columns
from ottla.log.partitioners import by_partition

Turns = Callable[[int], int]
"""Takes so many turns and returns the partition of the first; the next caller goes on after them."""


def deal(columns: Columns, preferred: pa.Array | None, partitions: int, turns: Turns) -> Iterator[tuple[int, Columns]]:
    """Each partition's messages, in their order. *preferred* is null where a message has no preference."""
    count = len(columns)
    if partitions == 1:
        return iter([(0, columns)])
    if preferred is None or preferred.null_count == count:
        return _shares(columns, partitions, turns(count))
    if missing := preferred.null_count:
        in_turn = _cycle(turns(missing), missing, partitions)
        preferred = pc.replace_with_mask(preferred, pc.is_null(preferred), in_turn)
    return by_partition(columns, preferred)


def _shares(columns: Columns, partitions: int, first: int) -> Iterator[tuple[int, Columns]]:
    """Slices as long as if the messages were dealt out one by one; nothing is copied."""
    least, more = divmod(len(columns), partitions)
    start = 0
    for turn in range(min(partitions, len(columns))):
        length = least + (turn < more)
        yield (first + turn) % partitions, columns.slice(start, length)
        start += length


def _cycle(first: int, count: int, partitions: int) -> pa.Array:
    """*first*, and so on, back to 0 after the last partition."""
    numbers = pa.arange(first, first + count)
    divisor = pa.scalar(partitions, pa.int64())
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor)).cast(pa.int32())
