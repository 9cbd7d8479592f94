"""MiniKafka's own programs (row M11), typed as they always were: `mkfk-producer -host localhost:9999 -topic foo`.

They speak MiniKafka's service, so they work with its original server too.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from ottla.cli.exits import AWAY, FAILED, MISSING, Failure, ended
from ottla.errors import MissingDependency

TIMEOUT_S = 0.5
POLL_EVERY_S = 3.0
_FULL_BYTES = 3 * 2**20
"""An answer as large as this was cut short, and the rest is asked for at once."""


def producer() -> NoReturn:
    """`mkfk-producer`: one message for each line of standard input; prints their numbers."""
    chosen = _parse("mkfk-producer", "Send each line of standard input as a message, and print the message numbers.")
    sys.exit(ended(lambda: _produce(chosen.host, chosen.topic), "mkfk-producer"))


def consumer() -> NoReturn:
    """`mkfk-consumer`: prints messages from the first on, and looks for more every three seconds."""
    chosen = _parse("mkfk-consumer", "Print the messages of a topic from the first on, and look for more every 3 s.")
    sys.exit(ended(lambda: _consume(chosen.host, chosen.topic), "mkfk-consumer"))


def server() -> NoReturn:
    """`mkfk-server`: MiniKafka's server, set up by its environment."""
    from ottla.cli.serve import minikafka_server  # noqa: PLC0415  (the other two need none of a server's packages)

    sys.exit(ended(minikafka_server, "mkfk-server"))


def _parse(program: str, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(program, description=description)
    parser.add_argument("-host", "--host", default="localhost:9999", help="the server (default: %(default)s)")
    parser.add_argument("-topic", "--topic", required=True, help="the topic")
    return parser.parse_args()


def _produce(host: str, topic: str) -> None:
    service, pb = _service(host)
    for line in sys.stdin.buffer:
        payload = pb.Payload(payload=line.removesuffix(b"\n"))
        request = pb.ProduceRequest(topic=pb.Topic(topic=topic), payload=payload)
        number = _call(host, service.Produce, request).msg_number
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def _consume(host: str, topic: str) -> None:
    service, pb = _service(host)
    position = pb.MsgNumber(msg_number=1)
    while True:
        answer = _call(host, service.Poll, pb.PollRequest(topic=topic, read_from=position))
        position = answer.new_read_from
        sys.stdout.write(f"{len(answer.payloads)} messages, next is {position.msg_number}\n")
        sys.stdout.flush()
        sys.stdout.buffer.writelines(payload.payload + b"\n" for payload in answer.payloads)
        sys.stdout.buffer.flush()
        if answer.ByteSize() < _FULL_BYTES:
            time.sleep(POLL_EVERY_S)


def _service(host: str) -> tuple[Any, Any]:
    """MiniKafka's service at a host, and its messages."""
    try:
        import grpc  # noqa: PLC0415  (optional)

        from ottla.minikafka import minikafka_pb2  # noqa: PLC0415  (it needs protobuf)
        from ottla.protocol.services import MINIKAFKA_SERVICE, Stub  # noqa: PLC0415  (it needs gRPC)
    except ImportError as error:
        raise MissingDependency("MiniKafka's service", error.name or "grpcio", "'ottla[server]'") from error
    return Stub(grpc.insecure_channel(host), MINIKAFKA_SERVICE), minikafka_pb2


def _call(host: str, method: Callable[..., Any], request: object) -> Any:
    """One call within the time-out; whatever fails is one sentence."""
    import grpc  # noqa: PLC0415  (optional, and there by now)

    try:
        return method(request, timeout=TIMEOUT_S)
    except grpc.RpcError as error:
        status: Any = error
        details = (status.details() or status.code().name).replace("\n", " ")
        if status.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}:
            raise Failure(f"no server answers at {host} within {TIMEOUT_S} s ({details})", AWAY) from None
        code = MISSING if status.code() == grpc.StatusCode.NOT_FOUND else FAILED
        raise Failure(details, code) from None
