"""Cutting a stream into lines: as it comes, nothing held back, nothing collected without bound."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.lines import chunks_of_lines, whole
from ottla.errors import MessageTooLarge


class Trickle:
    """A stream that gives what was planned, piece by piece."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    def read1(self, size: int = -1, /) -> bytes:  # noqa: ARG002  (a pipe may give less as well)
        return self.pieces.pop(0) if self.pieces else b""


@given(st.lists(st.text("ab\n-", min_size=1).map(str.encode)), st.sampled_from([b"\n", b"--", b"\n-"]))
def test_however_it_arrives_the_lines_are_the_same(pieces: list[bytes], delimiter: bytes) -> None:
    everything = b"".join(pieces)
    expected = everything.split(delimiter)
    if not expected[-1]:
        expected.pop()
    found = [line for lines in chunks_of_lines(Trickle(list(pieces)), delimiter, 1000) for line in lines]
    assert found == expected


def test_a_line_is_handed_on_as_soon_as_it_is_whole() -> None:
    chunks = chunks_of_lines(Trickle([b"on", b"e\ntw", b"o\n", b"rest"]), b"\n", 1000)
    assert list(chunks) == [[b"one"], [b"two"], [b"rest"]]


def test_too_much_is_refused_before_it_is_collected() -> None:
    stream = Trickle([b"x" * 60] * 1000)
    with pytest.raises(MessageTooLarge):
        list(chunks_of_lines(stream, b"\n", 100))
    assert len(stream.pieces) == 998
    with pytest.raises(MessageTooLarge):
        whole(stream, 100)
    assert len(stream.pieces) == 996


def test_all_of_it() -> None:
    assert whole(io.BytesIO(b"a\nb"), 3) == b"a\nb"
    assert whole(io.BytesIO(b""), 3) == b""
