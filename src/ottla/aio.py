"""asyncio over the same core: every call of `Log`, `Producer` and `Consumer`, awaited instead of blocking.

    log = await ottla.aio.open("file:///data")            # or: async with ottla.aio.open(…) as log
    async with log.producer("deliveries") as producer:
        landed = await producer.send(b"truck 1021 on time")
    async for message in await log.consumer("deliveries"):
        ...

There is no logic here. Blocking calls run in threads: a few for a log, one for each producer and consumer. Many
sends that wait at once share batches. Cancelling a poll loses no message: the position moves only when the
messages are handed over. Cancelling a send takes it back only if no thread has taken it yet.
"""

import asyncio
import contextlib
import functools
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from ottla.batch import Messages
from ottla.client.consumer import Consumer
from ottla.client.log import Log, open_log
from ottla.client.producer import Producer
from ottla.errors import Closed
from ottla.model import Landed, LandedRange, Message, Position, Topic
from ottla.settings import check_timeout

__all__ = ["AsyncConsumer", "AsyncLog", "AsyncProducer", "open"]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="_Closing")

_THREADS = 4
_WAIT_S = 0.5
"""The longest single wait in a thread: a cancelled poll frees its thread after this time."""


class _Closing(Protocol):
    async def __aexit__(self, *error: object) -> None: ...


class Opening(Generic[C]):
    """Something that is being opened: await it, or use it in `async with`, which closes it in the end."""

    def __init__(self, opening: Callable[[], Awaitable[C]]) -> None:
        self._opening = opening

    def __await__(self) -> Generator[Any, None, C]:
        return self._opening().__await__()

    async def __aenter__(self) -> C:
        self._opened = await self
        return self._opened

    async def __aexit__(self, *error: object) -> None:
        await self._opened.__aexit__(*error)


class _Threaded:
    """Calls of one object, carried out in its own threads."""

    def __init__(self, what: str, threads: int) -> None:
        self._what = what
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"ottla-aio-{what}")
        self._ended = False

    async def _run(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, functools.partial(call, *args, **options))

    def _check_open(self) -> None:
        if self._ended:
            raise Closed(self._what)

    def _end_threads(self) -> None:
        self._ended = True
        self._executor.shutdown(wait=False)


def open(url: str, **options: Any) -> "Opening[AsyncLog]":  # noqa: A001  (ottla.aio.open mirrors ottla.open)
    """Open the log at *url* with the options of `ottla.open`."""

    async def opening() -> AsyncLog:
        return AsyncLog(await asyncio.to_thread(open_log, url, **options))

    return Opening(opening)


def _of_log(method: Callable[Concatenate[Log, P], T]) -> Callable[Concatenate["AsyncLog", P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def call(self: "AsyncLog", /, *args: P.args, **options: P.kwargs) -> T:
        return await self._run(functools.partial(method, self.log, *args, **options))

    return call


class AsyncLog(_Threaded):
    """A `Log` whose calls are awaited."""

    def __init__(self, log: Log) -> None:
        super().__init__("log", _THREADS)
        self.log = log
        """The log underneath, for what does not block."""
        self._opened: weakref.WeakSet[AsyncProducer | AsyncConsumer] = weakref.WeakSet()

    async def create_topic(self, name: str, **settings: Any) -> Topic:
        """Make a topic, as `Log.create_topic` does."""
        return await self._run(self.log.create_topic, name, **settings)

    async def alter_topic(self, name: str, **changes: Any) -> Topic:
        """Change settings, as `Log.alter_topic` does."""
        return await self._run(self.log.alter_topic, name, **changes)

    topics = _of_log(Log.topics)
    topic = _of_log(Log.topic)
    describe = _of_log(Log.describe)
    add_partitions = _of_log(Log.add_partitions)
    delete_topic = _of_log(Log.delete_topic)
    append = _of_log(Log.append)
    read = _of_log(Log.read)
    bounds = _of_log(Log.bounds)
    find = _of_log(Log.find)
    trim = _of_log(Log.trim)
    compact = _of_log(Log.compact)
    groups = _of_log(Log.groups)
    committed = _of_log(Log.committed)
    commit = _of_log(Log.commit)
    delete_group = _of_log(Log.delete_group)
    cull = _of_log(Log.cull)

    def producer(self, topic: str, **options: Any) -> "Opening[AsyncProducer]":
        """A producer, with the options of `Log.producer`."""

        async def opening() -> AsyncProducer:
            producer = AsyncProducer(await self._run(self.log.producer, topic, **options))
            self._opened.add(producer)
            return producer

        return Opening(opening)

    def consumer(self, topic: str, **options: Any) -> "Opening[AsyncConsumer]":
        """A consumer, with the options of `Log.consumer`."""

        async def opening() -> AsyncConsumer:
            consumer = AsyncConsumer(await self._run(self.log.consumer, topic, **options))
            self._opened.add(consumer)
            return consumer

        return Opening(opening)

    async def close(self) -> None:
        """Close the log and what was opened through it."""
        try:
            results = await asyncio.gather(*(opened.close() for opened in self._opened), return_exceptions=True)
        finally:
            await asyncio.to_thread(self.log.close)
            self._end_threads()
        for error in filter(None, results):
            raise error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, error: object = None, *_: object) -> None:
        if error is not None:
            for opened in list(self._opened):
                if isinstance(opened, AsyncConsumer):
                    opened.failed()
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self.log!r}"


