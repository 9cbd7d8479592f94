"""The producer: takes, batches, orders, deals out and says where messages landed (rows W5, W2 and K4)."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Columns, Messages
from ottla.client.producer import Producer
from ottla.clock import ManualClock
from ottla.errors import Closed, InvalidValue, MessageTooLarge, TopicRecreated, UnknownPartition
from ottla.log.partitioners import KeyHash
from ottla.log.topics import TopicHandle
from ottla.model import Landed, LandedRange, Message, Record, Topic
from ottla.settings import TopicSettings
from ottla.storage import open_engine

if TYPE_CHECKING:
    from ottla.client.futures import SendFuture, SendManyFuture

LONG_MS = 600_000
"""A linger that no test waits for."""


class Appends(TopicHandle):
    """A topic that notes each append: the partition and how many messages each batch has."""

    def __init__(self, engine: Any, topic: Topic) -> None:
        super().__init__(engine, topic)
        self.seen: list[tuple[int, list[int]]] = []
        self.threads: list[threading.Thread] = []

    def append(self, partition: int, batches: Any, *, expected_next: int | None = None) -> Any:
        self.seen.append((partition, [batch.count for batch in batches]))
        self.threads.append(threading.current_thread())
        return super().append(partition, batches, expected_next=expected_next)


def new_topic(**settings: Any) -> Appends:
    engine = open_engine("memory:", clock=ManualClock())
    topic = Topic(name="deliveries", id="0" * 32, created_ms=0, settings=TopicSettings(**settings))
    return Appends(engine, engine.create_topic(topic))


def messages(handle: TopicHandle, partition: int = 0) -> list[Message]:
    batches = handle.read(partition, 1, 2**40)
    return list(Messages.of(handle.name, partition, batches, 1))


def values(handle: TopicHandle, partition: int = 0) -> list[bytes | None]:
    return [message.value for message in messages(handle, partition)]


@pytest.fixture
def topic() -> Appends:
    return new_topic()


@pytest.fixture
def open_producer() -> Iterator[Callable[..., Producer]]:
    opened: list[Producer] = []

    def open_(handle: TopicHandle, **options: Any) -> Producer:
        opened.append(Producer(lambda: handle, clock=ManualClock(5_000), **options))
        return opened[-1]

    yield open_
    for producer in opened:
        producer.close()


Open = Callable[..., Producer]


def test_a_sent_message_is_in_the_log_where_its_future_says(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic)
    landed = producer.send(b"truck 1021 on time").result()
    assert landed == Landed("deliveries", 0, 1)
    assert values(topic) == [b"truck 1021 on time"]


def test_everything_about_a_message_arrives(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic)
    producer.send(b"value", key=b"key", headers=(("trace", b"7"), ("empty", None)), timestamp_ms=-5)
    producer.send_record(Record(value=None, key=b"gone"))
    producer.send(b"", headers={"a": b"b"})
    producer.flush()
    assert [message[3:] for message in messages(topic)] == [
        (-5, b"key", b"value", (("trace", b"7"), ("empty", None))),
        (5_000, b"gone", None, ()),
        (5_000, None, b"", (("a", b"b"),)),
    ]


def test_messages_sent_one_by_one_are_stored_as_one_batch(topic: Appends, open_producer: Open) -> None:
    """Row W5: a pending queue and a sender that batches in the background."""
    producer = open_producer(topic, linger_ms=LONG_MS)
    futures = [producer.send(b"%d" % number) for number in range(100)]
    assert not any(future.done() for future in futures)
    producer.flush()
    assert topic.seen == [(0, [100])]
    assert [future.result().number for future in futures] == list(range(1, 101))


def test_a_batch_is_sent_in_the_background_when_it_has_lingered(
    topic: Appends, open_producer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row W5: nobody waits for it, and it is sent; also by a background thread that had gone to sleep."""
    monkeypatch.setattr("ottla.client.sender._IDLE_S", 1000)
    producer = open_producer(topic, linger_ms=1)
    for value in (b"a", b"b"):
        stored = threading.Event()
        producer.send(value).add_done_callback(lambda _, stored=stored: stored.set())  # type: ignore[misc]
        assert stored.wait(30)
    assert values(topic) == [b"a", b"b"]
    assert threading.current_thread() not in topic.threads


