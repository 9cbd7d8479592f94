"""Settings are data: what a topic and a log can be told, and the words people write them in.

Durations are words such as `500ms`, `10s`, `5m`, `2h`, `7d` or `forever`; sizes are words such as
`64KiB` or `1GB`. Every check raises `InvalidValue` with the value, the rule and the way out.
"""

import math
import re
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from decimal import Decimal
from operator import index
from typing import Any, Literal, Self, SupportsIndex

from ottla.errors import InvalidValue

MAX_PARTITIONS = 10_000
MAX_BATCH_BYTES = 16 * 2**20
"""The largest stored batch, unless a single message is larger by its topic's own limit."""
LARGEST_MESSAGE_BYTES = 1 << 30
"""What `max_message_bytes` may be raised to: a batch's columns are addressed by 31-bit offsets."""

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LONGEST_MS = 100_000_000 * _MILLISECONDS["d"]
"""Up to here a float of milliseconds is exact."""
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")

_OPTIONAL_NUMBERS = {"retention_ms", "retention_bytes", "segment_ms"}
_NUMBERS = {"partitions", "max_message_bytes", "sync_interval_ms", "segment_bytes", *_OPTIONAL_NUMBERS}


def parse_duration(value: str | float | timedelta | None, what: str = "duration") -> int | None:
    """Milliseconds from words, a number of seconds or a timedelta; `None` from `forever` or `None`."""
    rule = "write it as 500ms, 10s, 5m, 2h, 7d or forever"
    if value is None or value == "forever":
        return None
    if isinstance(value, timedelta):
        milliseconds = value.total_seconds() * 1000
    elif isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise InvalidValue(what, value, rule)
        milliseconds = float(match[1]) * _MILLISECONDS[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        milliseconds = value * 1000
    else:
        raise InvalidValue(what, value, rule)
    if not 1 <= milliseconds <= _LONGEST_MS:  # NaN fails too
        raise InvalidValue(what, value, f"it must be from 1ms to {format_duration(_LONGEST_MS)}; {rule}")
    return round(milliseconds)


def format_duration(milliseconds: int | None) -> str:
    """The shortest exact words for a number of milliseconds."""
    if milliseconds is None:
        return "forever"
    unit = next(u for u in ("d", "h", "m", "s", "ms") if milliseconds % _MILLISECONDS[u] == 0)
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def parse_size(value: str | int | None, what: str = "size") -> int | None:
    """Bytes from words or a number; `None` from `unlimited` or `None`."""
    rule = "write it as a whole number of bytes, 64KiB, 10MB, 1GiB or unlimited"
    if value is None or value == "unlimited":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        prefix = (match[2] or "").upper()
        base = 1024 if prefix.endswith("I") else 1000
        size = int(Decimal(match[1]) * base ** (" KMGT".index(prefix[0]) if prefix else 0))
    else:
        raise InvalidValue(what, value, rule)
    if not 1 <= size < 2**63:
        raise InvalidValue(what, value, f"it must be from 1 byte to 8 EiB; {rule}")
    return size


def check_name(value: object, what: str = "topic name") -> str:
    """The name itself, or one sentence about why it is none."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or value in {".", ".."}:
        raise InvalidValue(what, value, "use 1 to 249 of the characters A-Z a-z 0-9 . _ - (and not . or ..)")
    return value


def check_number(value: object, what: str, *, least: int = 1) -> int:
    """A whole number of at least *least* that fits into 63 bits; numpy's will do."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or not least <= index(value) < 2**63:
        raise InvalidValue(what, value, f"it must be a whole number of at least {least} and below 2**63")
    return index(value)


def check_timeout(value: float | None) -> float:
    """Seconds; infinitely many for `None`."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidValue("timeout", value, "give seconds, at least 0, or None to wait for ever")
    return float(value) if value < 2**53 else math.inf  # also for a whole number that no float can be


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What a topic can be told. Every field has a default that loses nothing."""

    partitions: int = 1
    partitioner: str = "round-robin"
    """`round-robin`, `key-hash`, `json-field:<name>`, or the name of a registered one."""
    retention_ms: int | None = None
    """Messages older than this are removed, whole segments at a time; `None` keeps them forever."""
    retention_bytes: int | None = None
    """The oldest segments of a partition are removed while it is larger than this."""
    max_message_bytes: int = 8 * 2**20
    """A larger message (value, key and headers together) is refused."""
    sync: Literal["always", "interval", "never"] = "always"
    """When appended bytes are made durable: before acknowledging, at intervals, or when the system likes."""
    sync_interval_ms: int = 1000
    """The most that `sync="interval"` can lose when the machine stops; a killed process loses nothing."""
    segment_bytes: int = 128 * 2**20
    """A segment is sealed when it has grown to this size."""
    segment_ms: int | None = None
    """A segment is sealed at this age; `None` seals by size, and by a tenth of the retention where one is set."""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            if getattr(self, name) is not None or name not in _OPTIONAL_NUMBERS:
                object.__setattr__(self, name, check_number(getattr(self, name), name))
        if self.partitions > MAX_PARTITIONS:
            raise InvalidValue("partitions", self.partitions, f"a topic has at most {MAX_PARTITIONS:,}")
        if not isinstance(self.partitioner, str) or not self.partitioner:
            raise InvalidValue("partitioner", self.partitioner, "name one, such as round-robin or key-hash")
        if self.max_message_bytes > LARGEST_MESSAGE_BYTES:
            raise InvalidValue("max_message_bytes", self.max_message_bytes, f"at most {LARGEST_MESSAGE_BYTES:,}")
        if self.sync not in ("always", "interval", "never"):  # not a set: it may be unhashable
            raise InvalidValue("sync", self.sync, "choose always, interval or never")

    @property
    def roll_ms(self) -> int | None:
        """The age at which a segment is sealed, so that whole segments expire close to their time."""
        by_retention = None if self.retention_ms is None else max(self.retention_ms // 10, 10)
        ages = [age for age in (self.segment_ms, by_retention) if age is not None]
        return min(ages, default=None)

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment is sealed, so that a partition stays close to its size limit."""
        by_retention = self.segment_bytes if self.retention_bytes is None else max(self.retention_bytes // 10, 2**16)
        return min(self.segment_bytes, by_retention)

    def changed(self, **words: Any) -> Self:
        """A copy with changes in people's words: `retention="7d"`, `retention_bytes="1GiB"`."""
        return replace(self, **_from_words(words))

    @classmethod
    def of(cls, **words: Any) -> Self:
        """Settings in people's words."""
        return cls(**_from_words(words))

    def to_json(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """Settings as they were stored; a field that a newer version added is ignored."""
        known = {f.name for f in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


def _from_words(words: dict[str, Any]) -> dict[str, Any]:
    """Translate words to fields: `retention` and the like are durations, `…_bytes` are sizes."""
    known = {f.name for f in fields(TopicSettings)} | {"retention", "segment_age", "sync_interval"}
    values: dict[str, Any] = {}
    for name, value in words.items():
        if name not in known:
            raise InvalidValue("topic setting", name, f"known are {', '.join(sorted(known))}")
        match name:
            case "retention" | "segment_age" | "sync_interval":
                values[{"segment_age": "segment_ms"}.get(name, f"{name}_ms")] = parse_duration(value, name)
            case _ if name.endswith("_bytes"):
                values[name] = parse_size(value, name)
            case _:
                values[name] = value
    return values