class AsyncProducer(_Threaded):
    """A `Producer` whose sends are awaited. One thread hands over what all tasks send, in their order."""

    def __init__(self, producer: Producer) -> None:
        super().__init__("producer", 1)
        self._producer = producer
        self._sends: deque[tuple[asyncio.Future[Any], Callable[[], Any]]] = deque()
        self._handing_over: asyncio.Future[None] | None = None

    async def send(self, value: bytes | None, **options: Any) -> Landed:
        """Where the message is, once it is as durable as its topic promises. Options as for `Producer.send`."""
        landed: Landed = await self._send(functools.partial(self._producer.send, value, **options))
        return landed

    async def send_many(self, values: Any, **options: Any) -> list[LandedRange]:
        """Where the messages are. Options as for `Producer.send_many`."""
        landed: list[LandedRange] = await self._send(functools.partial(self._producer.send_many, values, **options))
        return landed

    async def flush(self) -> None:
        """Wait until everything that was sent before is stored."""
        await self._run(self._producer.flush)

    async def close(self) -> None:
        """Take nothing more, and send what was taken."""
        self._ended = True
        while self._handing_over is not None:
            await asyncio.wait([self._handing_over])
        try:
            await asyncio.to_thread(self._producer.close)
        finally:
            self._end_threads()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _send(self, send: Callable[[], Any]) -> asyncio.Future[Any]:
        self._check_open()
        loop = asyncio.get_running_loop()
        landing = loop.create_future()
        self._sends.append((landing, send))
        if self._handing_over is None:
            self._hand_over(loop)
        return landing

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the thread take what waits; then look again, because more may have come meanwhile."""
        self._handing_over = loop.run_in_executor(self._executor, self._take, loop)
        self._handing_over.add_done_callback(lambda _: self._handed_over(loop))

    def _handed_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._handing_over = None
        if self._sends:
            self._hand_over(loop)

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: send may block while the buffer is full, and the loop must not."""
        while self._sends:
            landing, send = self._sends.popleft()
            if landing.cancelled():
                continue
            try:
                send().add_done_callback(functools.partial(_settle_soon, loop, landing))
            except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to whoever awaits the send)
                loop.call_soon_threadsafe(_settle, landing, error, None)


def _settle_soon(loop: asyncio.AbstractEventLoop, landing: asyncio.Future[Any], sent: Any) -> None:
    """In the thread that stored the message: tell the loop, unless it is gone."""
    error = sent.exception()
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, landing, error, None if error else sent.result())


def _settle(landing: asyncio.Future[Any], error: BaseException | None, landed: Any) -> None:
    if landing.done():
        return  # the task was cancelled
    if error is not None:
        landing.set_exception(error)
    else:
        landing.set_result(landed)


class AsyncConsumer(_Threaded):
    """A `Consumer` whose polls are awaited. For one task at a time; only `close` may come from another."""

    def __init__(self, consumer: Consumer) -> None:
        super().__init__("consumer", 1)
        self._consumer = consumer

    @property
    def position(self) -> Position:
        """The number that is read next; a mapping from partition to number where there are several."""
        return self._consumer.position

    async def poll(
        self,
        timeout: float | None = 0.0,  # noqa: ASYNC109  (it means what it means for Consumer.poll: no messages, no error)
        *,
        max_messages: int | None = None,
        max_bytes: int | str | None = None,
    ) -> tuple[Messages, Position]:
        """The next messages and the position after them; none if nothing comes within *timeout* seconds."""
        messages, position = await self._peek(check_timeout(timeout), max_messages, max_bytes)
        if messages:
            self._consumer.seek(position)
        return messages, position

    def __aiter__(self) -> AsyncIterator[Message]:
        """Every message from the position on, following the tail until the consumer is closed."""
        return self.follow()

    async def follow(self, idle_timeout: float | None = None) -> AsyncIterator[Message]:
        """Messages one by one, until the consumer is closed or nothing came for *idle_timeout* seconds."""
        while not self._consumer.closed:
            try:
                messages, _ = await self._peek(check_timeout(idle_timeout), None, None)
            except Closed:
                break  # on the way to the thread
            if not messages and idle_timeout is not None:
                return
            for message in self._consumer.each(messages):
                yield message

    async def seek(self, position: Any) -> None:
        """Read on from somewhere else, as `Consumer.seek` does."""
        await self._run(self._consumer.seek, position)

    async def lag(self) -> Any:
        """How far the position is behind the end, in messages."""
        return await self._run(self._consumer.lag)

    async def commit(self) -> None:
        """Store the position under the consumer's group, durably."""
        await self._run(self._consumer.commit)

    async def committed(self) -> Position | None:
        """The position that the consumer's group stored last; `None` if it stored none."""
        return await self._run(self._consumer.committed)

    async def close(self) -> None:
        """Stop reading, and store positions as `Consumer.close` does."""
        try:
            await asyncio.to_thread(self._consumer.close)
        finally:
            self._end_threads()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, error: object = None, *_: object) -> None:
        if error is not None:
            self.failed()
        await self.close()

    def failed(self) -> None:
        """Store no position automatically any more: what was handed over last may not be done."""
        self._consumer.stop(failed=True)

    async def _peek(
        self, wait_s: float, max_messages: int | None, max_bytes: int | str | None
    ) -> tuple[Messages, Position]:
        """Look ahead in short waits, so that a cancelled poll leaves its thread free soon."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            left_s = max(deadline - loop.time(), 0.0)
            messages, position = await self._run(
                self._consumer.peek, min(left_s, _WAIT_S), max_messages=max_messages, max_bytes=max_bytes
            )
            if messages or left_s <= _WAIT_S or self._consumer.closed:
                return messages, position
