"""The stored form: one line of JSON for each message, for `cat`, `grep` and `jq`. No I/O.

    {"v":1,"topic":"deliveries","partition":0,"offset":17,"timestamp":1700000000123,"key":"melbourne",
     "value":"truck 1021 on time","crc":"8f3a21c4"}                              (on one line, without the space)

    v          format version, 1
    topic, partition, offset   where the message is; the offset is its number
    timestamp  Unix milliseconds: the producer's where it gave one, else the log's append time
    appended   the log's append time, where the producer gave a timestamp of its own; absent where they are the same
    key, value text, or null; `key_base64` and `value_base64` instead where the bytes are no UTF-8
    headers    pairs of a name and a value: text, null, or {"base64": …}; absent where there are none
    batch      [which, of how many]: a batch is whole or absent; absent for a batch of one message
    producer   {"id": …, "epoch": …, "sequence": …}, on the first line of a stamped batch; "sparse": true is
               there too if its sequences may skip
    crc        CRC-32C, eight hexadecimal digits, of the bytes before `,"crc":`; always the last field

The lines of a batch follow one another. Text is UTF-8; control characters, and those that some programs take for
the end of a line, are escaped, so that a line is always one line. Base64 is used for bytes that are no UTF-8 only,
so every value comes back as it was, byte by byte. A line that was edited by hand no longer fits its checksum.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import google_crc32c

from ottla.batch import Batch, Stamp, columns_of_lists, decode_headers
from ottla.batch.header import SPARSE_SEQUENCE, TIMESTAMP_LIMIT
from ottla.errors import CorruptBatch, InvalidValue
from ottla.model import Headers

VERSION: Final = 1

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_parsed = json.JSONDecoder().raw_decode
_ODD = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
"""Characters that JSON lets stand, and terminals or line readers do not."""
_CRC_AT = len(b',"crc":"xxxxxxxx"}')
_NO_LINE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
_LARGEST = 2**63 - 1


class Line(NamedTuple):
    """One message as a line says it."""

    partition: int
    number: int
    which: int
    """Its place in its batch, counted from 1."""
    of: int
    append_ms: int
    timestamp_ms: int | None
    """The producer's; `None` where the append time counts."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    stamp: Stamp | None
    """On the first line of a batch."""


def sealed(text: str) -> bytes:
    """A line of JSON that ends with its checksum; *text* is an object without its closing brace."""
    body = text.encode()
    return b'%s,"crc":"%08x"}' % (body, google_crc32c.value(body))


def unsealed(line: bytes) -> Any:
    """The object that a sealed line holds; `CorruptBatch` if it is not as it was written."""
    check_seal(line)
    try:
        text = line[:-_CRC_AT].decode() + "}"
        content, end = _parsed(text)
    except _NO_LINE as error:
        raise CorruptBatch(f"it is no JSON ({error})") from error
    if end != len(text):
        raise CorruptBatch("it is more than one JSON object")
    return content


def check_seal(line: bytes) -> None:
    """Raise `CorruptBatch` unless the line fits its checksum."""
    crc = b',"crc":"%08x"}' % google_crc32c.value(line[:-_CRC_AT])
    if line[-_CRC_AT:] != crc:
        found = line[-_CRC_AT:].startswith(b',"crc":"')
        raise CorruptBatch("the line's checksum does not match" if found else "it does not end with a checksum")


def prefix_of(topic: str, partition: int) -> bytes:
    """How every line of a partition starts."""
    return f'{{"v":{VERSION},"topic":{_json(topic)},"partition":{partition},'.encode()


def encode_batch(topic: str, partition: int, batch: Batch) -> bytes:
    """The lines of a numbered batch."""
    head = prefix_of(topic, partition).decode()
    return b"".join(sealed(f"{head}{rest}") + b"\n" for rest in _rows(batch))


def _rows(batch: Batch) -> Iterator[str]:
    columns, count, append_ms = batch.columns(), batch.count, batch.header.append_ms
    nones: list[Any] = [None] * count
    keys = nones if columns.keys is None else columns.keys.to_pylist()
    cells = nones if columns.headers is None else columns.headers.to_pylist()
    appended = f',"appended":{append_ms}' if batch.has_timestamps else ""
    rows = zip(keys, columns.values.to_pylist(), cells, batch.timestamps().to_pylist(), strict=True)
    producer = _producer(batch)
    for index, (key, value, cell, timestamp_ms) in enumerate(rows):
        place = f',"batch":[{index + 1},{count}]' if count > 1 else ""
        yield (
            f'"offset":{batch.first_number + index},"timestamp":{timestamp_ms}{appended}'
            f",{_cell('key', key)},{_cell('value', value)}{_headers(cell)}{place}{producer}"
        )
        producer = ""


