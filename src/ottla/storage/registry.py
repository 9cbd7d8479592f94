"""From a URL to an engine. Engines of other packages come in through the entry point group `ottla.engines`."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast
from urllib.parse import parse_qsl

from ottla.clock import Clock, SystemClock
from ottla.errors import InvalidValue, UnknownEngine
from ottla.storage.contract import Engine, EngineFactory, EngineOptions

_BUILT_IN = {
    "memory": "ottla.storage.memory:open_memory",
    "file": "ottla.storage.file:open_file",
    "jsonl": "ottla.storage.jsonl:open_jsonl",
    "grpc": "ottla.storage.remote:open_grpc",
}


def open_engine(url: str, *, clock: Clock | None = None, read_only: bool = False) -> Engine:
    """The engine that *url* names, opened."""
    if not isinstance(url, str) or ":" not in url:
        raise InvalidValue("URL", url, "write it as memory:, file:///folder, jsonl:///folder or grpc://host:port")
    address, _, query = url.partition("?")
    scheme, _, place = address.partition(":")
    scheme = scheme.lower()
    try:
        settings = dict(parse_qsl(query, strict_parsing=True, keep_blank_values=True)) if query else {}
    except ValueError as error:
        raise InvalidValue("URL", url, "write options as ?name=value&name=value") from error
    options = EngineOptions(clock=clock or SystemClock(), read_only=read_only, settings=settings)
    return _factory(scheme, url)(f"{scheme}:{place}", options)


def _factory(scheme: str, url: str) -> EngineFactory:
    if scheme in _BUILT_IN:
        module, _, name = _BUILT_IN[scheme].partition(":")
        return cast("EngineFactory", getattr(import_module(module), name))
    plugins = {point.name: point for point in entry_points(group="ottla.engines")}
    if scheme in plugins:
        return cast("EngineFactory", plugins[scheme].load())
    known = ", ".join(dict.fromkeys([*_BUILT_IN, *sorted(plugins)]))
    raise UnknownEngine("URL", url, f"there is no storage engine for {scheme!r}; known: {known}")
