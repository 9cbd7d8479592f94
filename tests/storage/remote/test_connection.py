"""One HTTP/2 connection, against a server that is played by the test, frame by frame."""

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.remote import frames
from ottla.storage.remote.connection import Connection
from ottla.storage.remote.hpack import decode_headers, encode_headers
from ottla.storage.remote.stream import Lost, Stream, message_head

LONG_S = 60.0
OK = [(":status", "200"), ("content-type", "application/grpc")]
END = [("grpc-status", "0")]


def soon() -> float:
    return time.monotonic() + LONG_S


class Peer:
    """The server's side."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.settimeout(LONG_S)
        assert self._take(len(frames.PREFACE)) == frames.PREFACE

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the client closed the connection"
            data += more
        return data

    def frame(self) -> tuple[int, int, int, bytes]:
        """The next frame that is not an acknowledgement: type, flags, stream and payload."""
        while True:
            length, kind, flags, stream = frames.parse_head(bytearray(self._take(frames.HEAD_BYTES)), 0)
            payload = self._take(length)
            if not (kind in {frames.SETTINGS, frames.PING} and flags & frames.ACK):
                return kind, flags, stream, payload

    def send(self, *data: bytes) -> None:
        self._socket.sendall(b"".join(data))

    def send_beside(self, *data: bytes) -> threading.Thread:
        """More than fits into the line's buffers."""
        thread = threading.Thread(target=self.send, args=data)
        thread.start()
        return thread

    def headers(self, stream: int, headers: list[tuple[str, str]], *, end: bool = False) -> bytes:
        flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
        return frames.frame(frames.HEADERS, flags, stream, encode_headers(headers))

    def message(self, stream: int, message: bytes) -> bytes:
        return frames.frame(frames.DATA, 0, stream, message_head(len(message)) + message)

    def answer(self, stream: int, *messages: bytes) -> None:
        self.send(
            self.headers(stream, OK),
            *(self.message(stream, message) for message in messages),
            self.headers(stream, END, end=True),
        )

    def close(self) -> None:
        self._socket.close()


@contextlib.contextmanager
def connected(**server_settings: int) -> Iterator[tuple[Connection, Peer]]:
    ours, theirs = socket.socketpair()
    values = {getattr(frames, name): value for name, value in server_settings.items()}
    theirs.sendall(frames.settings(values))
    connection = Connection(ours, soon())
    peer = Peer(theirs)
    assert [peer.frame()[0] for _ in range(2)] == [frames.SETTINGS, frames.WINDOW_UPDATE]
    try:
        yield connection, peer
    finally:
        connection.close()
        peer.close()


@pytest.fixture
def pair() -> Iterator[tuple[Connection, Peer]]:
    with connected() as both:
        yield both


@pytest.fixture
def connection(pair: tuple[Connection, Peer]) -> Connection:
    return pair[0]


@pytest.fixture
def peer(pair: tuple[Connection, Peer]) -> Peer:
    return pair[1]


def call(connection: Connection, message: bytes = b"question") -> Stream:
    return connection.open(encode_headers([(":path", "/a/B")]), [message], end=True, deadline=soon())


def answer(connection: Connection, stream: Stream) -> list[bytes]:
    assert connection.wait(stream, lambda: stream.ended, soon())
    if stream.failure is not None:
        raise stream.failure
    return [message.to_pybytes() for message in stream.messages]


