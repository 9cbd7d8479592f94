"""Produce and Poll of `ottla.v1.Log`, as a client in any language meets them: single records over the wire."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

import ottla
from ottla.batch import encode_headers
from ottla.errors import (
    DuplicateSequence,
    InvalidValue,
    MessageTooLarge,
    OutOfSequence,
    StorageFull,
    UnexpectedNext,
    UnknownPartition,
    UnknownProducer,
    UnknownTopic,
)
from ottla.protocol.errors import ERROR_KEY, decode_error
from ottla.protocol.services import LOG_SERVICE, Stub
from ottla.server import Server
from ottla.storage.memory import MemoryPartition
from ottla.v1 import log_pb2 as pb

MIB = 2**20
CALL_S = 30.0
"""No call of these tests takes this long, unless something is wrong."""


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    with ottla.open("memory:") as log:
        yield log


EVERY_WAY = pytest.mark.parametrize("fields", [{}, {"partition": 0}, {"partition": 0, "producer_id": b"x" * 16}])
"""The three ways of Produce: spread by the server, to one partition, and safe to repeat."""


@contextmanager
def serving(log: ottla.Log) -> Iterator[Stub]:
    """A client of a server of the log."""
    server = Server(log)
    with grpc.insecure_channel(str(server.start("127.0.0.1:0"))) as channel, server:
        yield Stub(channel, LOG_SERVICE)


@pytest.fixture
def client(log: ottla.Log) -> Iterator[Stub]:
    with serving(log) as client:
        yield client


def produce(client: Stub, topic: str, *records: pb.Record | bytes, **fields: Any) -> list[tuple[int, int]]:
    """Where the records landed, as (partition, number)."""
    given = [pb.Record(value=one) if isinstance(one, bytes) else one for one in records]
    answer = client.Produce(pb.ProduceRequest(topic=topic, records=given, **fields), timeout=CALL_S)
    return [(landed.partition, landed.number) for landed in answer.landed]


def poll(client: Stub, topic: str, start: int = 0, **fields: Any) -> pb.PollResponse:
    answer: pb.PollResponse = client.Poll(pb.PollRequest(topic=topic, **{"from": start}, **fields), timeout=CALL_S)
    return answer


def values(answer: pb.PollResponse) -> list[bytes]:
    return [message.value for message in answer.messages]


def refused(call: Callable[[], object], code: grpc.StatusCode, error: type[ottla.OttlaError]) -> Any:
    """The error that a call ends with, revived from its trailing metadata."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    status: Any = caught.value
    revived = decode_error(pb.Error.FromString(dict(status.trailing_metadata())[ERROR_KEY]))
    assert (status.code(), type(revived)) == (code, error)
    assert status.details() == str(revived)
    return revived


# Producing


def test_the_first_post_creates_the_topic_and_numbers_start_at_1(client: Stub, log: ottla.Log) -> None:
    assert produce(client, "deliveries", b"a", b"b") == [(0, 1), (0, 2)]
    assert produce(client, "deliveries", b"c") == [(0, 3)]
    assert log.read("deliveries").values() == [b"a", b"b", b"c"]


def test_a_record_keeps_all_it_has(client: Stub) -> None:
    record = pb.Record(
        value=b"on time",
        key=b"melbourne",
        headers=[pb.Header(name="trace", value=b"1"), pb.Header(name="trace", value=b""), pb.Header(name="none")],
        timestamp_ms=1_234,
    )
    produce(client, "deliveries", record)
    (message,) = poll(client, "deliveries").messages
    assert (message.value, message.key, message.timestamp_ms) == (b"on time", b"melbourne", 1_234)
    assert list(message.headers) == list(record.headers)
    assert not message.headers[2].HasField("value")


@pytest.mark.parametrize("field", ["value", "key"])
def test_absent_is_not_empty(client: Stub, field: str) -> None:
    produce(client, "deliveries", pb.Record(), pb.Record(value=b"", key=b""))
    absent, empty = poll(client, "deliveries").messages
    assert (absent.HasField(field), empty.HasField(field)) == (False, True)


