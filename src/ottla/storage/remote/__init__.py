"""The `grpc:` engine: a log on a server, reached over the network."""

from urllib.parse import urlsplit

from ottla.errors import InvalidValue, MissingDependency
from ottla.settings import parse_duration
from ottla.storage.contract import Engine, EngineOptions

_EXAMPLE = "write it as grpc://host:port, as in grpc://127.0.0.1:9999"
_FOREVER_MS = 10 * 365 * 86_400_000


def open_grpc(url: str, options: EngineOptions) -> Engine:
    """The log of the server at `grpc://host:port`, or of several at `grpc://one:9999,another:9999`.

    Nothing is connected before the first use. `?timeout=30s` says how long a call may take, the time to find a
    server that is away for a while included.
    """
    addresses = _addresses(url)
    timeout_ms = _timeout_ms(dict(options.settings))
    try:
        from ottla.storage.remote.engine import RemoteEngine  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise MissingDependency("grpc://", error.name or "protobuf", "'ottla[server]'") from error
    return RemoteEngine(addresses, timeout_ms / 1000, options)


def _addresses(url: str) -> list[tuple[str, int]]:
    _, slashes, place = url.partition("://")
    place = place.removesuffix("/")
    if not slashes or any(stranger in place for stranger in "/@#"):
        raise InvalidValue("URL", url, _EXAMPLE)
    return [_address(address, url) for address in place.split(",")]


def _address(address: str, url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InvalidValue("URL", url, _EXAMPLE)
    return host, port


def _timeout_ms(settings: dict[str, str]) -> int:
    timeout = settings.pop("timeout", "30s")
    if settings:
        raise InvalidValue("URL option", next(iter(settings)), "grpc:// has one, timeout, as in ?timeout=30s")
    return parse_duration(timeout, "timeout") or _FOREVER_MS
