"""Apache Kafka 4: one KRaft node from Maven's jars, confluent-kafka at both ends, with and without fsync."""

import re
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.peers.contract import NotRun, Peer, Session, Started, client_version
from benchmarks.peers.servers import HOST, free_port, listening, program, running

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>[4.0,5)</version>
  </dependency></dependencies>
</project>
"""
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/data
message.max.bytes=8388608
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_FETCH_S = 300.0
_LARGEST = 8 * 2**20
_READING = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "fetch.message.max.bytes": _LARGEST,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 256 * 1024,
    "fetch.queue.backoff.ms": 10,  # by default it pauses for a second when its queue is full: half the rate
}


class KafkaSession(Session):
    list_size = 10_000

    def __init__(self, address: str, topic_settings: dict[str, str]) -> None:
        self._kafka = import_module("confluent_kafka")
        self._settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 3}
        self._topic_settings = topic_settings
        self._failed: list[Any] = []
        sending = {
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": "none",
            "message.max.bytes": _LARGEST,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 64 * 1024,
            "delivery.report.only.error": True,
        }
        self._producer = self._kafka.Producer(self._settings | sending)
        self._prompt = self._kafka.Producer(
            self._settings | sending | {"linger.ms": 0, "delivery.report.only.error": False}
        )

    def create(self, topic: str) -> None:
        admin = import_module("confluent_kafka.admin")
        client = admin.AdminClient(self._settings)
        client.create_topics([admin.NewTopic(topic, 1, 1, config=self._topic_settings)])[topic].result(30)

    def produce(self, topic: str, values: Iterable[bytes]) -> None:
        produce = self._producer.produce
        for value in values:
            try:
                produce(topic, value, on_delivery=self._delivered)
            except BufferError:
                self._retry(lambda value=value: produce(topic, value, on_delivery=self._delivered))  # type: ignore[misc]
        self._flush()

    def produce_lists(self, topic: str, lists: Iterable[list[bytes]]) -> None:
        for values in lists:
            left = [{"value": value} for value in values]
            while left:
                self._producer.produce_batch(topic, left, on_delivery=self._delivered)
                left = [{"value": one["value"]} for one in left if "_error" in one]
                self._producer.poll(0.01 if left else 0)
        self._flush()

    def send_each(self, topic: str, values: Iterable[bytes]) -> list[float]:
        times = []
        for value in values:
            done: list[Any] = []
            start = time.perf_counter()
            self._prompt.produce(topic, value, on_delivery=lambda error, _, done=done: done.append(error))
            while not done:
                self._prompt.poll(1.0)
            times.append(time.perf_counter() - start)
            self._failed += filter(None, done)
        self._check()
        return times

    def chunks(self, topic: str) -> Iterator[list[bytes]]:
        consumer = self._kafka.Consumer(self._settings | _READING)
        start = self._kafka.TopicPartition(topic, 0, 0)
        try:
            consumer.assign([start])
            if consumer.consume(1, 1.0):  # all connections are there now
                consumer.seek(start)
            yield []
            while True:
                messages = consumer.consume(10_000, 0.0) or consumer.consume(1, 0.5)
                if messages:
                    yield [message.value() for message in messages]
        finally:
            consumer.close()

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failed.append(error)

    def _retry(self, produce: Callable[[], object]) -> None:
        """The client's queue is full: wait for room."""
        while True:
            self._producer.poll(0.01)
            try:
                produce()
            except BufferError:
                continue
            return

    def _flush(self) -> None:
        while self._producer.flush(1.0):
            pass
        self._check()

    def _check(self) -> None:
        if self._failed:
            raise NotRun(f"Kafka refused a message: {self._failed[0]}")


class Kafka(Peer):
    name = "kafka"
    title = "Kafka"
    durability = "synced before the acknowledgement (flush.messages=1, acks=all)"
    get_it = "apt install default-jre-headless maven"
    topic_settings: ClassVar[dict[str, str]] = {"flush.messages": "1"}

    @contextmanager
    def run(self, folder: Path) -> Iterator[Started]:
        client = client_version("confluent-kafka")
        java = program("java", self.get_it)
        classes, number = _fetch(program("mvn", self.get_it), folder)
        port = free_port()
        properties = folder / "server.properties"
        properties.write_text(_PROPERTIES.format(host=HOST, port=port, controller=free_port(), folder=folder))
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if cluster.startswith("-"):
            cluster = "A" + cluster[1:]  # or it would look like an option
        formatting = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        _checked([java, "-cp", classes, *formatting])
        command = [java, "-Xms1g", "-Xmx1g", "-cp", classes, "kafka.Kafka", str(properties)]
        with running(command, folder=folder, ready=listening(port)):
            yield Started(address=f"{HOST}:{port}", version=f"Kafka {number}, {client}")

    def connect(self, address: str) -> KafkaSession:
        return KafkaSession(address, self.topic_settings)


class KafkaDefault(Kafka):
    name = "kafka-default"
    title = "Kafka, its default"
    durability = "in the page cache: by default Kafka does not sync before it acknowledges"
    topic_settings: ClassVar[dict[str, str]] = {}


def _fetch(maven: str, folder: Path) -> tuple[str, str]:
    """The class path of the newest Kafka 4, and its version; Maven keeps the jars for the next run."""
    pom, found = folder / "pom.xml", folder / "classpath"
    pom.write_text(_POM)
    _checked([maven, "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={found}"])
    classes = found.read_text()
    number = re.search(r"kafka_2\.13-([\d.]+)\.jar", classes)
    assert number is not None
    return classes, number[1]


def _checked(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_FETCH_S)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())
        raise NotRun(f"{Path(command[0]).name} ended with {done.returncode}: {said[-300:]}")


PEER = Kafka()
DEFAULT_PEER = KafkaDefault()
