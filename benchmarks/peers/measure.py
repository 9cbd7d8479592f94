"""The measurements, the same for every peer: bounded in time, throughput the best of a few rounds."""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.peers.contract import NotRun, Peer, Session
from benchmarks.peers.payloads import PACKED, age_s, distinct, in_lists, pack, repeated, stamped, unpack
from benchmarks.rows import Row

SIZES = (100, 1024)
_PACKED_SIZE = SIZES[0]
"""Larger messages gain little from packing, and some peers refuse records of a megabyte."""
_WARM_UP = 50
"""Single sends that are not counted."""
_PAUSE_S = 0.002
_END = b"."
"""Ends a measurement from end to end."""
_ANSWER_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long to measure."""

    rounds: int
    round_s: float
    round_bytes: int
    """A round is shorter if it would come to more than this."""
    sends: int
    sends_s: float
    """A measurement of single sends ends after this time, however few they were."""
    limit_s: float
    """A peer that takes longer than this is given up."""


FULL = Plan(rounds=4, round_s=0.8, round_bytes=256 * 2**20, sends=1000, sends_s=2.5, limit_s=150.0)
QUICK = Plan(rounds=2, round_s=0.25, round_bytes=64 * 2**20, sends=200, sends_s=0.6, limit_s=90.0)


def measure(peer: Peer, address: str, plan: Plan) -> Iterator[Row]:
    """All that the peer's client can do: `what` names it, the group is the size of the messages."""
    for size in SIZES:
        with peer.connect(address) as session:
            for what, value, unit in _Bench(peer, session, address, size, plan).run():
                yield Row(group=f"{size:,} B", what=what, value=value, unit=unit)


Measured = tuple[str, float, str]


