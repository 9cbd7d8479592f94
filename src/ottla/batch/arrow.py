"""Columns from Arrow data, without any Python work per message. No I/O.

What is taken: an array of values, or a table (a record batch, a data frame that speaks Arrow) with these
columns:

    value      binary or text of any Arrow layout, dictionary-encoded or not     required
    key        likewise
    headers    a list of structs of `key` (text) and `value` (binary), or a map
    timestamp  a timestamp of any unit (finer ones are cut to milliseconds; one without a zone is UTC), or
               int64 Unix milliseconds; all null is the same as no column, some null is refused

The other columns that a read returns (topic, partition, number; Kafka's offset) are passed over, so that a
table that was read can be sent again. Any other column is refused: nothing is dropped in silence.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from ottla.batch.columns import Columns, unless_all_null
from ottla.batch.message_headers import HEADERS_TYPE, headers_from_arrow
from ottla.errors import InvalidValue

_TAKEN = ("value", "key", "headers", "timestamp")
_PASSED_OVER = {"topic", "partition", "number", "offset"}
_TEXT_OR_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_null,
)
_LISTS = (pa.types.is_list, pa.types.is_large_list)  # not views of lists: pyarrow 26 casts them to empty ones


def columns_of_arrow(data: Any) -> Columns:
    """Columns from an Arrow array or table of up to 2 GiB a column; what is binary in one chunk is not copied."""
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return Columns(values=_binary(data, "value"))
    table = _table(data)
    arrays = {name: table.column(name) for name in _TAKEN if name in table.column_names}
    return Columns(
        values=_binary(arrays["value"], "value"),
        keys=unless_all_null(_binary(arrays["key"], "key")) if "key" in arrays else None,
        headers=unless_all_null(_headers(arrays["headers"])) if "headers" in arrays else None,
        timestamps=_timestamps(arrays["timestamp"]) if "timestamp" in arrays else None,
    )


def _table(data: Any) -> pa.Table | pa.RecordBatch:
    if not isinstance(data, pa.Table | pa.RecordBatch):
        if not hasattr(data, "__arrow_c_stream__"):
            raise InvalidValue("Arrow data", data, "give a pyarrow array, table or record batch, or a data frame")
        data = pa.table(data)
    names = data.column_names
    for name in names:
        if name not in _TAKEN and name not in _PASSED_OVER:
            raise InvalidValue("column", name, f"a table to send has {', '.join(_TAKEN)}: rename it, or drop it")
        if names.count(name) > 1:
            raise InvalidValue("column", name, "it is there twice: drop one")
    if "value" not in names:
        raise InvalidValue("table", f"with columns {', '.join(names)}", "it must have a column 'value'")
    return data


def _binary(data: pa.Array | pa.ChunkedArray, name: str) -> pa.BinaryArray:
    rule = "it must be binary or text of up to 2 GiB: cast it, or send it in slices"
    of = data.type.value_type if pa.types.is_dictionary(data.type) else data.type
    if not any(accepts(of) for accepts in _TEXT_OR_BINARY):
        raise InvalidValue(f"column {name!r}", f"of type {data.type}", rule)
    return _whole(data, _binary_chunk, name, rule)


def _binary_chunk(chunk: pa.Array) -> pa.BinaryArray:
    if isinstance(chunk, pa.DictionaryArray):
        return chunk.dictionary.cast(pa.binary()).take(chunk.indices)
    return chunk.cast(pa.binary())


def _headers(data: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
    rule = "it must be a list of structs of key (text) and value (binary), or a map from text to binary"
    if not _holds_headers(data.type):
        raise InvalidValue("column 'headers'", f"of type {data.type}", rule)
    return _whole(data, lambda chunk: headers_from_arrow(chunk.cast(HEADERS_TYPE)), "headers", rule)


def _holds_headers(of: pa.DataType) -> bool:
    if pa.types.is_map(of) or pa.types.is_null(of):
        return True
    if not any(accepts(of) for accepts in _LISTS) or not pa.types.is_struct(of.value_type):
        return False
    return {of.value_type.field(index).name for index in range(of.value_type.num_fields)} == {"key", "value"}


def _timestamps(data: pa.Array | pa.ChunkedArray) -> pa.Int64Array | None:
    rule = "it must be a timestamp, or int64 Unix milliseconds, for every message"
    if data.null_count == len(data):
        return None
    if not pa.types.is_timestamp(data.type) and data.type != pa.int64():
        raise InvalidValue("column 'timestamp'", f"of type {data.type}", rule)
    if data.null_count:
        raise InvalidValue("column 'timestamp'", f"with {data.null_count:,} nulls", f"{rule}: fill them, or drop it")
    return _whole(data, _timestamp_chunk, "timestamp", rule)


def _timestamp_chunk(chunk: pa.Array) -> pa.Int64Array:
    if pa.types.is_timestamp(chunk.type):
        finer = chunk.type.unit in {"us", "ns"}
        chunk = chunk.cast(pa.timestamp("ms", chunk.type.tz), safe=not finer)
    return chunk.cast(pa.int64())


def _whole(data: pa.Array | pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array], name: str, rule: str) -> pa.Array:
    """All of a column in one array, each chunk converted."""
    chunks = data.chunks if isinstance(data, pa.ChunkedArray) else [data]
    try:
        arrays = [convert(chunk) for chunk in chunks or [pa.array([], data.type)]]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    except pa.ArrowException as error:
        raise InvalidValue(f"column {name!r}", f"of type {data.type}", f"{rule} ({error})") from error
