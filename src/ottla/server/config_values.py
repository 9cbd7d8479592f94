"""Words to values, for the settings of a server: each parser takes what a flag, a variable or a TOML file may hold,
and refuses the rest with a sentence that names its source and shows an example.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ottla.errors import InvalidValue
from ottla.server.addresses import parse_address
from ottla.settings import check_number, format_duration, parse_duration, parse_size

Parse = Callable[[Any, str], Any]
"""The value and the name of its source; raises `InvalidValue`."""

MOST_BROKERS = 64

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_GO_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)")
_MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3}
_MILLISECONDS |= {"ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6, "d": 8.64e7}
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]+")
_ON, _OFF = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}
_PUBLIC_OPTIONS = {"brokers", "network"}


def storage_url(value: Any, source: str) -> str:
    """Where messages are kept: a URL, or a folder."""
    rule = "write it as memory:, file:///data, jsonl:///data or a folder, as in /data"
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue(source, value, rule)
    if not _SCHEME.match(value):
        return f"file://{quote(str(Path(value).expanduser().absolute()))}"
    if value.lower().startswith("grpc:"):
        raise InvalidValue(source, shown_url(value), f"that is another server, and a server needs a store: {rule}")
    return value


def shown_url(url: str) -> str:
    """A URL for people and logs: credentials are left out, and so are options that may be secret."""
    address, _, query = url.partition("?")
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    options = [option.partition("=") for option in query.split("&") if option]
    kept = "&".join(f"{name}={value if name in _PUBLIC_OPTIONS else '…'}" for name, _, value in options)
    place = f"//{host}{parts.path}" if "//" in address else parts.path
    return f"{parts.scheme}:{place}{f'?{kept}' if kept else ''}"


def listening(value: Any, source: str) -> str:
    """An address to listen on. It stays as it was written, so that a missing host can be talked about."""
    parse_address(value, source)
    return str(value)


def host(value: Any, source: str) -> str:
    if not isinstance(value, str) or not _HOST.fullmatch(value):
        raise InvalidValue(source, value, "write a host name without a port, as in log.example.org")
    return value


def duration(value: Any, source: str) -> str:
    """A duration in our words or in Go's (`1h0m0s`), as ours."""
    if isinstance(value, str) and value != "forever" and (pieces := _GO_DURATION.findall(value.strip())):
        milliseconds = sum(float(count) * _MILLISECONDS[unit] for count, unit in pieces)
        if "".join(count + unit for count, unit in pieces) == value.strip() and milliseconds >= 1:
            value = f"{milliseconds:.6f}ms"
    elif not isinstance(value, str):
        raise InvalidValue(source, value, "write it as 500ms, 10s, 5m, 2h, 7d or forever")
    return format_duration(parse_duration(value, source))


def bytes_of(value: Any, source: str) -> int:
    """A size in bytes."""
    size = parse_size(value, source)
    if size is None:
        raise InvalidValue(source, value, "a server has limits: write a size such as 64MiB")
    return size


def number_of(value: Any, source: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    try:
        return check_number(value, source)
    except InvalidValue:
        raise InvalidValue(source, value, "write a whole number of at least 1, as in 512") from None


def brokers(value: Any, source: str) -> int:
    rule = f"write a whole number from 1 to {MOST_BROKERS}, as in 3"
    try:
        count = number_of(value, source)
    except InvalidValue:
        raise InvalidValue(source, value, rule) from None
    if count > MOST_BROKERS:
        raise InvalidValue(source, value, rule)
    return count


def switch(value: Any, source: str) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or value.lower() not in _ON | _OFF:
        raise InvalidValue(source, value, "write true or false")
    return value.lower() in _ON


def choice(*words: str) -> Parse:
    """One of a few words."""

    def parse(value: Any, source: str) -> str:
        if value not in words:
            raise InvalidValue(source, value, f"choose one of {', '.join(words)}, as in {words[0]}")
        return str(value)

    return parse
