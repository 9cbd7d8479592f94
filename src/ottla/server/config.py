"""What a server is told, and by whom: flags, then the environment, then a file, then defaults.

    flags         ottla serve /data --grpc :9999 --retention 7d
    environment   OTTLA_URL, OTTLA_GRPC, OTTLA_RETENTION …; weaker, those of the original MiniKafka:
                  MINIKAFKA_ROOT_DIR, MINIKAFKA_HOST, MINIKAFKA_RETENTIONTIME
    file          the table [serve] of the first of --config, OTTLA_CONFIG, ./ottla.toml, ~/.config/ottla/ottla.toml
    defaults      `SETTINGS`

Every value remembers where it came from. A wrong one is refused with a sentence that shows a right one; nothing
is guessed and nothing is read from anywhere else.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from ottla.errors import InvalidValue, OttlaError, UnsupportedFormat
from ottla.server.addresses import check_exposed, parse_address
from ottla.server.config_values import (
    Parse,
    brokers,
    bytes_of,
    choice,
    duration,
    host,
    listening,
    number_of,
    shown_url,
    storage_url,
    switch,
)
from ottla.storage import open_engine

FILE_NAME = "ottla.toml"
LOG_FORMATS = ("auto", "text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


class Setting(NamedTuple):
    """One thing that a server can be told."""

    name: str
    parse: Parse
    default: Any
    about: str
    seed: str = ""
    """What the original MiniKafka calls it in the environment."""

    @property
    def variable(self) -> str:
        return f"OTTLA_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return "URL" if self.name == "url" else f"--{self.name.replace('_', '-')}"


SETTINGS = (
    Setting("url", storage_url, "memory:", "where messages are kept", "MINIKAFKA_ROOT_DIR"),
    Setting("grpc", listening, "127.0.0.1:9999", "where gRPC clients connect", "MINIKAFKA_HOST"),
    Setting("advertise", host, None, "the host that clients are told, if not the one that is listened on"),
    Setting("retention", duration, "forever", "how long new topics keep messages", "MINIKAFKA_RETENTIONTIME"),
    Setting("brokers", brokers, 1, "how many processes serve"),
    Setting("max_in_flight", bytes_of, "64MiB", "bytes held for all producers of a broker"),
    Setting("max_call_bytes", bytes_of, "32MiB", "the largest request"),
    Setting("max_streams", number_of, 512, "how many streams of each kind a broker holds"),
    Setting("metrics", listening, None, "where Prometheus fetches metrics by HTTP"),
    Setting("insecure", switch, False, "listen where others can reach it, without encryption and authentication"),
    Setting("log_format", choice(*LOG_FORMATS), "auto", "text, JSON lines, or whichever suits the terminal"),
    Setting("log_level", choice(*LOG_LEVELS), "info", "how much is logged"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What a server runs with. Addresses are checked words; `None` is off."""

    url: str = field(repr=False)  # it may hold credentials
    grpc: str
    advertise: str | None
    retention: str
    brokers: int
    max_in_flight: int
    max_call_bytes: int
    max_streams: int
    metrics: str | None
    insecure: bool
    log_format: str
    log_level: str

    def to_json(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


class Found(NamedTuple):
    """One setting in force, or what is wrong with it."""

    setting: Setting
    value: Any
    source: str
    problem: OttlaError | None = None

    @property
    def shown(self) -> Any:
        """The value without what may be secret."""
        return shown_url(str(self.value)) if self.setting.name == "url" else self.value


class Findings:
    """Every setting with its source."""

    def __init__(self, rows: list[Found]) -> None:
        self.rows = rows
        self._by_name = {row.setting.name: row for row in rows}

    def __getitem__(self, name: str) -> Found:
        return self._by_name[name]

    def problems(self) -> list[OttlaError]:
        """Everything that is wrong, each in one sentence."""
        single = [row.problem for row in self.rows if row.problem is not None]
        return single or list(self._contradictions())

    def settings(self) -> ServeSettings:
        """All of them, or the first problem raised."""
        for problem in self.problems():
            raise problem
        return ServeSettings(**{name: row.value for name, row in self._by_name.items()})

    def notices(self) -> list[str]:
        """What a person should know, though nothing is wrong."""
        said = []
        if self["url"].source == "default":
            said.append(
                "no URL and no root directory are given: messages are kept in memory, and nothing survives "
                "a restart (to keep them: ottla serve /data)"
            )
        for name in ("grpc", "metrics"):
            row = self[name]
            if row.problem is None and isinstance(row.value, str) and row.value.startswith(":"):
                said.append(f"{row.source} {row.value} names no host: only this machine can connect (127.0.0.1)")
        return said

    def _contradictions(self) -> Iterator[OttlaError]:
        url, count, insecure = self["url"], self["brokers"], self["insecure"].value
        if count.value > 1 and url.value.startswith("memory:"):
            rule = "each broker would have a memory of its own: give a folder, as in ottla serve /data --brokers 3"
            yield InvalidValue(count.source, count.value, rule)
        for row in (self["grpc"], self["metrics"]):
            if row.value is not None:
                try:
                    check_exposed(parse_address(row.value), insecure=insecure)
                except InvalidValue as problem:
                    yield InvalidValue(row.source, row.value, problem.rule)
        try:
            open_engine(url.value, read_only=True).close()
        except InvalidValue as problem:
            if problem.what != "folder":  # which the server will make
                yield InvalidValue(url.source, url.shown, problem.rule)  # its own sentence might show credentials
        except UnsupportedFormat as problem:
            yield problem
        except (OttlaError, OSError):
            pass  # whether the place is there and can be used shows when it is opened


def find_settings(
    flags: Mapping[str, Any], environment: Mapping[str, str], *, config: str | None = None, files: bool = True
) -> Findings:
    """Every setting, by the strongest source that has it; without *files* no file is looked at."""
    path, stored = _file(environment, config) if files else ("", {})
    return Findings([_found(setting, flags, environment, path, stored) for setting in SETTINGS])


def _found(
    setting: Setting, flags: Mapping[str, Any], environment: Mapping[str, str], path: str, stored: Mapping[str, Any]
) -> Found:
    for source, value in _sources(setting, flags, environment, path, stored):
        try:
            return Found(setting, setting.parse(value, source), source)
        except InvalidValue as problem:
            return Found(setting, value, source, problem)
    default = None if setting.default is None else setting.parse(setting.default, setting.name)
    return Found(setting, default, "default")


def _sources(
    setting: Setting, flags: Mapping[str, Any], environment: Mapping[str, str], path: str, stored: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Who says something about a setting, the strongest first. An empty variable says nothing."""
    if flags.get(setting.name) is not None:
        yield setting.flag, flags[setting.name]
    for variable in (setting.variable, setting.seed):
        if environment.get(variable):
            yield variable, environment[variable]
    if setting.name in stored:
        yield f"{setting.name} in {path}", stored[setting.name]


def _file(environment: Mapping[str, str], config: str | None) -> tuple[str, dict[str, Any]]:
    """The file's name and its table; a file that is named must be there."""
    named = config or environment.get("OTTLA_CONFIG")
    if named:
        return named, _read(Path(named).expanduser(), "--config" if config else "OTTLA_CONFIG")
    home = Path(environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME") or "/nowhere", ".config"))
    for path in (Path(FILE_NAME), home / "ottla" / FILE_NAME):
        if path.is_file():
            return str(path), _read(path, "the file")
    return "", {}


def _read(path: Path, source: str) -> dict[str, Any]:
    example = f'write it as [serve], then lines such as grpc = "127.0.0.1:9999"; a name is one of {_names()}'
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(source, str(path), f"it cannot be read ({error.strerror})") from None
    except ValueError as error:  # a UnicodeDecodeError is one too
        raise InvalidValue(source, str(path), f"it is not TOML ({error}): {example}") from None
    loose = [name for name, value in document.items() if not isinstance(value, dict)]
    table = document.get("serve", {})
    stored = {name.replace("-", "_"): value for name, value in table.items()} if isinstance(table, dict) else {}
    unknown = [*loose, *(name for name in stored if name not in {setting.name for setting in SETTINGS})]
    if unknown:
        raise InvalidValue(f"{path}:", unknown[0], example)
    return stored


def _names() -> str:
    return ", ".join(setting.name for setting in SETTINGS)
