"""The public surface: small, stable, quick to import, and helpful about every wrong value."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import ottla
import ottla.errors
from ottla import ManualClock, OttlaError


def test_the_names_are_these() -> None:
    """A change here is a change for every user."""
    assert set(ottla.__all__) - error_names() == {
        "Bounds",
        "Clock",
        "Consumer",
        "Damage",
        "Gap",
        "GroupPositions",
        "Lag",
        "Landed",
        "LandedRange",
        "Log",
        "ManualClock",
        "Message",
        "Messages",
        "PartitionDescription",
        "Partitioner",
        "Producer",
        "Record",
        "SystemClock",
        "Topic",
        "TopicDescription",
        "TopicSettings",
        "__version__",
        "open",
        "repair",
        "verify",
    }


def error_names() -> set[str]:
    kinds = {name: kind for name, kind in vars(ottla.errors).items() if isinstance(kind, type)}
    return {name for name, kind in kinds.items() if issubclass(kind, OttlaError)}


def test_every_error_is_public() -> None:
    assert error_names() <= set(ottla.__all__)
    assert all(getattr(ottla, name) is getattr(ottla.errors, name) for name in error_names())


def test_every_name_is_there() -> None:
    assert all(hasattr(ottla, name) for name in ottla.__all__)


def test_importing_brings_nothing_that_is_not_needed() -> None:
    """`import ottla` stays quick: no pandas, no event loop, none of the optional packages, no thread."""
    script = (
        "import sys, threading, ottla;"
        "heavy = {'pandas', 'polars', 'asyncio', 'grpc', 'pyspark', 'obstore', 'typer', 'duckdb'};"
        "print(*sorted(heavy & set(sys.modules)), threading.active_count())"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["1"]


def test_the_shape_in_the_documentation_works() -> None:
    log = ottla.open("memory:")
    log.create_topic("deliveries", partitions=4, retention="7d")
    with log.producer("deliveries") as producer:
        assert producer.send(b"truck 1021 on time", key=b"melbourne").result().number == 1
        producer.send_many([b"truck 7 late", b"truck 8 on time"])
    consumer = log.consumer("deliveries", start="earliest")
    messages, position = consumer.poll(timeout=1.0)
    assert len(messages) == 3
    assert sum(position.values()) == 4 + 3  # type: ignore[union-attr]  # a mapping, for four partitions
    tables = [log.read("deliveries", partition=partition, start=1).to_arrow() for partition in range(4)]
    assert pa.concat_tables(tables).num_rows == 3
    log.close()


WRONG_NAMES = ["", ".", "..", "a/b", "a b", "a\n", "ä", "x" * 250, None, 5, b"bytes", ["a"]]
WRONG_DURATIONS = [
    "",
    "7",
    "7 days",
    "-1s",
    "0s",
    "0.1ms",
    "1e3s",
    "NaNs",
    -5,
    0,
    float("nan"),
    float("inf"),
    True,
    [],
    timedelta(-1),
]
WRONG_SIZES = ["", "many", "-1KB", "0", "1XB", 0, -1, 1.5, True, [], 2**63]
WRONG_NUMBERS = [0, -1, 1.5, True, "5", "now", b"1", 2**63, [], datetime(2030, 1, 31)]  # noqa: DTZ001  (the point)
WRONG_INDICES = [-1, 1.0, True, "0", b"0", 2**63, [0]]
WRONG_COUNTS = [0, -1, 1.5, True, "4", 10_001, [], float("nan")]
WRONG_VALUES = [
    "text",
    [],
    ["text"],
    [b"x", 5],
    [object()],
    b"bytes",
    None,
    5,
    pa.array([1, 2]),
    pa.table({"x": [b"a"]}),
]
WRONG_TIMEOUTS = [-1, float("nan"), "1s", True, []]


TABLE: list[tuple[str, list[Any], Callable[[Any, Any], object]]] = [
    ("topic name to create", WRONG_NAMES, lambda log, v: log.create_topic(v)),
    ("topic name to append to", WRONG_NAMES, lambda log, v: log.append(v, [b"x"])),
    ("topic name to send to", WRONG_NAMES, lambda log, v: log.producer(v).send(b"x")),
    ("topic name to read", WRONG_NAMES, lambda log, v: log.read(v)),
    ("topic name to consume", WRONG_NAMES, lambda log, v: log.consumer(v)),
    ("topic name to delete", WRONG_NAMES, lambda log, v: log.delete_topic(v)),
    ("group name", WRONG_NAMES, lambda log, v: log.commit(v, "deliveries", {0: 1})),
    (
        "group name of a consumer",
        [n for n in WRONG_NAMES if n is not None],
        lambda log, v: log.consumer("deliveries", group=v),
    ),
    ("producer name", [n for n in WRONG_NAMES if n is not None], lambda log, v: log.producer("deliveries", name=v)),
    ("retention", WRONG_DURATIONS, lambda log, v: log.create_topic("new", retention=v)),
    ("changed retention", WRONG_DURATIONS, lambda log, v: log.alter_topic("deliveries", retention=v)),
    ("retention_bytes", WRONG_SIZES, lambda log, v: log.create_topic("new", retention_bytes=v)),
    ("max_message_bytes", [*WRONG_SIZES, "2GiB"], lambda log, v: log.alter_topic("deliveries", max_message_bytes=v)),
    ("segment_bytes", WRONG_SIZES, lambda log, v: log.create_topic("new", segment_bytes=v)),
    ("partitions", WRONG_COUNTS, lambda log, v: log.create_topic("new", partitions=v)),
    ("added partitions", [*WRONG_COUNTS, 1, None], lambda log, v: log.add_partitions("deliveries", v)),
    ("partitioner", ["", "random", "json-field:", 5, [], b"x"], lambda log, v: log.create_topic("new", partitioner=v)),
    ("sync", ["", "sometimes", 5, True, []], lambda log, v: log.create_topic("new", sync=v)),
    ("setting", ["colour", "retention_", "Partitions"], lambda log, v: log.create_topic("new", **{v: 1})),
    ("start", [*WRONG_NUMBERS, {0: 0}, {7: 1}, {"0": 1}], lambda log, v: log.consumer("deliveries", start=v)),
    ("start of a read", [*WRONG_NUMBERS, None, {0: 1}], lambda log, v: log.read("deliveries", start=v)),
    ("seek", WRONG_NUMBERS, lambda log, v: log.consumer("deliveries").seek(v)),
    ("trim", WRONG_NUMBERS, lambda log, v: log.trim("deliveries", 0, before=v)),
    ("time", [*WRONG_NUMBERS, "earliest", 5], lambda log, v: log.find("deliveries", 0, v)),
    ("position", [n for n in WRONG_NUMBERS if n != 1], lambda log, v: log.commit("billing", "deliveries", {0: v})),
    ("expected_next", WRONG_NUMBERS, lambda log, v: log.append("deliveries", [b"x"], partition=0, expected_next=v)),
    ("partition to append to", [*WRONG_INDICES, 2], lambda log, v: log.append("deliveries", [b"x"], partition=v)),
    ("partition of a new topic", [*WRONG_INDICES, 1], lambda log, v: log.append("new", [b"x"], partition=v)),
    ("partition to send to", [*WRONG_INDICES, 2], lambda log, v: log.producer("deliveries").send(b"x", partition=v)),
    ("partition to read", [*WRONG_INDICES, 2], lambda log, v: log.read("deliveries", v)),
    ("partition to consume", [*WRONG_INDICES, 2], lambda log, v: log.consumer("deliveries", partition=v)),
    (
        "partitions to consume",
        [[], "01", 0, [2], [-1], ["0"]],
        lambda log, v: log.consumer("deliveries", partitions=v),
    ),
    ("partition of bounds", [*WRONG_INDICES, 2], lambda log, v: log.bounds("deliveries", v)),
    ("values", WRONG_VALUES, lambda log, v: log.append("deliveries", v)),
    ("values of a new topic", WRONG_VALUES, lambda log, v: log.append("new", v)),
    ("values to send", WRONG_VALUES, lambda log, v: log.producer("deliveries").send_many(v)),
    ("value to send", ["text", 5, [b"x"], object()], lambda log, v: log.producer("deliveries").send(v)),
    ("keys", [["text"], [b"a", b"b"], [5]], lambda log, v: log.append("deliveries", [b"x"], keys=v)),
    (
        "headers",
        [[5], [{"a": "text"}], [((1, b"x"),)], []],
        lambda log, v: log.append("deliveries", [b"x"], headers=v),
    ),
    (
        "timestamps",
        [["now"], [None], [2**63], [1.5], []],
        lambda log, v: log.append("deliveries", [b"x"], timestamps=v),
    ),
    ("message too large", [bytes(8 * 2**20 + 1)], lambda log, v: log.append("new", [v])),
    ("timeout", WRONG_TIMEOUTS, lambda log, v: log.consumer("deliveries").poll(v)),
    ("max_messages", [0, -1, 1.5, "5", True], lambda log, v: log.consumer("deliveries").poll(max_messages=v)),
    ("max_messages of a read", [0, -1, 1.5, "5", True], lambda log, v: log.read("deliveries", max_messages=v)),
    ("max_bytes", WRONG_SIZES, lambda log, v: log.consumer("deliveries").poll(max_bytes=v)),
    ("max_bytes of a read", WRONG_SIZES, lambda log, v: log.read("deliveries", max_bytes=v)),
    ("on_gap", ["ignore", None, 5, []], lambda log, v: log.consumer("deliveries", on_gap=v)),
    ("linger_ms", [-1, "5ms", True, float("nan")], lambda log, v: log.producer("deliveries", linger_ms=v)),
    ("max_batch_bytes", WRONG_SIZES, lambda log, v: log.producer("deliveries", max_batch_bytes=v)),
    ("compression", ["gzip", "", 5, None], lambda log, v: log.producer("deliveries", compression=v)),
    (
        "URL",
        ["", "memory", "ftp://x", "memory:x", "memory:?a=1", "memory:?a", None, 5, b"memory:"],
        lambda _, v: ottla.open(v),
    ),
    ("defaults", [{"retention": "x"}, {"colour": 1}], lambda _, v: ottla.open("memory:", defaults=v)),
]
"""What is wrong, the wrong values, and the call that each of them is given to."""


@pytest.mark.parametrize(
    ("use", "wrong"),
    [pytest.param(use, wrong, id=f"{what}: {repr(wrong)[:20]}") for what, values, use in TABLE for wrong in values],
)
def test_a_wrong_value_gets_one_sentence_and_changes_nothing(use: Callable[[Any, Any], object], wrong: Any) -> None:
    with ottla.open("memory:", clock=ManualClock()) as log:
        log.create_topic("deliveries", partitions=2)
        log.append("deliveries", [b"x"], partition=0)
        before = log.describe("deliveries"), log.topics(), log.groups()
        with pytest.raises(OttlaError) as refused:
            use(log, wrong)
        assert (log.describe("deliveries"), log.topics(), log.groups()) == before
    error = refused.value
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
    assert "\n" not in str(error)
    assert ": " in str(error)
    assert len(str(error)) < 400