def test_the_logs_clock_stamps_what_has_no_time(client: Stub, log: ottla.Log) -> None:
    produce(client, "deliveries", pb.Record(value=b"old", timestamp_ms=-5), pb.Record(value=b"now"))
    old, now = poll(client, "deliveries").messages
    assert old.timestamp_ms == -5
    assert now.timestamp_ms >= log.topic("deliveries").created_ms


def test_a_record_goes_to_the_partition_that_is_named(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries", partitions=3)
    assert produce(client, "deliveries", b"a", b"b", partition=2) == [(2, 1), (2, 2)]
    assert [message.partition for message in poll(client, "deliveries", partition=2).messages] == [2, 2]


def test_landings_are_in_the_order_of_the_request(client: Stub, log: ottla.Log) -> None:
    """Also where the topic's partitioner spreads the records over partitions."""
    log.create_topic("deliveries", partitions=4, partitioner="key-hash")
    sent = [pb.Record(value=b"%d" % i, key=b"k%d" % (i * 7 % 11)) for i in range(100)]
    landed = produce(client, "deliveries", *sent)
    stored = {(m.partition, m.number): m.value for m in log.read("deliveries")}
    assert [stored[where] for where in landed] == [record.value for record in sent]
    assert len({partition for partition, _ in landed}) > 1


def test_no_records_are_refused(client: Stub, log: ottla.Log) -> None:
    error = refused(lambda: produce(client, "deliveries"), grpc.StatusCode.INVALID_ARGUMENT, InvalidValue)
    assert str(error) == "records [] is not valid: give at least one"
    assert log.topics() == []


@pytest.mark.parametrize("name", ["", "..", "a/b", "x" * 250])
def test_a_wrong_topic_name_is_refused(client: Stub, name: str) -> None:
    error = refused(lambda: produce(client, name, b"a"), grpc.StatusCode.INVALID_ARGUMENT, InvalidValue)
    assert "topic name" in str(error)


@EVERY_WAY
def test_an_unknown_topic_is_refused_where_posts_create_none(fields: dict[str, Any]) -> None:
    with ottla.open("memory:", auto_create=False) as log, serving(log) as client:
        refused(lambda: produce(client, "nope", b"a", **fields), grpc.StatusCode.NOT_FOUND, UnknownTopic)


@EVERY_WAY
def test_one_record_that_is_too_large_keeps_out_the_whole_request(
    client: Stub, log: ottla.Log, fields: dict[str, Any]
) -> None:
    log.create_topic("deliveries", max_message_bytes=100)
    sent = [b"small", b"x" * 101, b"small"]
    error = refused(
        lambda: produce(client, "deliveries", *sent, **fields), grpc.StatusCode.INVALID_ARGUMENT, MessageTooLarge
    )
    assert (error.size, error.limit) == (101, 100)
    assert produce(client, "deliveries", b"next") == [(0, 1)]


@EVERY_WAY
def test_the_size_of_a_record_is_that_of_value_key_and_headers_together(
    client: Stub, log: ottla.Log, fields: dict[str, Any]
) -> None:
    headers = [pb.Header(name="n" * 10, value=b"v" * 10)]
    size = 10 + 10 + len(encode_headers({"n" * 10: b"v" * 10}) or b"")
    log.create_topic("deliveries", max_message_bytes=size)
    fits = pb.Record(value=b"v" * 10, key=b"k" * 10, headers=headers)
    over = pb.Record(value=b"v" * 10, key=b"k" * 11, headers=headers)
    assert produce(client, "deliveries", fits, **fields) == [(0, 1)]
    error = refused(
        lambda: produce(client, "deliveries", over, **fields), grpc.StatusCode.INVALID_ARGUMENT, MessageTooLarge
    )
    assert (error.size, error.limit) == (size + 1, size)


@EVERY_WAY
def test_one_record_with_a_wrong_time_keeps_out_the_whole_request(
    client: Stub, log: ottla.Log, fields: dict[str, Any]
) -> None:
    log.create_topic("deliveries")
    sent = [pb.Record(value=b"good"), pb.Record(value=b"bad", timestamp_ms=2**63 - 1)]
    refused(lambda: produce(client, "deliveries", *sent, **fields), grpc.StatusCode.INVALID_ARGUMENT, InvalidValue)
    assert produce(client, "deliveries", b"next") == [(0, 1)]


@pytest.mark.parametrize("fields", [{"partition": 1}, {"partition": 2**32 - 1, "producer_id": b"x" * 16}])
def test_a_partition_that_is_not_there_is_refused_and_creates_nothing(
    client: Stub, log: ottla.Log, fields: dict[str, Any]
) -> None:
    refused(lambda: produce(client, "deliveries", b"a", **fields), grpc.StatusCode.NOT_FOUND, UnknownPartition)
    assert log.topics() == []


# Compare-and-append


def test_a_request_is_refused_when_its_number_was_taken(client: Stub, log: ottla.Log) -> None:
    assert produce(client, "deliveries", b"a", b"b", expected_next=1) == [(0, 1), (0, 2)]
    error = refused(
        lambda: produce(client, "deliveries", b"c", expected_next=2),
        grpc.StatusCode.FAILED_PRECONDITION,
        UnexpectedNext,
    )
    assert (error.expected, error.actual) == (2, 3)
    assert produce(client, "deliveries", b"c", expected_next=3, partition=0) == [(0, 3)]
    assert log.read("deliveries").values() == [b"a", b"b", b"c"]


def test_an_expected_number_needs_a_partition_where_there_are_several(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries", partitions=2)
    error = refused(
        lambda: produce(client, "deliveries", b"a", expected_next=1), grpc.StatusCode.INVALID_ARGUMENT, InvalidValue
    )
    assert "say which partition" in str(error)


# Safe repetition


def test_the_same_sequence_again_gets_the_first_numbers(client: Stub, log: ottla.Log) -> None:
    me = {"partition": 0, "producer_id": uuid.uuid4().bytes}
    assert produce(client, "deliveries", b"a", b"b", sequence=0, **me) == [(0, 1), (0, 2)]
    produce(client, "deliveries", b"from somebody else")
    assert produce(client, "deliveries", b"a", b"b", sequence=0, **me) == [(0, 1), (0, 2)]
    assert produce(client, "deliveries", b"c", sequence=1, **me) == [(0, 4)]
    assert log.read("deliveries").values() == [b"a", b"b", b"from somebody else", b"c"]


def test_a_repetition_is_recognised_though_the_expected_number_is_taken_by_itself(client: Stub) -> None:
    me = {"partition": 0, "producer_id": uuid.uuid4().bytes, "expected_next": 1}
    assert produce(client, "deliveries", b"a", **me) == produce(client, "deliveries", b"a", **me) == [(0, 1)]


def test_a_sequence_that_leaves_one_out_is_refused(client: Stub, log: ottla.Log) -> None:
    me = {"partition": 0, "producer_id": uuid.uuid4().bytes}
    refused(
        lambda: produce(client, "deliveries", b"b", sequence=1, **me),
        grpc.StatusCode.FAILED_PRECONDITION,
        UnknownProducer,
    )
    produce(client, "deliveries", b"a", sequence=0, **me)
    refused(
        lambda: produce(client, "deliveries", b"c", sequence=2, **me),
        grpc.StatusCode.FAILED_PRECONDITION,
        OutOfSequence,
    )
    assert log.read("deliveries").values() == [b"a"]


def test_a_repetition_from_long_ago_is_said_to_be_in_the_log(client: Stub) -> None:
    me = {"partition": 0, "producer_id": uuid.uuid4().bytes}
    for sequence in range(10):
        produce(client, "deliveries", b"%d" % sequence, sequence=sequence, **me)
    refused(
        lambda: produce(client, "deliveries", b"0", sequence=0, **me),
        grpc.StatusCode.ALREADY_EXISTS,
        DuplicateSequence,
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": b"short", "partition": 0},
        {"producer_id": bytes(16), "partition": 0},
        {"producer_id": b"x" * 16},
        {"sequence": 1, "partition": 0},
    ],
    ids=["an id of 5 bytes", "an id of zeros", "no partition", "no id"],
)
def test_half_of_what_repetition_needs_is_refused(client: Stub, log: ottla.Log, fields: dict[str, Any]) -> None:
    error = refused(
        lambda: produce(client, "deliveries", b"a", **fields), grpc.StatusCode.INVALID_ARGUMENT, InvalidValue
    )
    assert "16 random bytes" in str(error)
    assert log.topics() == []


# What happens to the topic meanwhile


@EVERY_WAY
def test_posting_goes_on_when_the_topic_was_deleted_and_made_again(
    client: Stub, log: ottla.Log, fields: dict[str, Any]
) -> None:
    """The server holds a producer for the topic; clients that never named an id do not notice."""
    produce(client, "deliveries", b"old", **fields)
    log.delete_topic("deliveries")
    log.create_topic("deliveries")
    assert produce(client, "deliveries", b"new", b"newer", **fields) == [(0, 1), (0, 2)]
    assert values(poll(client, "deliveries")) == [b"new", b"newer"]


@EVERY_WAY
def test_posting_makes_a_deleted_topic_again(client: Stub, log: ottla.Log, fields: dict[str, Any]) -> None:
    produce(client, "deliveries", b"old", **fields)
    log.delete_topic("deliveries")
    assert produce(client, "deliveries", b"new", **fields) == [(0, 1)]


def test_many_clients_post_while_the_topic_is_made_anew(client: Stub, log: ottla.Log) -> None:
    produce(client, "deliveries", b"old")
    errors: list[BaseException] = []

    def post() -> None:
        try:
            for _ in range(30):
                produce(client, "deliveries", b"a", b"b")
        except grpc.RpcError as error:
            errors.append(error)

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        log.delete_topic("deliveries")
        log.create_topic("deliveries", exist_ok=True)
    for thread in threads:
        thread.join()
    assert errors == []


def test_new_partitions_are_used(client: Stub, log: ottla.Log) -> None:
    produce(client, "deliveries", b"a")
    log.add_partitions("deliveries", 2)
    assert produce(client, "deliveries", b"b", partition=1) == [(1, 1)]


# Polling


def test_a_poll_goes_on_where_the_last_one_ended(client: Stub) -> None:
    produce(client, "deliveries", b"a", b"b", b"c")
    first = poll(client, "deliveries", 1)
    assert (values(first), first.next, first.first) == ([b"a", b"b", b"c"], 4, 1)
    tail = poll(client, "deliveries", first.next)
    assert (values(tail), tail.next) == ([], 4)
    produce(client, "deliveries", b"d")
    more = poll(client, "deliveries", tail.next)
    assert ([message.number for message in more.messages], more.next) == ([4], 5)


def test_polling_from_0_begins_with_the_oldest_that_is_kept(client: Stub, log: ottla.Log) -> None:
    produce(client, "deliveries", b"a", b"b", b"c")
    log.trim("deliveries", before=3)
    assert values(poll(client, "deliveries")) == [b"c"]


def test_polling_below_the_oldest_kept_skips_ahead_and_says_so(client: Stub, log: ottla.Log) -> None:
    """Also where it lies in the middle of a batch: what was trimmed never comes back."""
    produce(client, "deliveries", b"a", b"b", b"c", b"d", partition=0)
    log.trim("deliveries", before=3)
    answer = poll(client, "deliveries", 1)
    assert ([message.number for message in answer.messages], answer.next, answer.first) == ([3, 4], 5, 3)


def test_a_topic_emptied_by_retention_gives_nothing_and_the_position_stays(client: Stub, log: ottla.Log) -> None:
    produce(client, "deliveries", b"a", b"b")
    log.trim("deliveries", before="latest")
    answer = poll(client, "deliveries", 1)
    assert (values(answer), answer.next, answer.first) == ([], 1, 3)


@pytest.mark.parametrize("start", [9, 2**63, 2**64 - 1])
def test_polling_beyond_the_end_gives_nothing_and_the_position_stays(client: Stub, log: ottla.Log, start: int) -> None:
    log.append("deliveries", [b"a"])
    answer = poll(client, "deliveries", start)
    assert (values(answer), answer.next) == ([], start)


def test_the_number_of_messages_has_a_limit(client: Stub, log: ottla.Log) -> None:
    log.append("deliveries", [b"%d" % i for i in range(2500)])
    assert len(poll(client, "deliveries", 5, max_messages=3).messages) == 3
    assert len(poll(client, "deliveries").messages) == 1000
    assert len(poll(client, "deliveries", max_messages=2**32 - 1).messages) == 2500


def test_the_bytes_have_a_limit_and_one_message_always_comes(client: Stub, log: ottla.Log) -> None:
    log.append("deliveries", [b"x" * 1000] * 10)
    assert len(poll(client, "deliveries", max_bytes=5000).messages) == 4
    assert len(poll(client, "deliveries", max_bytes=1).messages) == 1


def test_keys_and_headers_count_too(client: Stub) -> None:
    headers = [pb.Header(name="n" * 500, value=b"v" * 500)]
    produce(client, "deliveries", *[pb.Record(headers=headers, key=b"k" * 1000)] * 10)
    assert len(poll(client, "deliveries", max_bytes=5000).messages) == 2


def test_a_client_with_grpcs_default_limit_can_read_everything(client: Stub, log: ottla.Log) -> None:
    """However much it asks for at once."""
    log.append("deliveries", [b"x" * 900_000] * 8)
    position, sizes = 1, []
    while (answer := poll(client, "deliveries", position, max_bytes=2**32 - 1)).messages:
        sizes.append(len(answer.messages))
        position = answer.next
    assert sizes == [3, 3, 2]


def test_an_unknown_topic_is_an_error(client: Stub) -> None:
    error = refused(lambda: poll(client, "nope"), grpc.StatusCode.NOT_FOUND, UnknownTopic)
    assert error.topic == "nope"
    assert "topic" in str(error)


def test_an_unknown_partition_is_an_error(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries", partitions=2)
    error = refused(lambda: poll(client, "deliveries", partition=2), grpc.StatusCode.NOT_FOUND, UnknownPartition)
    assert (error.partition, error.partitions) == (2, 2)


# Waiting


def test_a_long_poll_returns_as_soon_as_something_comes(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries")
    waiting = client.Poll.future(pb.PollRequest(topic="deliveries", wait_ms=60_000), timeout=CALL_S)
    produce(client, "deliveries", b"a")
    assert values(waiting.result()) == [b"a"]


def test_a_long_poll_that_nothing_came_for_ends_with_its_position(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries")
    answer = poll(client, "deliveries", 7, wait_ms=20)
    assert (values(answer), answer.next) == ([], 7)


def test_a_long_poll_below_the_oldest_kept_waits_when_nothing_is_kept(client: Stub, log: ottla.Log) -> None:
    """It would be asked again and again otherwise."""
    produce(client, "deliveries", b"a", b"b")
    log.trim("deliveries", before="latest")
    waiting = client.Poll.future(pb.PollRequest(topic="deliveries", wait_ms=60_000, **{"from": 1}), timeout=CALL_S)
    with pytest.raises(grpc.FutureTimeoutError):
        waiting.result(timeout=0.2)
    produce(client, "deliveries", b"c")
    answer = waiting.result()
    assert (values(answer), answer.next, answer.first) == ([b"c"], 4, 3)


def test_a_long_poll_on_a_topic_that_is_deleted_ends_with_an_error(client: Stub, log: ottla.Log) -> None:
    log.create_topic("deliveries")
    waiting = client.Poll.future(pb.PollRequest(topic="deliveries", wait_ms=60_000), timeout=CALL_S)
    with pytest.raises(grpc.FutureTimeoutError):
        waiting.result(timeout=0.2)
    log.delete_topic("deliveries")
    with pytest.raises(grpc.RpcError) as caught:
        waiting.result()
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


# One client's trouble is not another's


def test_an_error_reaches_the_client_whose_records_failed_and_no_other(
    client: Stub, log: ottla.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients share the server's producer: an error of one must not come out of another's call."""
    log.create_topic("deliveries", partitions=4)
    failed = threading.Semaphore(0)

    def full(*_: object, **__: object) -> None:
        failed.release()
        raise StorageFull("the disk")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryPartition, "append", full)
        refused(lambda: produce(client, "deliveries", *[b"x"] * 8), grpc.StatusCode.RESOURCE_EXHAUSTED, StorageFull)
        assert all(failed.acquire(timeout=CALL_S) for _ in range(4))
    assert len(produce(client, "deliveries", *[b"y"] * 8)) == 8
