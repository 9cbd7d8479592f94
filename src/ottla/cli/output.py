"""What commands print: tables on a terminal, tab-separated lines in a pipe, JSON when asked for."""

import base64
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_THOUSAND = 1000


class Column(NamedTuple):
    """A column: its title, the field of each row that it shows, and how a person likes to read it."""

    title: str
    field: str
    shown: Callable[[Any], str] = str
    right: bool = False


def number(value: float) -> str:
    return f"{value:,.0f}"


def counted(count: int, noun: str) -> str:
    """So many of them, in words: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(value: float) -> str:
    """Bytes in the unit that fits."""
    for unit in _UNITS:
        if value < _THOUSAND or unit == _UNITS[-1]:
            break
        value /= _THOUSAND
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


@lru_cache(maxsize=4096)
def moment(timestamp_ms: int) -> str:
    """A time as ISO 8601 says it, in UTC, with milliseconds."""
    try:
        when = datetime.fromtimestamp(timestamp_ms // _THOUSAND, UTC)
    except (ValueError, OverflowError, OSError):  # before year 1 or after 9999
        return str(timestamp_ms)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % _THOUSAND:03d}Z"


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, as_json: bool) -> None:
    """Rows in the way that suits whoever reads them."""
    if as_json:
        show_json(rows)
    elif sys.stdout.isatty():
        _show_table(rows, columns)
    else:
        lines = [[column.title for column in columns]]
        lines += [["" if row[column.field] is None else str(row[column.field]) for column in columns] for row in rows]
        sys.stdout.writelines("\t".join(line) + "\n" for line in lines)


def _show_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    from rich.console import Console  # noqa: PLC0415  (it takes a while, and only a terminal needs it)
    from rich.table import Table  # noqa: PLC0415  (likewise)
    from rich.text import Text  # noqa: PLC0415  (likewise)

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(column, row)) for column in columns))
    Console().print(table)


def _cell(column: Column, row: Mapping[str, Any]) -> str:
    value = row[column.field]
    return "" if value is None else column.shown(value)


def show_json(document: object) -> None:
    """A document on one line, or on many for a person."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=indent) + "\n")


def show_text(text: str) -> None:
    sys.stdout.write(text + "\n")


def bytes_pair(name: str, content: bytes | None) -> dict[str, str | None]:
    """Bytes under a name for JSON: as text where they are text, else under `<name>_base64`."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}