class _Bench:
    """One peer with messages of one size."""

    def __init__(self, peer: Peer, session: Session, address: str, size: int, plan: Plan) -> None:
        self._peer = peer
        self._session = session
        self._address = address
        self._size = size
        self._plan = plan
        self._values = distinct(size)
        self._produced: dict[str, int] = {}

    def run(self) -> Iterator[Measured]:
        for measurement in (self._singly, self._lists, self._consume, self._objects, self._packed, self._send):
            with suppress(NotImplementedError):  # the client has no such call
                yield from measurement()
        if not self._peer.is_limit:
            yield from self._end_to_end()

    # Throughput

    def _singly(self) -> Iterator[Measured]:
        yield "produce, one by one", self._produce(self._topic("single"), self._send_singly), "msg/s"

    def _lists(self) -> Iterator[Measured]:
        def work(topic: str, count: int) -> None:
            self._session.produce_lists(topic, in_lists(self._some(count), self._session.list_size))

        yield "produce, lists", self._produce(self._topic("lists"), work), "msg/s"

    def _consume(self) -> Iterator[Measured]:
        yield "consume", self._drain(self._largest(), self._session.chunks, len), "msg/s"

    def _objects(self) -> Iterator[Measured]:
        yield "consume, objects", self._drain(self._largest(), self._session.objects, len), "msg/s"

    def _packed(self) -> Iterator[Measured]:
        if self._size != _PACKED_SIZE:
            return

        def work(topic: str, count: int) -> None:
            self._session.produce(topic, map(pack, in_lists(self._some(count), PACKED)))

        topic = self._topic("packed")
        yield "produce, packed", self._produce(topic, work), "msg/s"
        yield "consume, packed", self._drain(topic, self._session.chunks, _unpacked), "msg/s"

    def _send_singly(self, topic: str, count: int) -> None:
        self._session.produce(topic, self._some(count))

    def _some(self, count: int) -> Iterator[bytes]:
        return repeated(self._values, count)

    def _topic(self, what: str) -> str:
        topic = f"{what}-{self._size}"
        self._session.create(topic)
        return topic

    def _largest(self) -> str:
        """The topic with the most messages."""
        topic = (
            self._topic("single") if not self._produced else max(self._produced, key=lambda one: self._produced[one])
        )
        self._produced.setdefault(topic, 2**62)
        return topic

    def _produce(self, topic: str, work: Callable[[str, int], None]) -> float:
        """The best rate of a few rounds, after a warm-up that finds out how much makes a round."""
        most = self._plan.round_bytes // self._size // PACKED * PACKED

        def rate(count: int) -> float:
            start = time.perf_counter()
            work(topic, count)
            self._produced[topic] = self._produced.get(topic, 0) + count
            return count / (time.perf_counter() - start)

        count = PACKED
        while count / (last := rate(count)) < self._plan.round_s / 3 and count < most:
            count = min(count * 4, most)
        best = 0.0
        for _ in range(self._plan.rounds):
            last = rate(min(most, max(1, round(last * self._plan.round_s / PACKED)) * PACKED))
            best = max(best, last)
        return best

    def _drain(self, topic: str, chunks: Callable[[str], Iterator[Sized]], count_of: Callable[[Any], int]) -> float:
        return max(self._drain_once(topic, chunks, count_of) for _ in range(self._plan.rounds))

    def _drain_once(
        self, topic: str, chunks: Callable[[str], Iterator[Sized]], count_of: Callable[[Any], int]
    ) -> float:
        """Messages a second from the beginning, once the client is connected."""
        total, seen = self._produced[topic], 0
        with closing(_generator(chunks(topic))) as arriving:
            next(arriving)
            start = time.perf_counter()
            while seen < total and time.perf_counter() - start < self._plan.round_s:
                seen += count_of(next(arriving))
            return seen / (time.perf_counter() - start)

    # Latency

    def _send(self) -> Iterator[Measured]:
        topic = self._topic("send")
        self._session.send_each(topic, self._some(_WARM_UP))
        values = _within(self._some(self._plan.sends), self._plan.sends_s)
        yield from _percentiles("send", self._session.send_each(topic, values))

    def _end_to_end(self) -> Iterator[Measured]:
        topic = self._topic("end-to-end")
        spawn = get_context("spawn")
        here, there = spawn.Pipe()
        receiver = spawn.Process(target=_receive, args=(self._peer, self._address, topic, there))
        receiver.start()
        there.close()
        try:
            _answer(here)
            time.sleep(0.3)  # it is about to wait
            values = stamped(self._size, self._plan.sends, _PAUSE_S)
            self._session.send_each(topic, _within(values, self._plan.sends_s))
            self._session.send_each(topic, [_END])
            yield from _percentiles("end to end", _answer(here)[_WARM_UP:])
        finally:
            receiver.join(1.0)
            receiver.kill()
            receiver.join()


def _receive(peer: Peer, address: str, topic: str, parent: Connection) -> None:
    """In another process: say how old each message was when it was here."""
    ages: list[float] = []
    with peer.connect(address) as session:
        with closing(_generator(session.chunks(topic))) as arriving:
            parent.send(len(next(arriving)))
            while True:
                chunk = next(arriving)
                now_ns = time.monotonic_ns()
                ages += [age_s(value, now_ns) for value in chunk if value != _END]
                if chunk[-1] == _END:
                    break
        parent.send(ages)


def _answer(connection: Connection) -> Any:
    if not connection.poll(_ANSWER_S):
        raise NotRun(f"a waiting consumer did not answer within {_ANSWER_S:.0f} s")
    try:
        return connection.recv()
    except EOFError:
        raise NotRun("a waiting consumer failed; its error is above") from None


def _generator(chunks: Iterator[Sized]) -> Any:
    """Every peer's chunks come from a generator, which can be closed."""
    return chunks


def _within(values: Iterable[bytes], seconds: float) -> Iterator[bytes]:
    deadline = time.monotonic() + seconds
    for value in values:
        yield value
        if time.monotonic() > deadline:
            return


def _percentiles(what: str, times: list[float]) -> Iterator[Measured]:
    ordered = sorted(times)
    yield f"{what}, p50", ordered[len(ordered) // 2] * 1000, "ms"
    yield f"{what}, p99", ordered[len(ordered) * 99 // 100] * 1000, "ms"


def _unpacked(records: list[bytes]) -> int:
    return sum(len(unpack(record)) for record in records)
