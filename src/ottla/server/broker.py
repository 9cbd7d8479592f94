"""One broker: the log that its settings name, the server on it and the endpoint for metrics, in this process.

`python -m ottla.server.broker` is such a process under a supervisor. They speak by pipes, in lines of JSON: on
standard input the settings come first, then the list of brokers whenever it changes; on standard output the
broker says where it listens, or why it cannot. When its input ends, the supervisor is gone, and it stops.
"""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TextIO

from prometheus_client import start_http_server

import ottla
from ottla.client.log import Log
from ottla.errors import InvalidValue, OttlaError
from ottla.protocol.errors import encode_error
from ottla.server.addresses import Address, parse_address
from ottla.server.cluster import Cluster, Member
from ottla.server.config import ServeSettings
from ottla.server.logs import configure_logs
from ottla.server.server import Server

_UNSPECIFIED = {"0.0.0.0", "::"}  # noqa: S104  (recognised, not bound)


class Listening(NamedTuple):
    """Where a broker is reached."""

    id: int
    grpc: str
    """As clients are told."""
    bound: str
    metrics: str | None
    pid: int


class Broker:
    """Runs one server by its settings, the only one or one of several."""

    def __init__(self, settings: ServeSettings, *, number: int = 1, members: "Membership | None" = None) -> None:
        self._settings = settings
        self._id = number
        self._members = members
        self._starting = threading.Lock()
        self._log: Log | None = None
        self._server: Server | None = None
        self._close_metrics: Callable[[], None] | None = None

    def start(self) -> list[Listening]:
        """Open the log and listen."""
        settings = self._settings
        with self._starting:
            self._log = ottla.open(settings.url)
            self._server = server = Server(
                self._log,
                max_in_flight=settings.max_in_flight,
                max_call_bytes=settings.max_call_bytes,
                max_streams=settings.max_streams,
                insecure=settings.insecure,
                cluster=Cluster(self._id, self._members.current if self._members is not None else self._alone),
            )
            metrics = self._start_metrics(server)
            address = server.start(settings.grpc, retention=settings.retention)
        return [Listening(self._id, self._advertised(address), str(address), metrics, os.getpid())]

    def wait(self) -> None:
        """Until it has stopped; raises what made it stop, if that was an error."""
        if self._server is not None:
            self._server.wait()

    def stop(self) -> None:
        """Finish what was accepted; one that is just starting stops after that. Harmless when repeated."""
        with self._starting:
            if self._server is not None:
                self._server.stop()

    def kill(self) -> None:
        """Nothing but this process has to end."""

    def close(self) -> None:
        """Give up everything else, after it has stopped."""
        if self._close_metrics is not None:
            self._close_metrics()
        if self._log is not None:
            self._log.close()

    def _alone(self) -> list[Member]:
        assert self._server is not None
        return [Member(1, self._advertised(self._server.address))]

    def _advertised(self, address: Address) -> str:
        """The address as clients are told."""
        here = socket.gethostname() if address.host in _UNSPECIFIED else address.host
        return str(address._replace(host=self._settings.advertise or here))

    def _start_metrics(self, server: Server) -> str | None:
        if self._settings.metrics is None:
            return None
        where = parse_address(self._settings.metrics)
        try:
            endpoint, thread = start_http_server(where.port, where.host, server.metrics.registry)
        except OSError as error:
            rule = f"metrics cannot be served there ({error.strerror}): choose another, as in 127.0.0.1:9400"
            raise InvalidValue("address", str(where), rule) from None

        def close() -> None:
            endpoint.shutdown()
            endpoint.server_close()
            thread.join()

        self._close_metrics = close
        return str(where._replace(port=endpoint.server_port))


def settings_of(settings: ServeSettings, number: int) -> ServeSettings:
    """The settings of one of several brokers: ports are consecutive, and text files are named for their broker."""
    url = settings.url
    if url.startswith("jsonl:") and "brokers=" not in url:
        url += f"{'&' if '?' in url else '?'}brokers={settings.brokers}"
    return replace(
        settings, url=url, grpc=_nth(settings.grpc, number), metrics=settings.metrics and _nth(settings.metrics, number)
    )


def _nth(address: str, number: int) -> str:
    where = parse_address(address)
    return str(where._replace(port=where.port + number - 1) if where.port else where)


class Membership:
    """The brokers as the supervisor last described them; until then, as many as there are to be."""

    def __init__(self, brokers: int) -> None:
        self._members = [Member(number, "", alive=False) for number in range(1, brokers + 1)]

    def current(self) -> list[Member]:
        return self._members

    def replace(self, described: list[dict[str, Any]]) -> None:
        self._members = [Member(**member) for member in described]


def main() -> int:
    """The process under a supervisor; returns its exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the supervisor, which says what to do
    told = json.loads(sys.stdin.readline())
    settings, number = ServeSettings(**told["settings"]), told["broker"]
    configure_logs(settings.log_format, settings.log_level, broker=number)
    members = Membership(settings.brokers)
    broker = Broker(settings, number=number, members=members)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=broker.stop, daemon=True).start())
    try:
        (listening,) = broker.start()
        _say(listening._asdict())
        threading.Thread(target=_follow, args=(sys.stdin, members, broker), daemon=True).start()
        broker.wait()
    except (OttlaError, OSError) as error:
        sent = encode_error(error)
        message = sent.message if isinstance(error, OttlaError) else str(error)
        _say({"error": {"name": sent.name, "message": message, "facts": sent.facts}})
        return 1
    finally:
        broker.close()
    return 0


def _follow(lines: TextIO, members: Membership, broker: Broker) -> None:
    """Take the supervisor's news until there are none any more: then it is gone."""
    for line in lines:
        members.replace(json.loads(line))
    broker.stop()


def _say(line: dict[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        pass  # the supervisor is gone, and this process will stop by itself


if __name__ == "__main__":
    sys.exit(main())
