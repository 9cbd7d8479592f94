"""Body codec 1 as it is drawn, and what is refused when it is not."""

import struct

import pyarrow as pa
import pytest

from ottla.batch import Batch, Columns, columns_of_lists, columns_of_values
from ottla.batch.body import pack_columns, unpack_columns
from ottla.batch.header import HAS_HEADERS, HAS_KEYS, HAS_TIMESTAMPS, Header
from ottla.errors import CorruptBatch, InvalidValue


def _body(columns: Columns) -> bytes:
    return b"".join(pack_columns(columns).parts)


def _header(columns: Columns) -> Header:
    return Batch.pack(columns).header


_COLUMNS = columns_of_lists([b"abc", None, b"de"], [b"k", b"", b"l"], [(("h", None),), (), ()], [1000, 990, 1005])
_BYTES = b"".join(
    [
        struct.pack("<3q", 10, 0, 15),
        struct.pack("<iI", 1, 5), b"\x05" + bytes(7), struct.pack("<4i", 0, 3, 3, 5), b"abcde" + bytes(3),
        struct.pack("<iI", 0, 2), struct.pack("<4i", 0, 1, 1, 2), b"kl" + bytes(6),
        struct.pack("<iI", 2, 9), b"\x01" + bytes(7), struct.pack("<4i", 0, 9, 9, 9),
        struct.pack("<I", 1) + b"h" + struct.pack("<i", -1) + bytes(7),
    ]
)  # fmt: skip


def test_a_body_is_as_it_is_drawn() -> None:
    body = pack_columns(_COLUMNS)
    assert (body.flags, body.min_timestamp_ms, body.max_timestamp_ms) == (
        HAS_KEYS | HAS_HEADERS | HAS_TIMESTAMPS,
        990,
        1005,
    )
    assert b"".join(body.parts) == _BYTES


def test_the_drawing_is_read_back() -> None:
    assert unpack_columns(pa.py_buffer(_BYTES), _header(_COLUMNS)) == _COLUMNS


def test_one_small_message_takes_tens_of_bytes() -> None:
    assert len(_body(columns_of_values([b"12345678"]))) == 24


def test_unpacking_copies_no_value() -> None:
    columns = columns_of_values([b"x" * 1000] * 1000)
    body = pa.py_buffer(_body(columns))
    before = pa.total_allocated_bytes()
    again = unpack_columns(body, _header(columns))
    assert pa.total_allocated_bytes() == before
    assert again == columns


def test_padding_is_written_as_zero_and_not_looked_at() -> None:
    columns = columns_of_values([b"abc", None])
    body = bytearray(_body(columns))
    assert body == struct.pack("<iI", 1, 3) + b"\x01" + bytes(7) + struct.pack("<3i", 0, 3, 3) + bytes(
        4
    ) + b"abc" + bytes(5)
    for at in (*range(9, 16), *range(28, 32), *range(35, 40)):
        body[at] = 0xFF
    body[8] |= 0b1111_1100  # the bitmap beyond the last message
    assert unpack_columns(pa.py_buffer(bytes(body)), _header(columns)) == columns


@pytest.mark.parametrize(
    ("at", "form", "value", "reason"),
    [
        (24, "<i", -1, "-1 nulls among 3 messages cannot be"),
        (24, "<i", 4, "4 nulls among 3 messages cannot be"),
        (24, "<i", 2, "null_count"),
        (24, "<i", 0, "offsets do not span"),
        (28, "<I", 2**32 - 1, "a column of 4294967295 bytes does not fit into the"),
        (28, "<I", 4, "offsets do not span its data"),
        (40, "<i", 1, "offsets do not span its data"),
        (52, "<i", 6, "offsets do not span its data"),
        (44, "<i", 4, "a column is malformed"),
        (44, "<i", -1, "a column is malformed"),
        (44, "<i", 2**31 - 1, "a column is malformed"),
        (0, "<q", -1, "the timestamps are not those that the header tells of"),
        (0, "<q", 2**62, "the timestamps are not those that the header tells of"),
        (8, "<q", 1, "the timestamps are not those that the header tells of"),
        (16, "<q", 14, "the timestamps are not those that the header tells of"),
    ],
)
def test_a_length_that_cannot_be_is_refused(at: int, form: str, value: int, reason: str) -> None:
    body = bytearray(_BYTES)
    struct.pack_into(form, body, at, value)
    with pytest.raises(CorruptBatch, match=reason):
        unpack_columns(pa.py_buffer(bytes(body)), _header(_COLUMNS))


@pytest.mark.parametrize("length", range(0, len(_BYTES), 8))
def test_a_body_that_ends_early_is_refused(length: int) -> None:
    with pytest.raises(CorruptBatch):
        unpack_columns(pa.py_buffer(_BYTES[:length]), _header(_COLUMNS))


def test_a_body_that_goes_on_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="8 bytes are left over after the columns"):
        unpack_columns(pa.py_buffer(_BYTES + bytes(8)), _header(_COLUMNS))


@pytest.mark.parametrize("time", [2**62, -(2**62) - 1, 2**63 - 1, -(2**63)])
def test_a_timestamp_whose_differences_would_not_fit_is_refused(time: int) -> None:
    with pytest.raises(InvalidValue, match=f"timestamp {time} is not valid: give Unix milliseconds"):
        pack_columns(columns_of_lists([b"a", b"b"], timestamps=[time, 0]))
