"""The headers of one message: a cell of bytes in a batch, pairs in Python, a list of structs in Arrow. No I/O.

A cell is, for each header in the producer's order: a uint32 length of the name, the name in UTF-8, an
int32 length of the value (-1 for none) and the value, all little-endian. No headers is a null cell.
"""

import struct
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import CorruptBatch, InvalidValue
from ottla.model import Headers

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""Headers as Arrow sees them: null where a message has none."""

_UINT32 = struct.Struct("<I")
_INT32 = struct.Struct("<i")


def encode_headers(headers: Headers | Mapping[str, bytes | None] | None) -> bytes | None:
    """One message's headers as a cell; `None` for none. A mapping from names to values will do."""
    if headers is None:
        return None
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return b"".join(map(_encode_pair, pairs)) or None
    except TypeError as error:
        raise InvalidValue("headers", headers, "give pairs of a name (text) and a value (bytes or None)") from error


def _encode_pair(pair: Any) -> bytes:
    rule = "a header is a name (text) and a value (bytes or None)"
    try:
        name, value = pair
        encoded: bytes = name.encode()
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidValue("header", pair, rule) from error
    if value is None:
        return _UINT32.pack(len(encoded)) + encoded + _INT32.pack(-1)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise InvalidValue("header", pair, rule)
    content = bytes(value)
    return _UINT32.pack(len(encoded)) + encoded + _INT32.pack(len(content)) + content


def decode_headers(cell: bytes | None) -> Headers:
    """One message's headers from its cell, every length checked."""
    if cell is None:
        return ()
    headers: list[tuple[str, bytes | None]] = []
    at = 0
    try:
        while at < len(cell):
            (length,) = _UINT32.unpack_from(cell, at)
            at += 4 + length
            (size,) = _INT32.unpack_from(cell, at)  # fails too where the name would end beyond the cell
            name = str(cell[at - length : at], "utf-8")
            at += 4
            if not -1 <= size <= len(cell) - at:
                raise CorruptBatch(f"a header says that it has {size} bytes where {len(cell) - at} are left")
            headers.append((name, None if size < 0 else cell[at : at + size]))
            at += max(size, 0)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptBatch(f"the headers of a message are malformed ({error})") from error
    return tuple(headers)


def distinct_headers(cells: pa.BinaryArray) -> tuple[list[Headers], pa.Int32Array]:
    """The headers of each distinct cell, decoded once, and for each message the index of its own."""
    encoded = pc.dictionary_encode(cells)
    return [decode_headers(cell) for cell in encoded.dictionary.to_pylist()], encoded.indices


def headers_to_arrow(cells: pa.BinaryArray | None, count: int) -> pa.Array:
    """Cells as an array of `HEADERS_TYPE`."""
    if cells is None:
        return pa.nulls(count, HEADERS_TYPE)
    distinct, indices = distinct_headers(cells)
    rows = [[{"key": name, "value": value} for name, value in headers] for headers in distinct]
    return pa.array(rows, HEADERS_TYPE).take(indices)


def headers_from_arrow(lists: pa.Array) -> pa.BinaryArray:
    """Cells from an array of `HEADERS_TYPE`, without any Python work per message."""
    pairs = lists.flatten()
    names, values = pc.struct_field(pairs, 0), pc.struct_field(pairs, 1)
    if names.null_count:
        raise InvalidValue("header", "without a key", "every header has a name: give it a key, or leave it out")
    nothing = pa.scalar(b"", pa.binary())  # not at import: a first scalar makes pyarrow import pandas
    cells = pc.binary_join_element_wise(
        _as_bytes(pc.binary_length(names)),
        names.cast(pa.binary()),
        _as_bytes(pc.fill_null(pc.binary_length(values), -1)),
        pc.fill_null(values, b""),
        nothing,
    )
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    joined = pc.binary_join(pa.ListArray.from_arrays(ends, cells), nothing)
    return pc.if_else(pc.equal(counts, 0), None, joined)


def _as_bytes(numbers: pa.Int32Array) -> pa.BinaryArray:
    """Each number as its four bytes."""
    fixed = pa.Array.from_buffers(pa.binary(4), len(numbers), [None, numbers.buffers()[1]], offset=numbers.offset)
    return fixed.cast(pa.binary())
