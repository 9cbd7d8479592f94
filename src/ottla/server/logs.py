"""The server's log on standard error: lines for people on a terminal, JSON lines for everything else.

A line of JSON has `time`, `level`, `logger` and `message`; what happened to the server itself also has an `event`
(started, stopping, stopped, failed, broker_started, broker_ended) and its facts. Messages, keys and
credentials are never logged.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(log_format: str, level: str, *, broker: int | None = None, stream: TextIO | None = None) -> None:
    """Send what ottla logs, and what others warn of, to *stream*; replaces what was configured before."""
    stream = stream or sys.stderr
    as_text = log_format == "text" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Text(broker) if as_text else JsonLines(broker))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("ottla").setLevel(level.upper())


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, broker: int | None = None) -> None:
        super().__init__()
        self._broker = broker

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _moment(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if self._broker is not None:
            line["broker"] = self._broker
        line |= {name: fact for name, fact in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class Text(logging.Formatter):
    """A line for people, and a traceback where there is one."""

    def __init__(self, broker: int | None = None) -> None:
        super().__init__()
        self._prefix = "" if broker is None else f"broker {broker}: "

    def format(self, record: logging.LogRecord) -> str:
        when = _moment(record).astimezone()
        line = f"{when:%H:%M:%S} {record.levelname.lower():8} {self._prefix}{record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
