"""What Prometheus sees of a server, and that it stays bounded."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

import ottla
from ottla.batch import Batch, columns_of_values
from ottla.minikafka import minikafka_pb2
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub
from ottla.server import Server
from ottla.server.broker import Broker
from ottla.server.config import find_settings
from ottla.server.metrics import MOST_TOPICS, OTHERS, Metrics, connections
from ottla.v1 import log_pb2 as pb


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Values by name and labels, which are sorted by their names."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with ottla.open(f"file://{tmp_path}/log") as log:
        server = Server(log)
        server.start("127.0.0.1:0")
        yield server
        server.stop()


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(str(server.address)) as channel:
        yield Stub(channel, LOG_SERVICE)


def scraped(server: Server) -> dict[tuple[str, tuple[str, ...]], float]:
    return samples(server.metrics.exposition().decode())


def test_messages_bytes_times_and_syncs_are_counted(server: Server, client: Any) -> None:
    server.log.create_topic("t")
    before = scraped(server)
    batch = Batch.pack(columns_of_values([b"x" * 100] * 50)).to_bytes()
    (answer,) = client.Append(iter([pb.AppendRequest(topic="t", batches=batch)]))
    assert answer.appended[0].count == 50
    client.Fetch(pb.FetchRequest(topic="t"))
    after = scraped(server)
    assert after["ottla_messages_in_total", ("t",)] == 50
    assert after["ottla_bytes_in_total", ("t",)] == len(batch)
    assert after["ottla_bytes_out_total", ("t",)] >= 5000
    assert after["ottla_append_seconds_count", ()] == 1
    assert after["ottla_call_seconds_count", ("Fetch",)] == 1
    assert after["ottla_syncs_total", ()] > before["ottla_syncs_total", ()]
    assert after["ottla_sync_seconds_total", ()] > before["ottla_sync_seconds_total", ()]
    assert after["process_resident_memory_bytes", ()] > 0


def test_single_records_are_counted_as_batches_are(server: Server, client: Any) -> None:
    client.Produce(pb.ProduceRequest(topic="t", records=[pb.Record(value=b"x" * 100)] * 3))
    client.Poll(pb.PollRequest(topic="t"))
    with grpc.insecure_channel(str(server.address)) as channel:
        original = Stub(channel, MINIKAFKA_SERVICE)
        payload = minikafka_pb2.Payload(payload=b"x" * 100)
        topic = minikafka_pb2.Topic(topic="mk")
        original.Produce(minikafka_pb2.ProduceRequest(topic=topic, payload=payload))
        original.Poll(minikafka_pb2.PollRequest(topic="mk"))
    shown = scraped(server)
    assert shown["ottla_messages_in_total", ("t",)] == 3
    assert shown["ottla_messages_in_total", ("mk",)] == 1
    assert shown["ottla_bytes_in_total", ("t",)] > 300
    assert shown["ottla_bytes_out_total", ("t",)] > 300
    assert shown["ottla_bytes_out_total", ("mk",)] > 100
    assert shown["ottla_append_seconds_count", ()] == 2


def test_failures_are_counted_by_call_and_error(server: Server, client: Any) -> None:
    with pytest.raises(grpc.RpcError):
        client.GetTopic(pb.GetTopicRequest(name="missing"))
    assert scraped(server)["ottla_errors_total", ("UnknownTopic", "GetTopic")] == 1


def test_what_is_held_is_shown_while_it_is_held(server: Server, client: Any) -> None:
    server.log.append("t", [b"x"])
    fields: dict[str, Any] = {"topic": "t", "from": 1, "follow": True}
    stream = client.Read(pb.ReadRequest(**fields))
    next(stream)
    shown = scraped(server)
    assert shown["ottla_streams", ("Read",)] == 1
    assert shown["ottla_calls_held", ("read streams",)] == 1
    assert shown["ottla_connections", ()] == 1
    assert shown["ottla_bytes_in_flight", ()] == 0
    assert shown["ottla_culler_errors", ()] == 0
    stream.cancel()


def test_nobody_connected_is_no_connection(server: Server) -> None:
    assert connections(server.address.port) == 0


def test_topics_beyond_the_thousandth_count_together() -> None:
    metrics = Metrics()
    for number in range(MOST_TOPICS + 500):
        metrics.appended(f"topic-{number}", 1, 10, 0.001)
    shown = samples(metrics.exposition().decode())
    topics = [labels for name, labels in shown if name == "ottla_messages_in_total"]
    assert len(topics) == MOST_TOPICS + 1
    assert shown["ottla_messages_in_total", (OTHERS,)] == 500
    assert shown["ottla_messages_in_total", ("topic-0",)] == 1


def test_two_servers_in_one_process_count_apart(server: Server, client: Any) -> None:
    other = Server(server.log)
    client.ListTopics(pb.ListTopicsRequest())
    assert ("ottla_call_seconds_count", ("ListTopics",)) in scraped(server)
    assert ("ottla_call_seconds_count", ("ListTopics",)) not in samples(other.metrics.exposition().decode())


class TestEndpoint:
    def test_metrics_are_served_by_http_on_a_port_of_their_own(self) -> None:
        broker = _broker("127.0.0.1:0")
        (listening,) = broker.start()
        with urllib.request.urlopen(f"http://{listening.metrics}/metrics") as answer:
            assert ("ottla_bytes_in_flight", ()) in samples(answer.read().decode())
        broker.stop()
        broker.close()
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(f"http://{listening.metrics}/metrics")

    def test_a_port_that_is_taken_is_an_error_that_says_so(self) -> None:
        first = _broker("127.0.0.1:0")
        (listening,) = first.start()
        second = _broker(str(listening.metrics))
        with pytest.raises(ottla.InvalidValue, match="metrics cannot be served there"):
            second.start()
        for broker in (first, second):
            broker.stop()
            broker.close()


def _broker(metrics: str) -> Broker:
    return Broker(find_settings({"grpc": "127.0.0.1:0", "metrics": metrics}, {}, files=False).settings())
