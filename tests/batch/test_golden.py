"""Batches that were stored long ago are still read, to the last byte."""

from pathlib import Path

import pytest

from ottla.batch import Batch, Header, Messages, unpack_header
from ottla.batch.header import COMPRESSIONS
from ottla.model import Headers

_FOLDER = Path(__file__).parent.parent / "golden" / "batches"
_LINE = b"truck 1021 left the depot on time; "
_APPENDED = 1_700_000_000_555

_Row = tuple[int, int, bytes | None, bytes | None, Headers]
_EXPECTED: dict[str, list[_Row]] = {
    "values": [
        (41, _APPENDED, None, _LINE * 3, ()),
        (42, _APPENDED, None, _LINE * 2, ()),
        (43, _APPENDED, None, _LINE, ()),
    ],
    "nulls": [
        (41, _APPENDED, None, None, ()),
        (42, _APPENDED, None, b"", ()),
        (43, _APPENDED, None, _LINE * 8, ()),
        (44, _APPENDED, None, None, ()),
        (45, _APPENDED, None, b"\x00\xff", ()),
        (46, _APPENDED, None, None, ()),
        (47, _APPENDED, None, None, ()),
        (48, _APPENDED, None, None, ()),
        (49, _APPENDED, None, None, ()),
        (50, _APPENDED, None, _LINE, ()),
    ],
    "keys": [
        (41, _APPENDED, b"melbourne", _LINE, ()),
        (42, _APPENDED, None, _LINE, ()),
        (43, _APPENDED, b"", _LINE, ()),
    ],
    "headers": [
        (41, _APPENDED, None, _LINE, (("trace", b"\x01"), ("trace", None))),
        (42, _APPENDED, None, _LINE, ()),
        (43, _APPENDED, None, _LINE, (("é", b""),)),
    ],
    "timestamps": [
        (41, 1_700_000_000_000, None, _LINE, ()),
        (42, -1, None, _LINE, ()),
        (43, 1_152_921_504_606_846_976, None, _LINE, ()),
    ],
    "everything": [
        (41, 1_700_000_000_000, None, _LINE * 4, (("route", b"7"),)),
        (42, 1_700_000_000_001, b"geelong", None, ()),
        (43, 1_699_999_999_999, b"geelong", b"", (("none", None),)),
    ],
}
_PRODUCERS = {
    "keys": (bytes.fromhex("000102030405060708090a0b0c0d0e0f"), 3, 1_000_000_007),
    "everything": (b"ottla-spark-sink", 0, 42),
}
_NO_PRODUCER = (bytes(16), 0, 0)
_FILES = sorted(path.name for path in _FOLDER.iterdir())


def test_there_is_a_file_of_every_shape_and_compression() -> None:
    assert sorted(f"{shape}.{compression}.batch" for shape in _EXPECTED for compression in COMPRESSIONS) == _FILES


@pytest.mark.parametrize("name", _FILES)
def test_a_stored_batch_is_read(name: str) -> None:
    shape, compression, _ = name.split(".")
    stored = (_FOLDER / name).read_bytes()
    batch = Batch.parse(stored)
    batch.check()
    assert batch.header.compression == compression
    assert batch.size == len(stored)
    rows = [tuple(message)[2:] for message in Messages.of("t", 0, [batch], 1)]
    assert rows == _EXPECTED[shape]


@pytest.mark.parametrize("name", _FILES)
def test_a_stored_header_is_read(name: str) -> None:
    shape = name.partition(".")[0]
    header: Header = unpack_header((_FOLDER / name).read_bytes())
    assert (header.version, header.codec) == (1, 1)
    assert (header.count, header.first_number, header.append_ms) == (len(_EXPECTED[shape]), 41, _APPENDED)
    assert (header.producer_id, header.producer_epoch, header.sequence) == _PRODUCERS.get(shape, _NO_PRODUCER)


@pytest.mark.parametrize("name", _FILES)
def test_a_stored_batch_is_written_again_as_it_was(name: str) -> None:
    stored = (_FOLDER / name).read_bytes()
    assert Batch.parse(stored).to_bytes() == stored


@pytest.mark.parametrize("name", [name for name in _FILES if ".none." in name])
def test_the_same_messages_are_packed_to_the_same_body(name: str) -> None:
    """Uncompressed bodies do not depend on the version of any library."""
    stored = (_FOLDER / name).read_bytes()
    again = Batch.pack(Batch.parse(stored).columns()).to_bytes()
    assert again[88:] == stored[88:]