def _cell(name: str, value: bytes | None) -> str:
    if value is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{_text(value.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{b64encode(value).decode()}"'


def _text(text: str) -> str:
    quoted = _json(text)
    return quoted if quoted.isascii() else _ODD.sub(lambda odd: f"\\u{ord(odd[0]):04x}", quoted)


def _headers(cell: bytes | None) -> str:
    pairs = [f"[{_text(name)},{_header_value(value)}]" for name, value in decode_headers(cell)]
    joined = ",".join(pairs)
    return f',"headers":[{joined}]' if pairs else ""


def _header_value(value: bytes | None) -> str:
    if value is None:
        return "null"
    try:
        return _text(value.decode())
    except UnicodeDecodeError:
        return f'{{"base64":"{b64encode(value).decode()}"}}'


def _producer(batch: Batch) -> str:
    header = batch.header
    if not header.has_producer:
        return ""
    sparse = ',"sparse":true' if header.flags & SPARSE_SEQUENCE else ""
    who = f'"id":"{header.producer_id.hex()}","epoch":{header.producer_epoch},"sequence":{header.sequence}'
    return f',"producer":{{{who}{sparse}}}'


def decode_line(line: bytes, topic: str) -> Line:
    """The message of a line of *topic*; `CorruptBatch` if it is not as it was written."""
    content = unsealed(line)
    try:
        return _decode(content, topic)
    except _NO_LINE as error:
        raise CorruptBatch(f"it is no message ({error})") from error


def _decode(content: dict[str, Any], topic: str) -> Line:
    if content["v"] != VERSION:
        raise CorruptBatch(f"format version {content['v']} is not known here: a newer ottla may read it")
    if content["topic"] != topic:
        raise CorruptBatch(f"it is a message of topic {content['topic']!r}")
    which, of = content.get("batch", (1, 1))
    timestamp_ms = content["timestamp"]
    append_ms = content.get("appended", timestamp_ms)
    partition, number = content["partition"], content["offset"]
    if {type(value) for value in (partition, number, which, of, timestamp_ms, append_ms)} != {int} or not (
        partition >= 0
        and 1 <= number <= number + of - which < _LARGEST
        and 1 <= which <= of
        and abs(append_ms) < TIMESTAMP_LIMIT
        and -TIMESTAMP_LIMIT <= timestamp_ms < TIMESTAMP_LIMIT
    ):
        raise CorruptBatch("its numbers cannot be")
    return Line(
        partition, number, which, of, append_ms, timestamp_ms if "appended" in content else None,
        _bytes(content, "key"), _bytes(content, "value"),
        tuple((str(name), _header_bytes(value)) for name, value in content.get("headers", ())),
        _stamp(content["producer"]) if "producer" in content else None,
    )  # fmt: skip


def _bytes(content: dict[str, Any], name: str) -> bytes | None:
    if name not in content:
        return b64decode(content[f"{name}_base64"], validate=True)
    text: str | None = content[name]
    return None if text is None else text.encode()


def _header_bytes(value: str | dict[str, str] | None) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return b64decode(value["base64"], validate=True)


def _stamp(producer: dict[str, Any]) -> Stamp:
    return Stamp(
        bytes.fromhex(producer["id"]), producer["epoch"], producer["sequence"], sparse=bool(producer.get("sparse"))
    )


def batch_of_lines(lines: Sequence[Line]) -> Batch:
    """The batch that was stored as these lines, with its numbers."""
    first = lines[0]
    try:
        columns = columns_of_lists(
            [line.value for line in lines],
            [line.key for line in lines],
            [line.headers for line in lines],
            None if first.timestamp_ms is None else [line.timestamp_ms or 0 for line in lines],
        )
        return Batch.pack(columns, stamp=first.stamp).numbered(first.number, first.append_ms)
    except InvalidValue as error:
        raise CorruptBatch(str(error)) from error
