"""One HTTP/2 connection to a server, shared by all threads of a process; no thread stands behind it.

What the server may send is limited by what it was asked for, not by windows: those are as large as can be. What is
sent respects the server's.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ottla.protocol.packed import Part
from ottla.storage.remote import frames
from ottla.storage.remote.hpack import BadHeaders, decode_headers
from ottla.storage.remote.relay import Relay
from ottla.storage.remote.stream import Lost, Stream, message_head
from ottla.storage.remote.wire import Wire

_BUFFER_BYTES: Final = 2**16
_RENEW: Final = 2**30
"""After so many bytes the server is told that it may send as many again."""
_WELCOME: Final = (
    frames.PREFACE
    + frames.settings(
        {
            frames.HEADER_TABLE_SIZE: 0,
            frames.ENABLE_PUSH: 0,
            frames.INITIAL_WINDOW_SIZE: frames.LARGEST_WINDOW,
            frames.MAX_FRAME_SIZE: frames.LARGEST_FRAME,
        }
    )
    + frames.window_update(0, frames.LARGEST_WINDOW - frames.DEFAULT_WINDOW)
)
_CANCEL_S: Final = 1.0


class Connection:
    """Calls to one server. Safe from many threads; in a forked child only `forget` may be called."""

    def __init__(self, opened: socket.socket, deadline: float) -> None:
        self._wire = Wire(opened)
        self._lock = threading.Lock()
        """Guards everything here, and every stream."""
        self._relay = Relay(self._lock, self._step)
        self._opening = threading.Lock()
        """Streams are numbered in the order in which they are opened."""
        self._streams: dict[int, Stream] = {}
        self._next_id = 1
        self._window = frames.DEFAULT_WINDOW
        self._first_window = frames.DEFAULT_WINDOW
        self._largest_frame = frames.DEFAULT_FRAME
        self._settled = False
        self._leaving = False
        self._broken: str | None = None
        self._received = 0
        self.last_heard = time.monotonic()
        self._input = bytearray(_BUFFER_BYTES)
        self._input_view = memoryview(self._input)
        self._start = self._end = 0
        self._data: tuple[Stream | None, int, int] | None = None
        """The stream that a DATA frame is coming in for, the bytes still to come, and the padding after them."""
        self._block: tuple[int, int, bytes] | None = None
        """A header block whose end has not come: its stream, its flags, its beginning."""
        self._write([_WELCOME], deadline)
        if not self._relay.wait(None, lambda: self._settled or self._broken, deadline):
            self.close("it says nothing")
        if self._broken is not None:
            raise Lost(self._broken, reached=False)

    @property
    def usable(self) -> bool:
        """Whether a new call can be made: the server is there, as far as is known, and not on its way out."""
        if self._broken is None:
            self._relay.try_step()
        return self._broken is None and not self._leaving

    # Calls

    def open(self, block: bytes, message: Sequence[Part], *, end: bool, deadline: float) -> Stream:
        """Begin a call with its first message; or `Lost`, and the server does nothing."""
        with self._opening:
            with self._lock:
                if self._broken is not None or self._leaving:
                    raise Lost(self._broken or "the server is stopping", reached=False)
                stream = self._streams[self._next_id] = Stream(self._next_id, self._first_window)
                self._next_id += 2
            begin = frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, block)
            pieces = self._pieces(stream, message, end=end, deadline=deadline)
            try:
                self._write([begin, *next(pieces, ())], deadline)
            except Lost:
                self._end_stream(stream.id)
                raise
        self._send_rest(stream, pieces, deadline)
        return stream

    def send(self, stream: Stream, message: Sequence[Part], *, deadline: float) -> None:
        """Send another message; or `Lost`, and the server does not see it. Only one thread at a time for a stream."""
        pieces = self._pieces(stream, message, end=False, deadline=deadline)
        self._write(next(pieces, ()), deadline)
        self._send_rest(stream, pieces, deadline)

    def _send_rest(self, stream: Stream, pieces: Iterator[list[memoryview | bytes]], deadline: float) -> None:
        """The rest of a message. A stream on which half a message was sent is of no use any more."""
        try:
            for piece in pieces:
                self._write(piece, deadline)
        except BaseException:
            self.cancel(stream)
            raise

    def wait(self, stream: Stream, ready: Callable[[], Any], deadline: float) -> bool:
        """Wait until *ready*, which is asked whenever something came for the stream; False if the time ran out."""
        return self._relay.wait(stream, ready, deadline)

    def end(self, stream: Stream) -> None:
        """Say that nothing more is sent on a stream; what still comes is of no interest."""
        with self._lock:
            open_still = self._streams.pop(stream.id, None) is not None and not stream.ended
        if open_still:
            self._tell(frames.frame(frames.DATA, frames.END_STREAM, stream.id))

    def cancel(self, stream: Stream) -> None:
        """Give a call up; whoever waits for it is told."""
        with self._lock:
            open_still = self._streams.pop(stream.id, None) is not None
            if not stream.ended:
                stream.failure = Lost("the call was given up", reached=True)
            self._relay.wake(stream)
        self._wire.interrupt()
        if open_still:
            self._tell(frames.reset(stream.id, frames.CANCEL))

    def close(self, reason: str = "it was closed") -> None:
        """End the connection; every call that is under way fails."""
        with self._lock:
            if self._broken is None:
                self._broken = reason
                for stream in self._streams.values():
                    stream.failure = stream.failure or Lost(reason, reached=True)
                self._streams.clear()
                self._relay.wake_all()
        self._wire.close()

    def leave(self) -> None:
        """Make no new calls; the connection ends with those that are under way."""
        with self._lock:
            self._leaving = True
            busy = bool(self._streams)
        if not busy:
            self.close()

    def forget(self) -> None:
        """In a forked child: give up the socket, which is the parent's."""
        self._broken = "it belongs to the parent process"
        self._wire.forget()

    # Sending

    def _pieces(
        self, stream: Stream, message: Sequence[Part], *, end: bool, deadline: float
    ) -> Iterator[list[memoryview | bytes]]:
        """A message in DATA frames, as many at a time as the windows allow; the first are the caller's to send."""
        views = [memoryview(part).cast("B") for part in message if len(part)]
        left = sum(map(len, views))
        views.insert(0, memoryview(message_head(left)))
        left += len(views[0])
        while left and (taken := self._take_window(stream, left, deadline)):
            left -= taken
            piece: list[memoryview | bytes] = []
            while taken:
                size = min(taken, self._largest_frame)
                taken -= size
                flags = frames.END_STREAM if end and not left and not taken else 0
                piece.append(frames.frame_head(frames.DATA, flags, stream.id, size))
                piece += _cut(views, size)
            yield piece

    def _take_window(self, stream: Stream, most: int, deadline: float) -> int:
        """How many bytes the server takes now; 0 if it has ended the call and wants no more."""
        while self._relay.wait(stream, lambda: min(stream.window, self._window) > 0 or stream.ended, deadline):
            with self._lock:
                if stream.failure is not None:
                    raise Lost(stream.failure.reason, reached=False)
                taken = 0 if stream.ended else min(stream.window, self._window, most)
                if taken > 0 or stream.ended:
                    stream.window -= taken
                    self._window -= taken
                    return taken
        raise Lost("the server takes nothing", reached=False)

    def _write(self, parts: Sequence[memoryview | bytes], deadline: float) -> None:
        try:
            self._wire.write(parts, deadline)
        except OSError as error:
            self.close(_reason(error))
            raise Lost(_reason(error), reached=False) from None
        except BaseException:
            self.close("sending was interrupted")
            raise

    def _tell(self, frame: bytes) -> None:
        """Send a frame that nobody waits for."""
        try:
            self._write([frame], time.monotonic() + _CANCEL_S)
        except Lost:
            return

    # Receiving: one thread at a time, which the relay sees to

    def _step(self, timeout: float) -> None:
        """Read something and hand it to whom it belongs."""
        if self._broken is not None:
            return
        try:
            self._receive(timeout)
        except (OSError, ValueError, IndexError, struct.error, BadHeaders) as error:
            self.close(_reason(error))
        except BaseException:
            self.close("reading was interrupted")
            raise

    def _receive(self, timeout: float) -> None:
        stream, left, padding = self._data or (None, 0, 0)
        room = stream.room(left) if stream is not None and left and self._start == self._end else None
        if room is not None:  # straight to where it belongs
            assert stream is not None
            size = self._wire.read(room, timeout)
            self._came(stream, size, complete=bool(size) and stream.filled(size))
            self._data = (stream, left - size, padding) if left > size or padding else None
        else:
            self._make_room()
            size = self._wire.read(self._input_view[self._end :], timeout)
            self._end += size
        if size:
            self.last_heard = time.monotonic()
            while self._take_data() or self._take_frame():
                pass

    def _make_room(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            rest = bytes(self._input_view[self._start : self._end])
            self._input[: len(rest)] = rest
            self._start, self._end = 0, len(rest)

    def _take_data(self) -> bool:
        """Hand over what is in the buffer of a DATA frame; False if there is nothing of one."""
        if self._data is None or self._start == self._end:
            return False
        stream, left, padding = self._data
        data = self._input_view[self._start : min(self._start + left, self._end)]
        self._start += len(data)
        left -= len(data)
        if stream is not None:
            self._came(stream, len(data), complete=stream.feed(data))
        if not left:
            skipped = min(padding, self._end - self._start)
            self._start += skipped
            padding -= skipped
        self._data = (stream, left, padding) if left or padding else None
        return True

    def _came(self, stream: Stream, size: int, *, complete: bool) -> None:
        stream.received += size
        if stream.received >= _RENEW:
            self._tell(frames.window_update(stream.id, stream.received))
            stream.received = 0
        if complete:
            with self._lock:
                self._relay.wake(stream)

    def _take_frame(self) -> bool:
        """Handle the frame at the front of the buffer; False if it is not there yet."""
        available = self._end - self._start
        if self._data is not None or available < frames.HEAD_BYTES:
            return False
        length, kind, flags, number = frames.parse_head(self._input, self._start)
        at = self._start + frames.HEAD_BYTES
        if kind == frames.DATA:
            return self._begin_data(at, length, flags, number)
        if length > _BUFFER_BYTES - frames.HEAD_BYTES:
            raise ValueError(f"a frame of type {kind} and {length:,} bytes")
        if available < frames.HEAD_BYTES + length:
            return False
        payload = bytes(self._input_view[at : at + length])
        self._start = at + length
        self._handle(kind, flags, number, payload)
        return True

    def _begin_data(self, at: int, length: int, flags: int, number: int) -> bool:
        padding = 0
        size = length
        if flags & frames.PADDED:
            if at == self._end:
                return False
            padding = self._input[at]
            at += 1
            size -= 1 + padding
            if size < 0:
                raise ValueError("a frame that is all padding")
        self._start = at
        self._received += length
        if self._received >= _RENEW:
            self._tell(frames.window_update(0, self._received))
            self._received = 0
        if size or padding:
            self._data = (self._streams.get(number), size, padding)
        return True

    def _handle(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind in {frames.HEADERS, frames.CONTINUATION}:
            self._handle_headers(kind, flags, number, payload)
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            with self._lock:
                self._apply(frames.parse_settings(payload))
            self._tell(frames.frame(frames.SETTINGS, frames.ACK, 0))
        elif kind == frames.PING and not flags & frames.ACK:
            self._tell(frames.frame(frames.PING, frames.ACK, 0, payload))
        elif kind == frames.WINDOW_UPDATE:
            self._widen(number, frames.number(payload))
        elif kind == frames.RST_STREAM:
            code = frames.number(payload)
            lost = Lost(f"the server gave the call up (code {code})", reached=code != frames.REFUSED_STREAM)
            self._end_stream(number, failure=lost)
        elif kind == frames.GOAWAY:
            self._leave(frames.number(payload))

    def _handle_headers(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == frames.HEADERS:
            self._block = (number, flags, frames.header_block(flags, payload))
        elif self._block is not None and self._block[0] == number:
            self._block = (number, self._block[1], self._block[2] + payload)
            if len(self._block[2]) > _BUFFER_BYTES:
                raise ValueError("headers without end")
        if not flags & frames.END_HEADERS or self._block is None:
            return
        number, first_flags, block = self._block
        self._block = None
        headers = decode_headers(block)
        stream = self._streams.get(number)
        if stream is not None and not first_flags & frames.END_STREAM:
            stream.headers = headers
        elif stream is not None:
            self._end_stream(number, trailers=(stream.headers or {}) | headers)

    def _end_stream(self, number: int, *, trailers: dict[str, str] | None = None, failure: Lost | None = None) -> None:
        with self._lock:
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream.trailers, stream.failure = trailers, failure
                self._relay.wake(stream)
            over = self._leaving and not self._streams
        if over:
            self.close("the server is stopping")

    def _apply(self, settings: dict[int, int]) -> None:
        largest = settings.get(frames.MAX_FRAME_SIZE, self._largest_frame)
        if not frames.DEFAULT_FRAME <= largest <= frames.LARGEST_FRAME:
            raise ValueError(f"frames of {largest:,} bytes")
        first = settings.get(frames.INITIAL_WINDOW_SIZE, self._first_window)
        for stream in self._streams.values():
            stream.window += first - self._first_window
        self._first_window = first
        self._largest_frame = largest
        self._settled = True
        self._relay.wake_all()

    def _widen(self, number: int, size: int) -> None:
        with self._lock:
            if number == 0:
                self._window += size
                self._relay.wake_all()
            elif (stream := self._streams.get(number)) is not None:
                stream.window += size
                self._relay.wake(stream)

    def _leave(self, last: int) -> None:
        """The server stops: it finishes the calls up to *last*, and has not looked at those after it."""
        with self._lock:
            self._leaving = True
            refused = [number for number in self._streams if number > last]
        for number in refused:
            self._end_stream(number, failure=Lost("the server is stopping", reached=False))


def _cut(views: list[memoryview], size: int) -> list[memoryview]:
    """The first bytes of some buffers, taken out of the list."""
    taken: list[memoryview] = []
    while size:
        view = views[0]
        taken.append(view[:size])
        if len(view) > size:
            views[0] = view[size:]
        else:
            del views[0]
        size -= len(taken[-1])
    return taken


def _reason(error: Exception) -> str:
    """An error of the system in its own words, without its number."""
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)).lower() or repr(error)
