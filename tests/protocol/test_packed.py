"""Messages that are mostly batches: the same bytes as the generated code's, without copies."""

import contextlib

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptBatch
from ottla.model import Bounds
from ottla.protocol.packed import encode_append, encode_fetch, parse_append, parse_fetch
from ottla.v1 import log_pb2 as pb

NAMES = st.text(max_size=40)
NUMBERS = st.integers(0, 2**63 - 1)
PARTS = st.lists(st.binary(max_size=300), max_size=4)


@given(NUMBERS, NAMES, NAMES, st.integers(0, 2**32 - 1), PARTS, NUMBERS)
def test_an_append_is_read_by_generated_code(
    number: int, topic: str, topic_id: str, partition: int, parts: list[bytes], expected_next: int
) -> None:
    request = pb.AppendRequest(
        request=number, topic=topic, topic_id=topic_id, partition=partition, expected_next=expected_next
    )
    data = b"".join(map(bytes, encode_append(request, parts, sum(map(len, parts)))))
    assert parse_append(data).batches.to_pybytes() == b"".join(parts)
    read = pb.AppendRequest.FromString(data)
    assert read.batches == b"".join(parts)
    read.ClearField("batches")
    assert read == parse_append(data).request
    read.ClearField("padding")
    request.ClearField("padding")
    assert read == request


@given(NAMES, st.binary(min_size=1, max_size=300))
def test_the_batches_of_an_append_need_not_be_moved(topic: str, batches: bytes) -> None:
    parts = encode_append(pb.AppendRequest(topic=topic), [batches], len(batches))
    assert len(parts[0]) % 8 == 0


@given(NUMBERS, NAMES, st.binary(max_size=300))
def test_an_append_of_generated_code_is_read(number: int, topic: str, batches: bytes) -> None:
    sent = pb.AppendRequest(request=number, topic=topic, batches=batches, expected_next=7)
    read = parse_append(sent.SerializeToString())
    assert read.batches.to_pybytes() == batches
    sent.ClearField("batches")
    assert read.request == sent


@given(NUMBERS, NUMBERS, PARTS)
def test_an_answer_is_read_by_generated_code_and_here(first: int, following: int, parts: list[bytes]) -> None:
    bounds = Bounds(first, following)
    data = encode_fetch(bounds, parts, sum(map(len, parts)))
    read = pb.FetchResponse.FromString(data)
    assert (read.batches, read.bounds.first, read.bounds.next) == (b"".join(parts), first, following)
    fetched = parse_fetch(pa.py_buffer(data))
    assert (fetched.batches.to_pybytes(), fetched.bounds) == (b"".join(parts), bounds)


def test_fields_of_a_newer_server_are_no_trouble() -> None:
    data = encode_fetch(Bounds(1, 2), [b"batches"], 7)
    newer = data + b"\x98\x01\x07" + b"\xa1\x01" + bytes(8) + b"\xad\x01" + bytes(4) + b"\xb2\x01\x02xx"
    assert parse_fetch(pa.py_buffer(newer)).batches.to_pybytes() == b"batches"


@given(st.binary(max_size=60))
def test_hostile_bytes_are_an_error(data: bytes) -> None:
    """One that names what is wrong, or the generated code's own."""
    for parse in (parse_append, lambda data: parse_fetch(pa.py_buffer(data))):
        with contextlib.suppress(CorruptBatch, DecodeError):
            parse(data)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05abc", b"\x0a\xff\xff\xff\xff\x0f", b"\x80" * 12, b"\x0b"])
def test_what_ends_early_is_an_error(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        parse_fetch(pa.py_buffer(data))
