"""What people hand to a producer, checked and brought into the form that is sent; a wrong value is refused here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.batch import Columns, columns_of_arrow, columns_of_lists, columns_of_records
from ottla.errors import InvalidValue
from ottla.model import Headers, Record
from ottla.settings import MAX_BATCH_BYTES, parse_size

Many = Iterable[bytes | None] | Iterable[Record] | Any
"""Values, records, or Arrow data: an array of values, or a table with a column `value`."""

_TIMESTAMP_LIMIT: Final = 2**62
_LARGEST_BATCH: Final = MAX_BATCH_BYTES - 2**16
"""Leaves room for what a stored batch has beside its messages."""
_SMALLEST_BUFFER: Final = 1024
_ENCODE = "messages are bytes: encode text first, as in 'text'.encode()"


def bytes_of(given: object, what: str) -> bytes | None:
    """Bytes that nobody else can change."""
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise InvalidValue(what, given, _ENCODE)


def check_timestamp(given: object) -> int | None:
    if given is None or (type(given) is int and -_TIMESTAMP_LIMIT <= given < _TIMESTAMP_LIMIT):
        return given
    raise InvalidValue("timestamp_ms", given, "give whole Unix milliseconds, less than 2**62 from 1970")


def columns_of(
    values: Many,
    keys: Any,
    headers: Sequence[Headers | Mapping[str, bytes | None]] | Any,
    timestamps: Any,
    now_ms: int,
) -> Columns:
    """Columns of at least one message from whatever was given."""
    beside = {"keys": keys, "headers": headers, "timestamps": timestamps}
    if isinstance(values, str | bytes | bytearray | memoryview | Record):
        raise InvalidValue("messages", values, "give a list of them; send() takes a single one")
    if isinstance(values, pa.Array | pa.ChunkedArray):
        columns = columns_of_arrow(_beside_array(values, beside))
    elif hasattr(values, "__arrow_c_stream__"):
        _refuse(beside, "the table has its own: make it a column there")
        columns = columns_of_arrow(values)
    else:
        columns = _columns_of_list(_list_of(values), beside, now_ms)
    if not len(columns):
        raise InvalidValue("messages", "an empty list", "give at least one message")
    _check_timestamps(columns.timestamps)
    return columns


def _list_of(values: Any) -> Sequence[Any]:
    if isinstance(values, list | tuple):
        return values
    try:
        return list(values)
    except TypeError:
        raise InvalidValue("messages", values, "give a list of bytes or records, or Arrow data") from None


def _columns_of_list(values: Sequence[Any], beside: dict[str, Any], now_ms: int) -> Columns:
    if values and isinstance(values[0], Record):
        _refuse(beside, "records have their own: set it there")
        return columns_of_records(values, now_ms)
    lists = {name: None if given is None else _list_of(given) for name, given in beside.items()}
    return columns_of_lists(values, **lists)


def _beside_array(values: pa.Array | pa.ChunkedArray, beside: dict[str, Any]) -> Any:
    """An array of values with the arrays given beside it, as a table."""
    arrays = {"value": values}
    for name, column in (("keys", "key"), ("headers", "headers"), ("timestamps", "timestamp")):
        given = beside[name]
        if given is None:
            continue
        if not isinstance(given, pa.Array | pa.ChunkedArray) or len(given) != len(values):
            raise InvalidValue(
                name, given, f"the values are an Arrow array of {len(values):,}: give another such array"
            )
        arrays[column] = given
    return values if len(arrays) == 1 else pa.table(arrays)


def _refuse(beside: dict[str, Any], rule: str) -> None:
    for name, given in beside.items():
        if given is not None:
            raise InvalidValue(name, given, rule)


def _check_timestamps(timestamps: pa.Int64Array | None) -> None:
    if timestamps is not None:
        span = pc.min_max(timestamps)
        check_timestamp(span["min"].as_py())
        check_timestamp(span["max"].as_py())


def check_buffer_bytes(given: int | str | None) -> int:
    size = parse_size(given, "max_buffer_bytes")
    if size is not None and size < _SMALLEST_BUFFER:
        raise InvalidValue("max_buffer_bytes", given, f"give at least {_SMALLEST_BUFFER:,} bytes, or unlimited")
    return size or 2**62


def check_batch_bytes(given: int | str) -> int:
    size = parse_size(given, "max_batch_bytes")
    if size is None or size > _LARGEST_BATCH:
        raise InvalidValue("max_batch_bytes", given, f"a batch holds at most {_LARGEST_BATCH:,} bytes")
    return size