def test_a_full_batch_does_not_linger(topic: Appends, open_producer: Open) -> None:
    stored = threading.Event()
    producer = open_producer(topic, linger_ms=LONG_MS, max_batch_bytes=1000)
    first = producer.send(bytes(900))
    first.add_done_callback(lambda _: stored.set())
    second = producer.send(bytes(900))
    assert stored.wait(30)
    assert not second.done()


def test_waiting_for_a_result_cuts_the_linger_short(topic: Appends, open_producer: Open) -> None:
    """And the append is done by the thread that waits: a hand-off would only cost time."""
    producer = open_producer(topic, linger_ms=LONG_MS)
    assert producer.send(b"a").result().number == 1
    assert topic.threads == [threading.current_thread()]


def test_waiting_with_a_short_timeout_leaves_the_append_to_the_background(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    future = producer.send(b"a")
    while not future.done():
        try:
            future.result(0.5)
        except TimeoutError:
            continue
    assert topic.threads[0] is not threading.current_thread()


def test_flushing_nothing_is_harmless(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic)
    producer.flush()
    producer.send(b"a").result()
    producer.flush()
    assert values(topic) == [b"a"]


def test_single_messages_and_many_keep_their_order(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS, max_batch_bytes=2000)
    sent: list[bytes] = []
    for number in range(300):
        some = [b"%d-%d" % (number, index) for index in range(number % 7)]
        if len(some) > 3:
            producer.send_many(some)
        else:
            for value in some:
                producer.send(value)
        sent += some
    producer.flush()
    assert values(topic) == sent


def test_no_append_holds_more_batches_than_the_log_remembers(topic: Appends, open_producer: Open) -> None:
    """Else an append whose reply was lost could not be repeated."""
    producer = open_producer(topic, linger_ms=LONG_MS, max_batch_bytes=100)
    future = producer.send_many([bytes(90)] * 50)
    assert future.result() == [LandedRange("deliveries", 0, range(1, 51))]
    assert all(len(counts) <= 8 for _, counts in topic.seen)
    assert sum(sum(counts) for _, counts in topic.seen) == 50


def test_many_messages_from_a_list_with_all_columns(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic)
    future = producer.send_many(
        [b"a", None], keys=[None, b"k"], headers=[{}, {"h": b"1"}], timestamps=[7, 8], partition=0
    )
    assert future.result() == [LandedRange("deliveries", 0, range(1, 3))]
    assert [message[3:] for message in messages(topic)] == [(7, None, b"a", ()), (8, b"k", None, (("h", b"1"),))]


@pytest.mark.parametrize(
    "many",
    [
        [b"a", b"b"],
        (b"a", b"b"),
        iter([b"a", b"b"]),
        [Record(value=b"a"), Record(value=b"b")],
        pa.array([b"a", b"b"]),
        pa.array(["a", "b"]),
        pa.chunked_array([[b"a"], [b"b"]]),
        pa.table({"value": [b"a", b"b"]}),
        pa.record_batch({"value": [b"a", b"b"]}),
    ],
    ids=lambda many: type(many).__name__,
)
def test_many_messages_from_whatever_holds_them(topic: Appends, open_producer: Open, many: Any) -> None:
    open_producer(topic).send_many(many).result()
    assert values(topic) == [b"a", b"b"]


def test_an_arrow_array_may_have_others_beside_it(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic)
    producer.send_many(pa.array([b"a"]), keys=pa.array([b"k"]), timestamps=pa.array([7])).result()
    assert [message[3:6] for message in messages(topic)] == [(7, b"k", b"a")]


def test_small_sends_of_columns_are_stored_together(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    futures = [producer.send_many([b"a", b"b"]), producer.send_many([b"c"]), producer.send_many([b"d"], keys=[b"k"])]
    producer.flush()
    assert topic.seen == [(0, [3, 1])]
    assert [future.result()[0].numbers for future in futures] == [range(1, 3), range(3, 4), range(4, 5)]
    assert values(topic) == [b"a", b"b", b"c", b"d"]


def test_what_does_not_fit_in_one_batch_goes_in_several(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, max_batch_bytes=1000)
    many = [bytes([number]) * 300 for number in range(20)]
    assert producer.send_many(many).result() == [LandedRange("deliveries", 0, range(1, 21))]
    assert values(topic) == many
    assert max(count for _, counts in topic.seen for count in counts) <= 3


def test_a_changed_buffer_does_not_change_what_was_sent(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    changing = bytearray(b"before")
    producer.send(changing)  # type: ignore[arg-type]  # taken all the same
    producer.send_many([changing, memoryview(b"view")])
    changing[:] = b"after!"
    producer.flush()
    assert values(topic) == [b"before", b"before", b"view"]


Sends = st.lists(st.integers(-9, 40), max_size=30)
"""Zero and below: a single message; above: so many together."""


@given(sends=Sends, partitions=st.integers(1, 7))
def test_messages_without_a_preference_are_spread_evenly(sends: list[int], partitions: int) -> None:
    """Row W2: round robin; counts never differ by more than one, whatever mix of send and send_many."""
    topic = new_topic(partitions=partitions)
    with Producer(lambda: topic, clock=ManualClock(), linger_ms=LONG_MS) as producer:
        for count in sends:
            if count <= 0:
                producer.send(b"one")
            else:
                producer.send_many([b"many"] * count)
        producer.flush()
        counts = [topic.bounds(partition).next - 1 for partition in range(partitions)]
    assert sum(counts) == sum(max(count, 1) for count in sends)
    assert max(counts) - min(counts) <= 1


@given(sends=Sends, partitions=st.integers(2, 5))
def test_null_keys_are_spread_evenly_among_keyed_messages(sends: list[int], partitions: int) -> None:
    """Row W2, on a topic that hashes keys."""
    topic = new_topic(partitions=partitions, partitioner="key-hash")
    with Producer(lambda: topic, clock=ManualClock(), linger_ms=LONG_MS) as producer:
        for count in sends:
            if count <= 0:
                producer.send(b"null")
            else:
                producer.send_many([b"null", b"keyed"] * count, keys=[None, b"k"] * count)
        producer.flush()
        counts = [values(topic, partition).count(b"null") for partition in range(partitions)]
        keyed = [values(topic, partition).count(b"keyed") for partition in range(partitions)]
    assert max(counts) - min(counts) <= 1
    assert keyed[KeyHash().pick(b"k", None, partitions) or 0] == sum(max(count, 0) for count in sends)


def test_messages_of_one_key_stay_in_order_in_one_partition(open_producer: Open) -> None:
    """Row K4: FIFO per partition key, the same for send and for send_many."""
    topic = new_topic(partitions=5, partitioner="key-hash")
    producer = open_producer(topic)
    keys = [b"key-%d" % (number % 11) for number in range(440)]
    sent = [b"%d" % number for number in range(440)]
    for value, key in zip(sent[:220], keys[:220], strict=True):
        producer.send(value, key=key)
    producer.send_many(sent[220:], keys=keys[220:])
    producer.flush()
    for key in set(keys):
        partition = KeyHash().pick(key, None, 5)
        assert partition is not None
        stored = [message.value for message in messages(topic, partition) if message.key == key]
        assert stored == [value for value, other in zip(sent, keys, strict=True) if other == key]


def test_a_json_field_decides(open_producer: Open) -> None:
    """Row W2: hash of a chosen field of the message."""
    topic = new_topic(partitions=4, partitioner="json-field:city")
    producer = open_producer(topic)
    one = producer.send(b'{"city": "Bern"}').result()
    many = producer.send_many([b'{"city": "Bern", "late": true}'] * 3).result()
    assert {one.partition} == {landed.partition for landed in many} == {KeyHash().pick(b"Bern", None, 4)}


class Longest:
    """The longer the value, the higher the partition."""

    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:
        del key
        return min(len(value or b""), partitions - 1)

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        return pa.array([self.pick(None, value, partitions) for value in columns.values.to_pylist()])


@pytest.mark.parametrize("own", [Longest(), Longest().pick], ids=["object", "function"])
def test_ones_own_partitioner_decides(open_producer: Open, own: Any) -> None:
    """Row W2: further ones pluggable; the producer's own goes before the topic's."""
    topic = new_topic(partitions=3, partitioner="key-hash")
    producer = open_producer(topic, partitioner=own)
    assert producer.send(b"", key=b"k").result().partition == 0
    assert producer.send(b"aa", key=b"k").result().partition == 2
    assert [landed.partition for landed in producer.send_many([b"aaa", b"a"]).result()] == [1, 2]


def test_a_partitioner_that_returns_no_partition_is_told_so(open_producer: Open) -> None:
    topic = new_topic(partitions=3)
    producer = open_producer(topic, partitioner=lambda _key, _value, partitions: partitions)
    with pytest.raises(InvalidValue, match="partition 3 is not valid: a partitioner must return 0 to 2"):
        producer.send(b"a")
    with pytest.raises(InvalidValue, match="partition 3 is not valid: a partitioner must return 0 to 2"):
        producer.send_many([b"a"])
    producer.flush()
    assert topic.seen == []


def test_the_caller_may_name_the_partition(open_producer: Open) -> None:
    topic = new_topic(partitions=3, partitioner="key-hash")
    producer = open_producer(topic)
    assert producer.send(b"a", key=b"k", partition=2).result() == Landed("deliveries", 2, 1)
    assert producer.send_many([b"b"] * 3, partition=2).result() == [LandedRange("deliveries", 2, range(2, 5))]
    with pytest.raises(UnknownPartition, match="partitions 0 to 2"):
        producer.send(b"a", partition=3)
    for wrong in (-1, True, "0"):
        with pytest.raises(InvalidValue, match="partition"):
            producer.send(b"a", partition=wrong)  # type: ignore[arg-type]


def test_partitions_added_while_running_are_used(open_producer: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row K4: later adding partitions while running. A named one at once, the others within about a second."""
    topic = new_topic(partitions=1)
    producer = open_producer(topic)
    producer.send(b"a").result()
    current = topic.current()
    topic.engine.alter_topic(
        Topic(name=current.name, id=current.id, created_ms=0, settings=TopicSettings(partitions=2))
    )
    assert producer.send(b"b", partition=1).result().partition == 1
    assert {producer.send(b"c").result().partition for _ in range(2)} == {0, 1}
    topic.engine.alter_topic(
        Topic(name=current.name, id=current.id, created_ms=0, settings=TopicSettings(partitions=3), version=2)
    )
    monkeypatch.setattr("ottla.client.producer._REFRESH_S", 0.0)
    producer._refresh_at = 0.0
    assert {landed.partition for landed in producer.send_many([b"d"] * 3).result()} == {0, 1, 2}


def test_a_producer_starts_at_any_partition() -> None:
    """Row W2: programs that send one message each do not all choose the same partition."""
    topic = new_topic(partitions=2)
    for _ in range(64):
        with Producer(lambda: topic, clock=ManualClock()) as producer:
            producer.send(b"a")
    assert topic.bounds(0).next > 1
    assert topic.bounds(1).next > 1


def test_the_topic_is_opened_by_the_first_use() -> None:
    topic, opened = new_topic(), []
    with Producer(lambda: opened.append(topic) or topic, clock=ManualClock()) as producer:  # type: ignore[func-returns-value]
        assert "not opened" in repr(producer)
        assert opened == []
        producer.send(b"a").result()
        producer.send(b"b").result()
        assert opened == [topic]
        assert "deliveries" in repr(producer)


def test_leaving_the_block_stores_what_was_sent(topic: Appends) -> None:
    with Producer(lambda: topic, clock=ManualClock(), linger_ms=LONG_MS) as producer:
        producer.send(b"a")
    assert values(topic) == [b"a"]
    assert "closed" in repr(producer)


def test_leaving_the_block_by_an_error_stores_what_was_sent(topic: Appends) -> None:
    def mistaken() -> None:
        with Producer(lambda: topic, clock=ManualClock(), linger_ms=LONG_MS) as producer:
            producer.send(b"a")
            raise KeyError("mistake")

    with pytest.raises(KeyError, match="mistake"):
        mistaken()
    assert values(topic) == [b"a"]


@pytest.mark.parametrize("used", [True, False], ids=["used", "never used"])
def test_a_closed_producer_says_so(topic: Appends, used: bool) -> None:
    producer = Producer(lambda: topic, clock=ManualClock())
    if used:
        producer.send(b"a")
    producer.close()
    producer.close()
    for call in (lambda: producer.send(b"b"), lambda: producer.send_many([b"b"]), producer.flush):
        with pytest.raises(Closed, match="producer is closed"):
            call()
    assert values(topic) == [b"a"][: int(used)]


def test_closing_ends_the_background_thread(topic: Appends) -> None:
    before = set(threading.enumerate())
    with Producer(lambda: topic, clock=ManualClock()) as producer:
        producer.send(b"a")
        assert any("deliveries" in thread.name for thread in set(threading.enumerate()) - before)
    assert set(threading.enumerate()) - before == set()


def test_a_message_over_the_topics_limit_is_refused_and_the_others_go_on(open_producer: Open) -> None:
    topic = new_topic(max_message_bytes=100)
    producer = open_producer(topic)
    fits = producer.send(bytes(100))
    for call in (
        lambda: producer.send(bytes(101)),
        lambda: producer.send(bytes(90), key=bytes(11)),
        lambda: producer.send_many([b"small", bytes(101)]),
    ):
        with pytest.raises(MessageTooLarge, match=r"101 bytes is over the limit of 100.*max_message_bytes"):
            call()
    assert fits.result().number == 1
    producer.flush()
    assert values(topic) == [bytes(100)]


def test_a_message_larger_than_a_batch_travels_alone(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, max_batch_bytes=1000, linger_ms=LONG_MS)
    for value in (b"before", bytes(5000), b"after"):
        producer.send(value)
    producer.send_many([b"x", bytes(5000), b"y"])
    producer.flush()
    assert [len(value or b"") for value in values(topic)] == [6, 5000, 5, 1, 5000, 1]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda p: p.send("text"), "value 'text' is not valid: messages are bytes: encode text first"),
        (lambda p: p.send(7), "value 7 is not valid: messages are bytes"),
        (lambda p: p.send(b"a", key="k"), "key 'k' is not valid"),
        (lambda p: p.send(b"a", headers={"h": "text"}), "header"),
        (lambda p: p.send(b"a", headers=7), "headers 7 is not valid"),
        (lambda p: p.send(b"a", timestamp_ms=1.5), "timestamp_ms 1.5 is not valid"),
        (lambda p: p.send(b"a", timestamp_ms=2**62), "timestamp_ms 4611686018427387904 is not valid"),
        (lambda p: p.send_record(b"a"), "record b'a' is not valid"),
        (lambda p: p.send_many([]), "messages .*empty.* is not valid: give at least one"),
        (lambda p: p.send_many(pa.array([], pa.binary())), "give at least one"),
        (lambda p: p.send_many(b"text"), r"messages b'text' is not valid: give a list of them; send\(\) takes"),
        (lambda p: p.send_many(7), "messages 7 is not valid"),
        (lambda p: p.send_many([b"a", "text"]), "values 'text' is not valid"),
        (lambda p: p.send_many([b"a"], keys=[b"k", b"k"]), "keys .*give one for each"),
        (lambda p: p.send_many([b"a"], keys=7), "messages 7|keys 7"),
        (lambda p: p.send_many([b"a"], timestamps=[2**62]), "timestamp_ms 4611686018427387904 is not valid"),
        (lambda p: p.send_many([Record(value=b"a")], keys=[b"k"]), "keys .* records have their own"),
        (lambda p: p.send_many(pa.table({"value": [b"a"]}), keys=[b"k"]), "keys .* the table has its own"),
        (lambda p: p.send_many(pa.array([b"a"]), keys=[b"k"]), "keys .* give another such array"),
        (lambda p: p.send_many(pa.array([1, 2])), "binary or text"),
    ],
)
def test_wrong_values_are_refused_by_the_call_and_nothing_is_sent(
    topic: Appends, open_producer: Open, call: Callable[[Any], object], said: str
) -> None:
    producer = open_producer(topic)
    with pytest.raises(InvalidValue, match=said):
        call(producer)
    producer.flush()
    assert topic.seen == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"linger_ms": -1}, "linger_ms -1"),
        ({"linger_ms": "5"}, "linger_ms '5'"),
        ({"max_batch_bytes": 0}, "max_batch_bytes 0"),
        ({"max_batch_bytes": "1GiB"}, "a batch holds at most"),
        ({"max_batch_bytes": None}, "a batch holds at most"),
        ({"max_buffer_bytes": 10}, "max_buffer_bytes 10"),
        ({"send_timeout": "soon"}, "send_timeout 'soon'"),
        ({"compression": "rar"}, "compression 'rar'"),
        ({"partitioner": 7}, "partitioner 7"),
        ({"partitioner": "sticky"}, "partitioner 'sticky'"),
        ({"name": "a/b"}, "producer name 'a/b'"),
        ({"name": "a", "idempotent": False}, "a producer with a name is idempotent"),
    ],
)
def test_wrong_options_are_refused_with_a_sentence(topic: Appends, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidValue, match=said):
        Producer(lambda: topic, clock=ManualClock(), **options)


def test_options_may_be_words(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(
        topic, max_batch_bytes="64KiB", max_buffer_bytes="unlimited", send_timeout="forever", compression="zstd"
    )
    assert producer.send(b"a" * 1000).result().number == 1
    assert topic.read(0, 1, 2**20)[0].header.compression == "zstd"


def test_a_future_calls_back_when_it_is_done_and_at_once_if_it_is(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    done: list[SendFuture | SendManyFuture] = []
    one, many = producer.send(b"a"), producer.send_many([b"b", b"c"])
    one.add_done_callback(done.append)
    many.add_done_callback(done.append)
    assert done == []
    assert "pending" in repr(one)
    assert "pending" in repr(many)
    producer.flush()
    assert done == [one, many]
    one.add_done_callback(done.append)
    many.add_done_callback(done.append)
    assert done == [one, many, one, many]
    assert one.exception() is many.exception() is None
    assert "done" in repr(one)
    assert "done" in repr(many)


def test_an_error_in_a_callback_is_logged_and_harms_nothing(
    topic: Appends, open_producer: Open, caplog: pytest.LogCaptureFixture
) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    future = producer.send(b"a")
    future.add_done_callback(lambda _: 1 / 0)
    assert future.result().number == 1
    assert "callback" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_callback_may_send_flush_and_wait(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    landed: list[int] = []

    def again(_: object) -> None:
        landed.append(producer.send(b"b").result().number)
        producer.send(b"c")
        producer.flush()

    future = producer.send(b"a")
    future.add_done_callback(again)
    future.result()
    assert landed == [2]
    assert values(topic) == [b"a", b"b", b"c"]


def test_a_deleted_topic_is_told_to_the_future_and_to_every_later_send(topic: Appends) -> None:
    producer = Producer(lambda: topic, clock=ManualClock(), linger_ms=LONG_MS)
    future = producer.send(b"a")
    topic.engine.delete_topic("deliveries")
    with pytest.raises(TopicRecreated):
        future.result()
    for _ in range(2):
        with pytest.raises(TopicRecreated):
            producer.send(b"b")
    producer.close()


def test_many_threads_may_share_a_producer(open_producer: Open) -> None:
    """Each thread's messages stay in order, and none is lost or doubled."""
    topic = new_topic(partitions=2)
    producer = open_producer(topic, linger_ms=1, max_batch_bytes=2000)
    failed: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for number in range(200):
                future: SendFuture | SendManyFuture
                if number % 10:
                    future = producer.send(b"%d %d" % (name, number), partition=name % 2)
                else:
                    future = producer.send_many([b"%d %d" % (name, number)], partition=name % 2)
                if number % 17 == 0:
                    future.result()
        except BaseException as error:  # noqa: BLE001  (the test wants to see it)
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush()
    assert failed == []
    stored = [(value or b"").split() for partition in (0, 1) for value in values(topic, partition)]
    for name in range(6):
        assert [int(number) for who, number in stored if int(who) == name] == list(range(200))


def test_many_threads_waiting_for_results_share_appends(topic: Appends, open_producer: Open) -> None:
    producer = open_producer(topic, linger_ms=LONG_MS)
    numbers: list[int] = []

    def work() -> None:
        numbers.extend(producer.send(b"a").result().number for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 401))


def test_a_range_is_given_for_each_run_of_numbers(topic: Appends, open_producer: Open) -> None:
    """Another writer's messages may come between the batches of one send_many."""
    other = open_producer(topic)
    producer = open_producer(topic, linger_ms=LONG_MS, max_batch_bytes=1000)
    real_append = topic.append

    def append(partition: int, batches: Sequence[Any], *, expected_next: int | None = None) -> Any:
        topic.append = real_append  # type: ignore[method-assign]
        appended = real_append(partition, batches, expected_next=expected_next)
        other.send(b"between").result()
        return appended

    topic.append = append  # type: ignore[method-assign]
    first = producer.send_many([bytes(600)] * 9)
    ranges = [landed.numbers for landed in first.result()]
    assert len(ranges) == 2
    assert [number for numbers in ranges for number in numbers] == sorted({*range(1, 11)} - {ranges[0].stop})
