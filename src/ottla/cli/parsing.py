"""From lines to messages: plain ones, ones with a key in front, JSON with a key inside, and events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.cli.events import Event, key_in, parse_object, read_event
from ottla.cli.exits import Failure, say
from ottla.clock import Clock
from ottla.errors import InvalidValue


@dataclass(slots=True)
class Lot:
    """Messages for one topic, in order."""

    topic: str
    values: list[bytes]
    keys: list[bytes | None] | None = None
    timestamps: list[int] | None = None

    def slice(self, start: int, stop: int) -> "Lot":
        return Lot(
            self.topic,
            self.values[start:stop],
            None if self.keys is None else self.keys[start:stop],
            None if self.timestamps is None else self.timestamps[start:stop],
        )


class Plain:
    """Each line is a value, and nothing is looked at."""

    skipped = 0

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def lots(self, lines: list[bytes]) -> Iterator[Lot]:
        yield Lot(self._topic, lines)


class Parsed:
    """Each line is read by a function. A line that it refuses ends the work, or is skipped with a word about it.

    What came before a refused line is handed on first.
    """

    def __init__(self, read: Callable[[bytes], Event | None], *, skip: bool) -> None:
        self._read = read
        self._skip = skip
        self._line = 0
        self.skipped = 0

    def lots(self, lines: list[bytes]) -> Iterator[Lot]:
        lots: dict[str, Lot] = {}
        failure = None
        for line in lines:
            self._line += 1
            try:
                _add(lots, self._read(line))
            except InvalidValue as error:
                if not self._skip:
                    failure = Failure(f"line {self._line:,}: {error}")
                    break
                self.skipped += 1
                say(f"line {self._line:,} is left out: {error}")
        yield from lots.values()
        if failure is not None:
            raise failure


Parser = Plain | Parsed


def _add(lots: dict[str, Lot], event: Event | None) -> None:
    if event is None:
        return
    lot = lots.get(event.topic)
    if lot is None:
        lot = lots[event.topic] = Lot(event.topic, [], [], None if event.timestamp_ms is None else [])
    assert lot.keys is not None
    lot.values.append(event.value)
    lot.keys.append(event.key)
    if lot.timestamps is not None and event.timestamp_ms is not None:
        lot.timestamps.append(event.timestamp_ms)


def with_separator(topic: str, separator: bytes) -> Callable[[bytes], Event | None]:
    """Lines of a key, the separator and the value."""

    def read(line: bytes) -> Event:
        key, found, value = line.partition(separator)
        if not found:
            raise InvalidValue("line", line, f"the key's separator {separator.decode(errors='replace')!r} is not in it")
        return Event(topic, value, key, None)

    return read


def with_key_field(topic: str, key_field: str) -> Callable[[bytes], Event | None]:
    """Lines of JSON that stay as they are; the key is what one of their fields holds. Blank lines are nothing."""
    return lambda line: Event(topic, line, key_in(parse_object(line), key_field), None) if line.strip() else None


def with_events(topic: str | None, key_field: str | None, clock: Clock) -> Callable[[bytes], Event | None]:
    """Lines of events (row W1). Blank lines are nothing."""
    return lambda line: read_event(line, topic, key_field, clock.now_ms()) if line.strip() else None
