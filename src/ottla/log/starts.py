"""Where to start reading: from people's words to a `Start`, and from a `Start` to a message number.

A time is a moment, so it needs a time zone: a datetime or a text without one is refused, never guessed at.
"""

from datetime import datetime

from ottla.clock import Clock
from ottla.errors import InvalidValue
from ottla.model import At, Earliest, Latest, Since, Start
from ottla.settings import check_number, parse_duration
from ottla.storage import PartitionStore

StartWords = Start | str | int | datetime
"""`earliest`, `latest`, a message number, a datetime, `2h ago`, or a time such as `2030-01-31T12:00:00Z`."""

_RULE = "write earliest, latest, a message number, a datetime, 2h ago or a time such as 2030-01-31T12:00:00Z"
_ZONE = "say the time zone, as in 2030-01-31T12:00:00Z or datetime(2030, 1, 31, tzinfo=timezone.utc)"


def parse_start(value: StartWords, clock: Clock, what: str = "start") -> Start:
    """The start that *value* means now, by *clock*."""
    match value:
        case Earliest() | Latest() | Since():
            return value
        case At(number):
            return At(check_number(number, what))
        case "earliest" | "latest":
            return Earliest() if value == "earliest" else Latest()
        case datetime():
            return _since(value, value, what)
        case str():
            return _parse_text(value, clock, what)
        case int() if not isinstance(value, bool):
            return At(check_number(value, what))
        case _:
            raise InvalidValue(what, value, _RULE)


def locate(start: Start, partition: PartitionStore) -> int:
    """The number of the first message to read in one partition, as things are now."""
    match start:
        case Earliest():
            return partition.bounds().first
        case Latest():
            return partition.bounds().next
        case At(number):
            return number
        case Since(timestamp_ms):
            return partition.find(timestamp_ms)


def _parse_text(text: str, clock: Clock, what: str) -> Start:
    if text.rstrip().endswith(" ago"):
        age_ms = parse_duration(text.rstrip().removesuffix(" ago"), what)
        if age_ms is None:
            raise InvalidValue(what, text, _RULE)
        return Since(max(clock.now_ms() - age_ms, 0))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidValue(what, text, _RULE) from None
    return _since(moment, text, what)


def _since(moment: datetime, value: object, what: str) -> Since:
    if moment.tzinfo is None:
        raise InvalidValue(what, value, _ZONE)
    return Since(max(round(moment.timestamp() * 1000), 0))
