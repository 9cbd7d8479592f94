"""How messages are printed: raw, as JSON, as events, or by a template. Many at a time, into bytes.

Text is written as it came: bytes that are no UTF-8 go through a template unchanged, and are base64 in JSON.
"""

import json
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any

from ottla.batch import Messages
from ottla.cli.events import event_of
from ottla.cli.options import unescaped
from ottla.cli.output import bytes_pair, moment
from ottla.errors import InvalidValue
from ottla.model import Message

Format = Callable[[Sequence[Message]], bytes]

_FIELDS: dict[str, Callable[[Message], str]] = {
    "topic": lambda message: message.topic,
    "partition": lambda message: str(message.partition),
    "number": lambda message: str(message.number),
    "offset": lambda message: str(message.number),
    "timestamp": lambda message: moment(message.timestamp_ms),
    "timestamp_ms": lambda message: str(message.timestamp_ms),
    "key": lambda message: _text(message.key),
    "value": lambda message: _text(message.value),
    "headers": lambda message: ",".join(f"{name}={_text(value)}" for name, value in message.headers),
    "size": lambda message: str(len(message.value or b"")),
}
TEMPLATE_FIELDS = ", ".join(f"{{{name}}}" for name in _FIELDS)

_json = json.JSONEncoder(ensure_ascii=False).encode


def format_of(words: str, delimiter: str) -> Format:
    r"""The format that *words* name: `raw`, `json`, `events`, or a template such as `{number}\t{value}`."""
    end = unescaped(delimiter).encode("utf-8", "surrogateescape")
    match words:
        case "raw":
            return lambda messages: _raw(messages, end)
        case "json":
            return lambda messages: _lines(messages, lambda message: _json(json_of(message)), b"\n")
        case "events":
            return lambda messages: _lines(messages, lambda message: _json(event_of(message)), b"\n")
        case _ if "{" in words:
            write = _template(unescaped(words))
            return lambda messages: _lines(messages, write, end)
        case _:
            raise InvalidValue("format", words, "choose raw, json, events, or a template such as '{number} {value}'")


def json_of(message: Message) -> dict[str, Any]:
    """A message as JSON has it: keys and values are text, or base64 under another name."""
    document: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "number": message.number,
        "timestamp": moment(message.timestamp_ms),
        **bytes_pair("key", message.key),
        **bytes_pair("value", message.value),
    }
    if message.headers:
        document["headers"] = [{"name": name, **bytes_pair("value", value)} for name, value in message.headers]
    return document


def _raw(messages: Sequence[Message], end: bytes) -> bytes:
    values = messages.values() if isinstance(messages, Messages) else [message.value for message in messages]
    values.append(b"")  # so that the last one ends like the others
    try:
        return end.join(values)  # type: ignore[arg-type]  # None is rare, and told by the error
    except TypeError:
        return end.join(value or b"" for value in values)


def _lines(messages: Sequence[Message], write: Callable[[Message], str], end: bytes) -> bytes:
    lines = [write(message) for message in messages]
    lines.append("")
    return end.decode("utf-8", "surrogateescape").join(lines).encode("utf-8", "surrogateescape")


def _template(words: str) -> Callable[[Message], str]:
    """A template with names in braces, and nothing else that `str.format` could do: it comes from outside."""
    pieces: list[str | Callable[[Message], str]] = []
    try:
        parsed = list(Formatter().parse(words))
    except ValueError as error:
        raise InvalidValue("format", words, f"{error}; write a brace itself twice") from None
    for text, name, spec, conversion in parsed:
        pieces.append(text)
        if name is None:
            continue
        if name not in _FIELDS or spec or conversion:
            raise InvalidValue("format", words, f"in braces it knows {TEMPLATE_FIELDS}")
        pieces.append(_FIELDS[name])
    return lambda message: "".join(piece if isinstance(piece, str) else piece(message) for piece in pieces)


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8", "surrogateescape")
