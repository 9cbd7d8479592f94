"""Every message is one line of JSON that comes back as it was, and a line that was touched is noticed."""

import json

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Batch, Messages, Stamp, columns_of_lists, columns_of_values
from ottla.errors import CorruptBatch
from ottla.storage.jsonl.lines import Line, batch_of_lines, decode_line, encode_batch, sealed

TOPIC = "deliveries"
HOSTILE = [
    b"",
    b"\n",
    b"\r\n",
    b"\0",
    b'"',
    b"\\",
    b'","crc":"00000000"}\n{"v":1',
    b"\x1b[31mred",
    b"\xff\xfe",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    "\x7f\x85\x9b\u2028\u2029\ufeff\u202e\U0001f69a\uffff".encode(),
    "é".encode()[:1],
    bytes(range(256)),
    b"\0" * 100_000,
    b"x" * 3_000_000,
]

cells = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode))
headers = st.lists(st.tuples(st.text(max_size=5), cells), max_size=3).map(tuple)
times = st.integers(-(2**62), 2**62 - 1)
stamps = st.builds(
    Stamp,
    st.binary(min_size=16, max_size=16).filter(any),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**63 - 1),
    st.booleans(),
)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows = draw(st.lists(st.tuples(cells, cells, headers, times), min_size=1, max_size=5))
    values, keys, heads, stamped = (list(column) for column in zip(*rows, strict=True))
    columns = columns_of_lists(values, keys, heads, stamped if draw(st.booleans()) else None)
    packed = Batch.pack(columns, stamp=draw(st.none() | stamps))
    return packed.numbered(draw(st.integers(1, 2**62)), draw(st.integers(0, 2**52)))


def lines_of(batch: Batch, topic: str = TOPIC, partition: int = 0) -> list[bytes]:
    text = encode_batch(topic, partition, batch)
    assert text.endswith(b"\n")
    return text.split(b"\n")[:-1]


def of_value(value: bytes | None) -> bytes:
    (line,) = lines_of(Batch.pack(columns_of_values([value])).numbered(17, 1_700_000_000_123))
    return line


@given(batches())
def test_a_batch_comes_back_as_it_was(batch: Batch) -> None:
    decoded = [decode_line(line, TOPIC) for line in lines_of(batch, partition=3)]
    again = batch_of_lines(decoded)
    assert again.to_bytes() == batch.to_bytes()
    assert list(Messages.of(TOPIC, 3, [again], 1)) == list(Messages.of(TOPIC, 3, [batch], 1))
    assert {line.partition for line in decoded} == {3}


@given(batches())
def test_every_line_is_json_of_one_line(batch: Batch) -> None:
    lines = lines_of(batch)
    assert len(lines) == batch.count
    for index, line in enumerate(lines):
        assert len(line.decode().splitlines()) == 1
        content = json.loads(line)
        assert content["offset"] == batch.first_number + index
        assert content["topic"] == TOPIC


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value[:12]))
def test_hostile_content_is_still_one_line(value: bytes) -> None:
    line = of_value(value)
    assert b"\n" not in line
    assert len(line.decode().splitlines()) == 1
    decoded = decode_line(line, TOPIC)
    assert decoded.value == value


@pytest.mark.parametrize("value", HOSTILE[:-2], ids=lambda value: repr(value[:12]))
def test_hostile_keys_and_headers(value: bytes) -> None:
    columns = columns_of_lists([None], [value], [(("h", value), ("h", None))])
    (line,) = lines_of(Batch.pack(columns).numbered(1, 1))
    decoded = decode_line(line, TOPIC)
    assert (decoded.key, decoded.headers) == (value, (("h", value), ("h", None)))


def test_k9_a_line_carries_offset_timestamp_payload_checksum_and_version() -> None:
    """K9: all of it by name, in plain JSON."""
    content = json.loads(of_value(b"truck 1021 on time"))
    crc = content.pop("crc")
    assert content == {
        "v": 1,
        "topic": "deliveries",
        "partition": 0,
        "offset": 17,
        "timestamp": 1_700_000_000_123,
        "key": None,
        "value": "truck 1021 on time",
    }
    body = json.dumps(content, separators=(",", ":")).removesuffix("}")
    assert crc == f"{google_crc32c.value(body.encode()):08x}"


def test_null_is_not_empty() -> None:
    assert json.loads(of_value(None))["value"] is None
    assert json.loads(of_value(b""))["value"] == ""
    assert decode_line(of_value(None), TOPIC).value is None
    assert decode_line(of_value(b""), TOPIC).value == b""


def test_bytes_that_are_no_text_are_base64() -> None:
    content = json.loads(of_value(b"\xff\0"))
    assert content["value_base64"] == "/wA="
    assert "value" not in content