class TestCalls:
    def test_a_call_is_headers_and_a_message(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        kind, flags, number, payload = peer.frame()
        assert (kind, flags, number) == (frames.HEADERS, frames.END_HEADERS, 1)
        assert decode_headers(payload) == {":path": "/a/B"}
        assert peer.frame() == (frames.DATA, frames.END_STREAM, 1, b"\0\0\0\0\x08question")
        peer.answer(1, b"answer")
        assert answer(connection, stream) == [b"answer"]
        assert stream.trailers == dict(OK + END)

    def test_calls_are_answered_in_any_order_between_each_other(self, connection: Connection, peer: Peer) -> None:
        streams = [call(connection) for _ in range(3)]
        assert [stream.id for stream in streams] == [1, 3, 5]
        first, rest = peer.message(1, b"x" * 50)[:20], peer.message(1, b"x" * 50)[20:]
        peer.send(peer.headers(1, OK), peer.headers(5, OK), peer.message(5, b"five"), first)
        peer.send(rest, peer.headers(5, END, end=True), peer.headers(1, END, end=True))
        peer.answer(3)
        assert [answer(connection, stream) for stream in streams] == [[b"x" * 50], [], [b"five"]]

    def test_a_message_may_come_in_many_frames_and_many_in_one(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        data = b"".join(message_head(size) + b"y" * size for size in (0, 3, 300_000, 1))
        cuts = [0, 2, 4, 6, 20, 70_000, 140_000, len(data)]
        pieces = [frames.frame(frames.DATA, 0, 1, data[start:end]) for start, end in itertools.pairwise(cuts)]
        thread = peer.send_beside(peer.headers(1, OK), *pieces, peer.headers(1, END, end=True))
        assert answer(connection, stream) == [b"", b"yyy", b"y" * 300_000, b"y"]
        thread.join()

    def test_the_content_of_one_large_field_is_aligned(self, connection: Connection, peer: Peer) -> None:
        for size in (100, 5000, 100_000, 3_000_000):
            stream = call(connection)
            message = b"\x0a" + bytes([size & 0x7F]) + b"z" * size
            thread = threading.Thread(target=peer.answer, args=(stream.id, message))
            thread.start()
            assert connection.wait(stream, lambda stream=stream: stream.ended, soon())  # type: ignore[misc]
            thread.join()
            head = 1 + len(_varint(size))
            assert (stream.messages[0].address + head) % 8 == 0

    def test_padding_continuations_and_priorities_are_understood(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        block = encode_headers(OK)
        padded = bytes([4]) + message_head(5) + b"hello" + bytes(4)
        peer.send(
            frames.frame(
                frames.HEADERS, frames.PRIORITY | frames.PADDED, 1, bytes([2]) + bytes(5) + block[:7] + bytes(2)
            ),
            frames.frame(frames.CONTINUATION, 0, 1, block[7:20]),
            frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[20:]),
            frames.frame(frames.DATA, frames.PADDED, 1, padded),
            frames.frame(frames.DATA, frames.PADDED, 1, bytes([3]) + bytes(3)),
            frames.frame(0x77, 0, 1, b"of a kind that is not known"),
            peer.headers(1, END, end=True),
        )
        assert answer(connection, stream) == [b"hello"]
        assert stream.trailers == dict(OK + END)

    def test_pings_are_answered(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        peer.frame()
        peer.frame()
        peer.send(frames.frame(frames.PING, 0, 0, b"12345678"))
        peer.answer(1)
        answer(connection, stream)
        length, kind, flags, _ = frames.parse_head(bytearray(peer._take(9)), 0)
        while kind == frames.SETTINGS:
            length, kind, flags, _ = frames.parse_head(bytearray(peer._take(9)), 0)
        assert (kind, flags, peer._take(length)) == (frames.PING, frames.ACK, b"12345678")

    def test_an_answer_for_a_call_that_was_given_up_is_left_aside(self, connection: Connection, peer: Peer) -> None:
        given_up = call(connection)
        connection.cancel(given_up)
        other = call(connection)
        thread = peer.send_beside(
            peer.headers(1, OK), peer.message(1, b"too late" * 100_000), peer.headers(1, END, end=True),
            peer.headers(3, OK), peer.message(3, b"in time"), peer.headers(3, END, end=True),
        )  # fmt: skip
        assert answer(connection, other) == [b"in time"]
        thread.join()
        with pytest.raises(Lost, match="given up"):
            answer(connection, given_up)

    def test_giving_up_wakes_who_waits(self, connection: Connection) -> None:
        stream = call(connection)
        timer = threading.Timer(0.05, connection.cancel, [stream])
        timer.start()
        with pytest.raises(Lost):
            answer(connection, stream)
        timer.join()


class TestWindows:
    def test_no_more_is_sent_than_the_server_takes(self) -> None:
        with connected(INITIAL_WINDOW_SIZE=10, MAX_FRAME_SIZE=2**14) as (connection, peer):
            done: list[Stream] = []
            thread = threading.Thread(target=lambda: done.append(call(connection, b"0123456789abcdef")))
            thread.start()
            peer.frame()
            assert peer.frame() == (frames.DATA, 0, 1, b"\0\0\0\0\x1001234")
            assert not done
            peer.send(frames.window_update(1, 4))
            assert peer.frame() == (frames.DATA, 0, 1, b"5678")
            peer.send(frames.settings({frames.INITIAL_WINDOW_SIZE: 13}))
            assert peer.frame() == (frames.DATA, 0, 1, b"9ab")
            peer.send(frames.window_update(1, 1000))
            assert peer.frame() == (frames.DATA, frames.END_STREAM, 1, b"cdef")
            thread.join()

    def test_a_large_message_is_cut_to_frames_of_the_size_that_the_server_takes(self) -> None:
        with connected(INITIAL_WINDOW_SIZE=2**20, MAX_FRAME_SIZE=20_000) as (connection, peer):
            call(connection, bytes(50_000))
            peer.frame()
            assert [len(peer.frame()[3]) for _ in range(3)] == [20_000, 20_000, 10_005]

    def test_all_calls_share_the_window_of_the_connection(self) -> None:
        with connected(INITIAL_WINDOW_SIZE=2**20, MAX_FRAME_SIZE=2**20) as (connection, peer):
            call(connection, bytes(frames.DEFAULT_WINDOW - 5))
            thread = threading.Thread(target=call, args=(connection, b"more"))
            thread.start()
            assert [len(peer.frame()[3]) for _ in range(2)][1] == frames.DEFAULT_WINDOW
            peer.send(frames.window_update(0, 100))
            assert [peer.frame()[0] for _ in range(2)] == [frames.HEADERS, frames.DATA]
            thread.join()

    def test_a_server_that_takes_nothing_is_not_waited_for_longer_than_it_may_take(self) -> None:
        with connected(INITIAL_WINDOW_SIZE=0) as (connection, _):
            with pytest.raises(Lost) as lost:
                connection.open(b"", [b"x"], end=True, deadline=time.monotonic() + 0.05)
            assert not lost.value.reached

    def test_a_stream_with_half_a_message_is_not_used_again(self) -> None:
        """The next message would begin in the middle of the one before."""
        with connected(INITIAL_WINDOW_SIZE=10) as (connection, peer):
            with pytest.raises(Lost) as lost:
                connection.open(b"", [bytes(100)], end=False, deadline=time.monotonic() + 0.05)
            assert not lost.value.reached
            assert [peer.frame()[0] for _ in range(3)] == [frames.HEADERS, frames.DATA, frames.RST_STREAM]

    def test_frames_of_no_bytes_are_no_frames(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        peer.send(frames.settings({frames.MAX_FRAME_SIZE: 0}))
        with pytest.raises(Lost, match="frames of 0 bytes"):
            answer(connection, stream)

    def test_an_answer_before_all_was_sent_ends_the_sending(self) -> None:
        """As a server does that refuses a request for its size."""
        with connected(INITIAL_WINDOW_SIZE=10) as (connection, peer):
            timer = threading.Timer(0.05, peer.send, [peer.headers(1, [*OK, ("grpc-status", "8")], end=True)])
            timer.start()
            stream = call(connection, bytes(1000))
            assert stream.trailers is not None
            assert stream.trailers["grpc-status"] == "8"
            timer.join()


class TestLosses:
    def test_the_end_of_the_connection_ends_every_call(self, connection: Connection, peer: Peer) -> None:
        streams = [call(connection) for _ in range(3)]
        peer.close()
        for stream in streams:
            with pytest.raises(Lost) as lost:
                answer(connection, stream)
            assert lost.value.reached
        assert not connection.usable
        with pytest.raises(Lost) as lost:
            call(connection)
        assert not lost.value.reached

    def test_an_idle_connection_that_was_closed_is_noticed_before_it_is_used(
        self, connection: Connection, peer: Peer
    ) -> None:
        assert connection.usable
        peer.close()
        assert not connection.usable

    def test_a_server_that_stops_finishes_what_it_has_taken(self, connection: Connection, peer: Peer) -> None:
        taken, refused = call(connection), call(connection)
        peer.send(frames.frame(frames.GOAWAY, 0, 0, struct.pack(">II", 1, 0)))
        with pytest.raises(Lost) as lost:
            answer(connection, refused)
        assert not lost.value.reached
        assert not connection.usable
        peer.answer(1, b"done")
        assert answer(connection, taken) == [b"done"]

    @pytest.mark.parametrize(("code", "reached"), [(frames.REFUSED_STREAM, False), (2, True)])
    def test_a_call_that_the_server_gives_up(
        self, connection: Connection, peer: Peer, code: int, reached: bool
    ) -> None:
        stream = call(connection)
        peer.send(frames.reset(1, code))
        with pytest.raises(Lost) as lost:
            answer(connection, stream)
        assert lost.value.reached is reached
        assert connection.usable

    @pytest.mark.parametrize(
        "nonsense",
        [
            frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xbe"),
            frames.frame(frames.DATA, 0, 1, b"\1\0\0\0\1x"),
            frames.frame(frames.DATA, 0, 1, b"\0\xff\xff\xff\xff"),
            frames.frame(frames.DATA, frames.PADDED, 1, b"\xff123"),
            frames.frame_head(frames.SETTINGS, 0, 0, 2**20),
            frames.frame(frames.WINDOW_UPDATE, 0, 1, b"x"),
            b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(2000),
        ],
    )
    def test_nonsense_ends_the_connection(self, connection: Connection, peer: Peer, nonsense: bytes) -> None:
        stream = call(connection)
        peer.send(nonsense)
        peer.close()
        with pytest.raises(Lost):
            answer(connection, stream)
        assert not connection.usable

    @settings(max_examples=30)
    @given(st.binary(max_size=200))
    def test_hostile_bytes_do_no_more(self, data: bytes) -> None:
        with connected() as (connection, peer):
            stream = call(connection)
            peer.send(data)
            peer.close()
            with contextlib.suppress(Lost):
                answer(connection, stream)

    def test_a_server_that_says_nothing_is_no_server(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, pytest.raises(Lost, match="says nothing"):
            Connection(ours, time.monotonic() + 0.05)

    def test_an_interrupt_while_reading_ends_the_connection(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was read of a frame is lost, and nothing after it could be understood."""
        stream = call(connection)

        def interrupted(*_: object) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr(connection._wire, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(connection, stream)
        assert not connection.usable

    def test_in_a_forked_child_the_parents_connection_is_left_alone(self, connection: Connection, peer: Peer) -> None:
        stream = call(connection)
        ours = connection._wire._socket.dup()
        connection.forget()
        assert not connection.usable
        with pytest.raises(Lost):
            call(connection)
        ours.sendall(frames.frame(frames.PING, 0, 0, b"12345678"))
        assert [peer.frame()[0] for _ in range(3)] == [frames.HEADERS, frames.DATA, frames.PING]
        ours.close()
        assert not stream.ended


def _varint(number: int) -> bytes:
    return bytes(max(-(-number.bit_length() // 7), 1))
