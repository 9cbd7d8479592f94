"""Events as JSON (row W1): what `produce --events` takes and `consume --events` prints, one object a line.

    {"event_id": "…", "topic_name": "deliveries", "timestamp": "2030-01-31T12:00:00.000Z",
     "message": "truck 1021 on time", "truck": 1021, "metadata": {"source": "depot 4"}}

Only `message` is required, or `message_base64` for bytes that are no text; any further pairs are the event's own and
are kept. On the way in an absent id, topic and timestamp are filled in, and the whole event is the message's value. On
the way out a message that is no event becomes one, with its key and headers as metadata.
"""

import json
import uuid
from datetime import datetime
from typing import Any, NamedTuple

from ottla.cli.output import bytes_pair, moment
from ottla.errors import InvalidValue
from ottla.model import Message
from ottla.settings import check_name

_SECONDS_END = 100_000_000_000
"""A number below this is Unix seconds, up to the year 5138; above it are milliseconds, from 1973 on."""
_FILLED_IN = ("event_id", "topic_name", "timestamp")
_MILLISECONDS_END = 2**53
_TIMESTAMP = "write a time such as 2030-01-31T12:00:00Z, or Unix seconds or milliseconds"


class Event(NamedTuple):
    """An event on its way into the log."""

    topic: str
    value: bytes
    key: bytes | None
    timestamp_ms: int | None
    """`None` lets the log's clock decide."""


def read_event(line: bytes, topic: str | None, key_field: str | None, now_ms: int) -> Event:
    """The event in a line of JSON, completed; or one sentence about what is wrong with it."""
    event = parse_object(line)
    if not _is_event(event):
        raise InvalidValue("event", line, 'it has no "message"')
    event = {field: fact for field, fact in event.items() if fact is not None or field not in _FILLED_IN}
    name = event.get("topic_name", topic)
    if name is None:
        raise InvalidValue("event", line, 'it has no "topic_name", and the command names no topic')
    if topic is not None and name != topic:
        raise InvalidValue("topic_name", name, f"the command says {topic!r}: leave one of the two out")
    timestamp_ms = _milliseconds(event.get("timestamp"), now_ms)
    completed = {
        "event_id": uuid.uuid4().hex,
        "topic_name": check_name(name),
        "timestamp": moment(timestamp_ms),
    } | event
    key = None if key_field is None else key_in(event, key_field)
    return Event(name, json.dumps(completed, ensure_ascii=False).encode(), key, timestamp_ms)


def _is_event(candidate: dict[str, Any]) -> bool:
    return "message" in candidate or "message_base64" in candidate


def parse_object(line: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    try:
        parsed = json.loads(line)
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise InvalidValue("JSON", line, str(error)) from None
    if not isinstance(parsed, dict):
        raise InvalidValue("JSON", line, 'write an object, as in {"message": "hello"}')
    return parsed


def key_in(event: dict[str, Any], field: str) -> bytes | None:
    """The key that a field holds, as text; dots lead into objects. None where there is no such field."""
    found: Any = event
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if found is None:
        return None
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).encode()


def event_of(message: Message) -> dict[str, Any]:
    """A message as an event, whether or not it was sent as one."""
    event: dict[str, Any] = {
        "event_id": f"{message.topic}-{message.partition}-{message.number}",
        "topic_name": message.topic,
        "timestamp": moment(message.timestamp_ms),
    }
    try:
        sent = json.loads(message.value or b"")
    except ValueError:
        sent = None
    if isinstance(sent, dict) and _is_event(sent):
        return event | sent
    event |= bytes_pair("message", message.value)
    metadata = {} if message.key is None else bytes_pair("key", message.key)
    for name, value in message.headers:
        metadata |= bytes_pair(name, value)
    return event | ({"metadata": metadata} if metadata else {})


def _milliseconds(timestamp: object, now_ms: int) -> int:
    """The moment that an event says it happened at."""
    match timestamp:
        case None | "":
            return now_ms
        case bool():
            pass
        case int() | float() if abs(timestamp) < _MILLISECONDS_END:
            return round(timestamp * 1000 if abs(timestamp) < _SECONDS_END else timestamp)
        case str():
            return _parsed(timestamp)
    raise InvalidValue("timestamp", timestamp, _TIMESTAMP)


def _parsed(words: str) -> int:
    try:
        when = datetime.fromisoformat(words)
    except ValueError:
        raise InvalidValue("timestamp", words, _TIMESTAMP) from None
    if when.tzinfo is None:
        raise InvalidValue("timestamp", words, "say the time zone, as in 2030-01-31T12:00:00Z")
    return round(when.timestamp() * 1000)