def test_both_times_are_kept() -> None:
    """The producer's time and the log's: the latter is written where they are not the same by definition."""
    columns = columns_of_lists([b"a", b"b"], None, None, [5, 7])
    first, second = lines_of(Batch.pack(columns).numbered(1, 1000))
    assert [json.loads(line)["timestamp"] for line in (first, second)] == [5, 7]
    assert json.loads(first)["appended"] == 1000
    assert (decode_line(second, TOPIC).timestamp_ms, decode_line(second, TOPIC).append_ms) == (7, 1000)
    assert "appended" not in json.loads(of_value(b"x"))


def test_batches_and_producers_are_written_where_they_matter() -> None:
    batch = Batch.pack(columns_of_values([b"a", b"b"]), stamp=Stamp(b"\1" * 16, 2, 3, sparse=True)).numbered(1, 1)
    first, second = (json.loads(line) for line in lines_of(batch))
    assert (first["batch"], second["batch"]) == ([1, 2], [2, 2])
    assert first["producer"] == {"id": "01" * 16, "epoch": 2, "sequence": 3, "sparse": True}
    assert "producer" not in second


def test_every_flipped_bit_is_noticed() -> None:
    columns = columns_of_lists([b"truck"], [b"k"], [(("h", b"\xff"),)], [3])
    (line,) = lines_of(Batch.pack(columns, stamp=Stamp(b"\1" * 16, 0, 0)).numbered(1, 1))
    for at in range(len(line)):
        for bit in range(8):
            flipped = bytes([*line[:at], line[at] ^ 1 << bit, *line[at + 1 :]])
            with pytest.raises(CorruptBatch):
                decode_line(flipped, TOPIC)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("truck 1021", "truck 1022"),
        ('"offset":17', '"offset":18'),
        ('"v":1', '"v": 1'),
        ("1700000000123", "1700000000124"),
        ('"crc":"', '"crc":"0'),
    ],
)
def test_an_edit_by_hand_is_noticed(old: str, new: str) -> None:
    line = of_value(b"truck 1021 on time").decode()
    assert old in line
    with pytest.raises(CorruptBatch, match="checksum"):
        decode_line(line.replace(old, new).encode(), TOPIC)


def test_every_shortened_line_is_noticed() -> None:
    line = of_value(b"truck")
    for size in range(len(line)):
        with pytest.raises(CorruptBatch):
            decode_line(line[:size], TOPIC)


GOOD = '{"v":1,"topic":"deliveries","partition":0,"offset":1,"timestamp":1,"key":null,"value":""'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"v":1', '"v":2'),
        ("deliveries", "other"),
        ('"partition":0', '"partition":-1'),
        ('"partition":0', '"partition":true'),
        ('"partition":0', '"partition":0.5'),
        ('"offset":1', '"offset":0'),
        ('"offset":1', '"offset":9223372036854775807'),
        ('"offset":1', f'"offset":{"9" * 5000}'),
        ('"timestamp":1', '"timestamp":4611686018427387904'),
        ('"timestamp":1', '"timestamp":null'),
        ('"key":null', '"key":1'),
        ('"key":null', '"key_base64":"?"'),
        ('"value":""', '"value":"\\ud800"'),
        ('"value":""', '"value":["a"]'),
        ('"value":""', '"values":""'),
        ('"value":""', '"value":"","headers":[["a"]]'),
        ('"value":""', '"value":"","headers":[["a",{"b":1}]]'),
        ('"value":""', '"value":"","headers":5'),
        ('"value":""', '"value":"","batch":[2,1]'),
        ('"value":""', '"value":"","batch":[0,1]'),
        ('"value":""', '"value":"","batch":[1]'),
        ('"value":""', '"value":"","producer":{"id":"zz","epoch":0,"sequence":0}'),
        ('"value":""', f'"value":"","producer":{{"id":"{"00" * 16}","epoch":0,"sequence":0}}'),
        ('"value":""', f'"value":"","producer":{{"id":"{"01" * 16}","epoch":-1,"sequence":0}}'),
        ('"value":""', f'"value":{"[" * 100_000}'),
        ('"value":""', '"value":""}{"a":1'),
        (GOOD, "[1"),
        (GOOD, ""),
        (GOOD, "\udcff"),
    ],
)  # fmt: skip
def test_a_line_with_a_right_checksum_is_not_trusted_either(old: str, new: str) -> None:
    """Whoever writes such a line gets a sentence, never a crash and never a message."""
    assert isinstance(decode_line(sealed(GOOD), TOPIC), Line)
    body = GOOD.replace(old, new).encode(errors="surrogateescape")
    with pytest.raises(CorruptBatch):
        decode_line(b'%s,"crc":"%08x"}' % (body, google_crc32c.value(body)), TOPIC)
