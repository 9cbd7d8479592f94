"""`ottla brokers`: which broker owns which partitions, and where they stand (row W3).

For scripts one line for each broker, as Wafka has it, with the newest message of each partition:

    {"broker_id": 1, "partitions": {"deliveries": {"messages": [{"event_id": …}], "next_offset": 54}}}

A partition of a topic that has several is named `deliveries/0`, `deliveries/1` …; no topic's name has a slash.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from ottla.cli.events import event_of
from ottla.cli.options import DEFAULT_URL, AsJson, Url, as_url, opened_for_reading
from ottla.cli.output import Column, number, show_rows
from ottla.errors import InvalidValue, MissingDependency, ServerUnavailable
from ottla.model import Message

if TYPE_CHECKING:  # it needs protobuf, which is optional
    from ottla.v1 import log_pb2 as pb

EXAMPLES = ("ottla brokers --url grpc://127.0.0.1:9999", "ottla brokers --json")

_PORT = 9999
_TIMEOUT_S = 10.0
_LONGEST_MESSAGE = 60

_COLUMNS = [
    Column("BROKER", "broker", number, right=True),
    Column("ADDRESS", "address"),
    Column("STATE", "state"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition", number, right=True),
    Column("NEXT", "next", number, right=True),
    Column("CURRENT MESSAGE", "message"),
]


def brokers(*, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Each broker's partitions, the number that comes next in each, and its newest message."""
    cluster = _described(as_url(url))
    if as_json:
        sys.stdout.writelines(json.dumps(broker, ensure_ascii=False) + "\n" for broker in as_wafka_has_it(cluster))
    else:
        show_rows(list(_rows(cluster)), _COLUMNS, as_json=False)


def as_wafka_has_it(cluster: "pb.Cluster") -> Iterator[dict[str, Any]]:
    """One object for each broker."""
    partitions = Counter(partition.topic for broker in cluster.brokers for partition in broker.partitions)
    for broker in cluster.brokers:
        owned = {}
        for partition in broker.partitions:
            name = partition.topic if partitions[partition.topic] == 1 else f"{partition.topic}/{partition.partition}"
            current = [event_of(_message(partition))] if partition.HasField("message") else []
            owned[name] = {"messages": current, "next_offset": partition.next_number}
        yield {"broker_id": broker.id, "partitions": owned}


def _rows(cluster: "pb.Cluster") -> Iterator[dict[str, Any]]:
    for broker in cluster.brokers:
        row = {"broker": broker.id, "address": broker.address, "state": "alive" if broker.alive else "away"}
        if not broker.partitions:
            yield row | {"topic": None, "partition": None, "next": None, "message": None}
        for partition in broker.partitions:
            yield row | {
                "topic": partition.topic,
                "partition": partition.partition,
                "next": partition.next_number,
                "message": _shortened(partition.message.value) if partition.HasField("message") else None,
            }


def _described(url: str) -> "pb.Cluster":
    """The brokers of a server; a log without one is described as its server would."""
    try:
        from ottla.server.cluster import Cluster, ClusterCalls, Member  # noqa: PLC0415  (it needs gRPC)
        from ottla.v1 import log_pb2 as pb  # noqa: PLC0415  (it needs protobuf)
    except ImportError as error:
        raise MissingDependency("ottla brokers", error.name or "grpcio", "'ottla[server]'") from error
    if url.startswith("grpc:"):
        return _asked(_address(url), pb.DescribeClusterRequest(with_messages=True))
    with opened_for_reading(url) as log:
        count = int(parse_qs(urlsplit(url).query).get("brokers", ["1"])[0])
        members = [Member(broker, "", alive=False) for broker in range(1, count + 1)]
        calls = ClusterCalls(log, Cluster(1, lambda: members))
        return calls.describe(with_messages=True)


def _address(url: str) -> str:
    """The first server that a URL names: any broker knows all of them."""
    try:
        place = urlsplit(url.partition(",")[0])
        port = place.port
    except ValueError:
        raise InvalidValue("URL", url, "write it as grpc://host:port, as in grpc://127.0.0.1:9999") from None
    return place.netloc if port else f"{place.netloc}:{_PORT}"


def _asked(address: str, request: "pb.DescribeClusterRequest") -> "pb.Cluster":
    import grpc  # noqa: PLC0415  (optional, and there by now)

    from ottla.protocol.errors import ERROR_KEY, decode_error  # noqa: PLC0415  (likewise)
    from ottla.protocol.services import LOG_SERVICE, Stub  # noqa: PLC0415  (likewise)
    from ottla.v1 import log_pb2 as pb  # noqa: PLC0415  (likewise)

    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(address, options=options) as channel:
        try:
            cluster: pb.Cluster = Stub(channel, LOG_SERVICE).DescribeCluster(request, timeout=_TIMEOUT_S)
        except grpc.RpcError as error:
            status: Any = error
            if sent := dict(status.trailing_metadata() or ()).get(ERROR_KEY):
                raise decode_error(pb.Error.FromString(sent)) from None
            raise ServerUnavailable(address, status.details() or status.code().name) from None
    return cluster


def _message(partition: "pb.BrokerPartition") -> Message:
    sent = partition.message
    return Message(
        topic=partition.topic,
        partition=partition.partition,
        number=sent.number,
        timestamp_ms=sent.timestamp_ms,
        key=sent.key if sent.HasField("key") else None,
        value=sent.value if sent.HasField("value") else None,
        headers=tuple((one.name, one.value if one.HasField("value") else None) for one in sent.headers),
    )


def _shortened(value: bytes) -> str:
    text = value[: 4 * _LONGEST_MESSAGE].decode("utf-8", "replace").replace("\n", " ").replace("\t", " ")
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"
