"""The asyncio façade: nothing blocks the loop, sends share batches, cancelling loses nothing."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.client.log import Log
from ottla.storage.contract import EngineOptions
from ottla.storage.memory import MemoryEngine

LONG = 30.0
"""Seconds that a test is willing to wait for what must come; never asserted."""


def run(work: Callable[[ottla.aio.AsyncLog], Coroutine[Any, Any, None]]) -> None:
    """Do *work* on a fresh memory log, in a loop of its own."""

    async def main() -> None:
        async with ottla.aio.open("memory:") as log:
            await work(log)

    asyncio.run(main())


def test_topics_are_managed_and_messages_appended_and_read() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.create_topic("deliveries", partitions=2, retention="7d")
        await log.alter_topic("deliveries", retention="1d")
        await log.add_partitions("deliveries", 3)
        assert [t.name for t in await log.topics()] == ["deliveries"]
        assert (await log.topic("deliveries")).settings.partitions == 3
        landed = await log.append("deliveries", [b"a", b"b"], partition=2)
        assert landed[0].numbers == range(1, 3)
        assert (await log.read("deliveries", 2)).values() == [b"a", b"b"]
        assert await log.bounds("deliveries", 2) == (1, 3)
        assert (await log.describe("deliveries")).messages == 2
        await log.commit("billing", "deliveries", {2: 2})
        assert await log.committed("billing", "deliveries") == {2: 2}
        await log.trim("deliveries", 2, before=2)
        await log.delete_topic("deliveries")
        with pytest.raises(ottla.UnknownTopic):
            await log.read("deliveries")

    run(work)


def test_a_send_is_awaited_until_it_landed() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        async with log.producer("deliveries") as producer:
            assert await producer.send(b"a", key=b"k") == ottla.Landed("deliveries", 0, 1)
            assert (await producer.send_many([b"b", b"c"]))[0].numbers == range(2, 4)
        assert [m.key for m in await log.read("deliveries")] == [b"k", None, None]

    run(work)


def test_sends_that_wait_at_once_share_batches_and_keep_their_order() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        async with log.producer("deliveries", linger_ms=50) as producer:
            landed = await asyncio.gather(*(producer.send(b"%d" % n) for n in range(500)))
        assert [where.number for where in landed] == list(range(1, 501))
        assert (await log.read("deliveries")).values() == [b"%d" % n for n in range(500)]
        handle = log.log._catalog.open("deliveries")
        assert len(handle.read(0, 1, 2**30)) < 50

    run(work)


def test_an_error_reaches_whoever_awaits_the_send_and_nobody_else() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        async with log.producer("deliveries") as producer:
            good, wrong, huge = await asyncio.gather(
                producer.send(b"fine"),
                producer.send("text"),  # type: ignore[arg-type]  # the point
                producer.send(bytes(9 * 2**20)),
                return_exceptions=True,
            )
        assert good == ottla.Landed("deliveries", 0, 1)
        assert isinstance(wrong, ottla.InvalidValue)
        assert isinstance(huge, ottla.MessageTooLarge)

    run(work)


def test_a_full_buffer_does_not_block_the_loop() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        free = threading.Event()
        await log.create_topic("deliveries")
        store = log.log._catalog.open("deliveries").partition(0)
        append = store.append

        def slow(*args: Any, **options: Any) -> Any:
            assert free.wait(LONG)
            return append(*args, **options)

        store.append = slow  # type: ignore[method-assign]  # a disk that hangs for a while
        async with log.producer("deliveries", max_buffer_bytes=1024, linger_ms=0) as producer:
            sends = [asyncio.create_task(producer.send(b"x" * 400)) for _ in range(10)]
            await asyncio.sleep(0.05)  # the loop is alive, or this would never end
            assert not any(send.done() for send in sends)
            free.set()
            assert [landed.number for landed in await asyncio.gather(*sends)] == list(range(1, 11))

    run(work)


def test_a_cancelled_send_leaves_the_others_alone() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        async with log.producer("deliveries", linger_ms=20) as producer:
            first, second = asyncio.create_task(producer.send(b"a")), asyncio.create_task(producer.send(b"b"))
            await asyncio.sleep(0)
            first.cancel()
            landed = await second
        assert (await log.read("deliveries", start=landed.number)).values() == [b"b"]
        assert first.cancelled()

    run(work)


def test_a_poll_waits_without_blocking_the_loop() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.create_topic("deliveries")
        consumer = await log.consumer("deliveries")
        polling = asyncio.create_task(consumer.poll(timeout=LONG))
        await asyncio.sleep(0.01)
        await log.append("deliveries", [b"a"])
        messages, position = await polling
        assert (messages.values(), position, consumer.position) == ([b"a"], 2, 2)
        assert (await consumer.poll())[1] == 2
        assert (await consumer.lag()).total == 0

    run(work)


@pytest.mark.parametrize("pause_s", [0, 0.001, 0.02])
def test_a_cancelled_poll_loses_no_message(pause_s: float) -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.create_topic("deliveries")
        consumer = await log.consumer("deliveries")
        seen: list[int] = []
        for number in range(1, 11):
            polling = asyncio.create_task(consumer.poll(timeout=LONG))
            await asyncio.sleep(pause_s)
            appending = asyncio.create_task(log.append("deliveries", [b"%d" % number]))
            await asyncio.sleep(pause_s)
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                seen += [message.number for message in (await polling)[0]]
            await appending
        while len(seen) < 10:
            seen += [message.number for message in (await consumer.poll(timeout=LONG))[0]]
        assert seen == list(range(1, 11))

    run(work)


def test_a_poll_that_is_cancelled_with_its_messages_found_does_not_move() -> None:
    """The worst moment: the thread has the messages and the task never gets them."""

    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.append("deliveries", [b"a"])
        consumer = await log.consumer("deliveries")
        found = threading.Event()
        peek = consumer._consumer.peek

        def noticed(*args: Any, **options: Any) -> Any:
            try:
                return peek(*args, **options)
            finally:
                found.set()

        consumer._consumer.peek = noticed  # type: ignore[method-assign]  # to know when
        polling = asyncio.create_task(consumer.poll(timeout=LONG))
        await asyncio.sleep(0)
        assert found.wait(LONG)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling
        assert consumer.position == 1
        assert (await consumer.poll())[0].values() == [b"a"]

    run(work)


def test_iteration_follows_the_tail() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.append("deliveries", [b"1", b"2"])
        seen = []
        async with log.consumer("deliveries") as consumer:
            async for message in consumer:
                seen.append((message.value, consumer.position))
                if len(seen) == 2:
                    await log.append("deliveries", [b"3"])
                if len(seen) == 3:
                    break
        assert seen == [(b"1", 2), (b"2", 3), (b"3", 4)]

    run(work)


def test_iteration_ends_when_another_task_closes_the_consumer_or_nothing_comes() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.append("deliveries", [b"1"])
        consumer = await log.consumer("deliveries")
        assert [m.number async for m in consumer.follow(idle_timeout=0)] == [1]

        async def count() -> int:
            return len([m async for m in consumer])

        counting = asyncio.create_task(count())
        await asyncio.sleep(0.01)
        await consumer.close()
        assert await counting == 0

    run(work)


def test_iteration_ends_when_the_consumer_is_closed_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.append("deliveries", [b"1"])
        consumer = await log.consumer("deliveries")
        peek = ottla.Consumer.peek

        def closed_first(self: ottla.Consumer, *args: Any, **options: Any) -> Any:
            self.stop()
            return peek(self, *args, **options)

        monkeypatch.setattr(ottla.Consumer, "peek", closed_first)
        assert [m async for m in consumer] == []

    run(work)


@pytest.mark.parametrize("closed_by", ["consumer", "log"])
def test_an_error_in_the_block_stores_no_position_of_what_may_not_be_done(closed_by: str) -> None:
    engine = MemoryEngine(EngineOptions())

    async def fail(log: ottla.aio.AsyncLog) -> None:
        if closed_by == "consumer":
            async with log.consumer("deliveries", group="billing", auto_commit=True) as consumer:
                await consumer.poll()
                raise ZeroDivisionError
        consumer = await log.consumer("deliveries", group="billing", auto_commit=True)
        await consumer.poll()
        raise ZeroDivisionError

    async def main() -> None:
        async with ottla.aio.AsyncLog(Log(engine, "memory:")) as log:
            await log.append("deliveries", [b"1"])
            await fail(log)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(main())
    engine._closed = False  # what is stored is still there, to be looked at
    assert Log(engine, "memory:").committed("billing", "deliveries") == {}


def test_positions_are_committed_and_resumed() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.append("deliveries", [b"1", b"2", b"3"])
        async with log.consumer("deliveries", group="billing") as consumer:
            await consumer.poll(max_messages=2)
            await consumer.commit()
            assert await consumer.committed() == 3
            await consumer.seek("earliest")
            assert consumer.position == 1
        async with log.consumer("deliveries", group="billing", auto_commit=True) as consumer:
            assert consumer.position == 3
            await consumer.poll()
        assert await log.committed("billing", "deliveries") == {0: 4}

    run(work)


def test_what_is_closed_says_so() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        await log.create_topic("deliveries")
        producer, consumer = await log.producer("deliveries"), await log.consumer("deliveries")
        await log.close()
        for use in (producer.send(b"x"), consumer.poll(), log.topics()):
            with pytest.raises(ottla.Closed):
                await use
        await producer.close()
        await consumer.close()

    run(work)


def test_closing_sends_what_was_taken() -> None:
    async def work(log: ottla.aio.AsyncLog) -> None:
        producer = await log.producer("deliveries", linger_ms=60_000)
        sends = [asyncio.create_task(producer.send(b"%d" % n)) for n in range(20)]
        await asyncio.sleep(0)
        await producer.close()
        assert [landed.number for landed in await asyncio.gather(*sends)] == list(range(1, 21))

    run(work)


FOR_SERVERS = {"culler_errors", "culler_failure", "defaults", "handle", "start_culler"}


@pytest.mark.parametrize("name", sorted(name for name in vars(Log) if not name.startswith("_")))
def test_every_call_of_a_log_is_there(name: str) -> None:
    assert hasattr(ottla.aio.AsyncLog, name) or name in FOR_SERVERS


def test_a_wrong_url_is_the_same_error() -> None:
    async def main() -> None:
        with pytest.raises(ottla.UnknownEngine):
            await ottla.aio.open("ftp://x")

    asyncio.run(main())
