"""Bytes from an enemy, with the right checksums: `CorruptBatch`, never a crash, a hang or a large allocation."""

import struct
from collections.abc import Iterator
from random import Random

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.batch import HEADER_BYTES, Batch, Messages, columns_of_lists, columns_of_values
from ottla.batch.header import COMPRESSIONS
from ottla.errors import CorruptBatch

_MANY = settings(max_examples=max(200, settings().max_examples))
_EXTREMES = [0, 1, 7, 8, 255, 256, 2**24, 2**31 - 1, 2**31, 2**32 - 1]


def _corpus() -> Iterator[bytes]:
    """A valid batch of every shape."""
    random = Random(7)
    for shape in range(8):
        for count in (1, 3, 9, 40):
            columns = columns_of_lists(
                [random.choice([None, b"", b"value " * random.randrange(9)]) for _ in range(count)],
                [random.choice([None, b"", b"key"]) for _ in range(count)] if shape & 1 else None,
                [random.choice([(), (("a", b"1"), ("b", None))]) for _ in range(count)] if shape & 2 else None,
                [random.randrange(-5, 10**13) for _ in range(count)] if shape & 4 else None,
            )
            for compression in COMPRESSIONS:
                yield Batch.pack(columns, compression=compression).numbered(7, 9).to_bytes()


_VALID = list(_corpus())


def _signed(stored: bytes | bytearray) -> bytes:
    """The same bytes with the checksums that a writer of them would give."""
    head, body = bytearray(stored[:HEADER_BYTES]), bytes(stored[HEADER_BYTES:])
    if len(head) == HEADER_BYTES:
        struct.pack_into("<I", head, 64, google_crc32c.extend(google_crc32c.value(bytes(head[:64])), body))
        struct.pack_into("<I", head, 84, google_crc32c.value(bytes(head[:84])))
    return bytes(head) + body


def _read_everything(stored: bytes, position: int = 0) -> bool:
    """Whether it is a batch; anything but `CorruptBatch` on the way fails the test."""
    try:
        batch = Batch.parse(stored, position)
        batch.check()
    except CorruptBatch:
        return False
    messages = Messages.of("t", 0, [batch], 0)
    assert len(list(messages)) == len(messages.values()) == batch.count
    messages.to_arrow().validate(full=True)
    return True


def _mutated(random: Random, stored: bytes) -> bytes:
    data = bytearray(stored)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(data))
        match random.randrange(6):
            case 0:
                data[at] ^= 1 << random.randrange(8)
            case 1:
                data[at & ~3 : (at & ~3) + 4] = struct.pack("<I", random.choice(_EXTREMES))
            case 2:
                data[at & ~3 : (at & ~3) + 4] = struct.pack("<i", random.randrange(-5, 300))
            case 3:
                data[at:at] = random.randbytes(random.choice([1, 4, 8, 16]))
            case 4:
                del data[at : at + random.choice([1, 4, 8, 16])]
            case _:
                del data[max(at, HEADER_BYTES) :]
    body_bytes = max(len(data) - HEADER_BYTES, 0)
    if len(data) > HEADER_BYTES and random.random() < 0.8:  # a liar would at least get the length right
        struct.pack_into("<I", data, 12, body_bytes - body_bytes % 8)
        if data[6] < 1 << 4:
            data[16:20] = data[12:16]
    return bytes(data)


@pytest.mark.parametrize("seed", range(8))
def test_mutated_batches_with_the_right_checksums(seed: int) -> None:
    random = Random(seed)
    outcomes = set()
    for _ in range(1000):
        position = random.choice([0, 0, 1, 4, 7])
        outcomes.add(_read_everything(bytes(position) + _signed(_mutated(random, random.choice(_VALID))), position))
    assert outcomes == {True, False}, "the mutations must reach both ends"


def test_truncation_at_every_byte() -> None:
    for stored in _VALID[:: len(_VALID) // 12]:
        assert _read_everything(stored)
        for length in range(len(stored)):
            assert not _read_everything(stored[:length])


def test_every_flipped_bit_is_found_by_a_checksum() -> None:
    stored = _VALID[-1]
    for at in range(len(stored)):
        damaged = stored[:at] + bytes([stored[at] ^ 1 << at % 8]) + stored[at + 1 :]
        with pytest.raises(CorruptBatch):
            Batch.parse(damaged)


@_MANY
@given(st.binary(max_size=300))
def test_random_bytes_are_no_batch(noise: bytes) -> None:
    assert not _read_everything(noise)


@_MANY
@given(st.sampled_from(range(64)), st.integers(0, 2**32 - 1), st.binary(max_size=200))
def test_random_bodies_under_a_plausible_header(flags: int, count: int, noise: bytes) -> None:
    body = noise[: len(noise) // 8 * 8]
    head = struct.pack("<4sBBHIII", b"OTLB", 1, 1, flags, count % 20, len(body), len(body)) + bytes(68)
    _read_everything(_signed(head + body))


def _compressed_claim(compression: str, content: bytes, raw_bytes: int) -> bytes:
    """A batch whose body decompresses to *content* and whose header says *raw_bytes*."""
    packed = pa.compress(content, codec=compression, asbytes=True)
    body = struct.pack("<Q", len(packed)) + packed + bytes(-len(packed) % 8)
    flags = COMPRESSIONS.index(compression) << 4
    return _signed(struct.pack("<4sBBHIII", b"OTLB", 1, 1, flags, 1, len(body), raw_bytes) + bytes(68) + body)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_body_that_claims_a_gibibyte_is_refused_before_anything_is_allocated(compression: str) -> None:
    bomb = _compressed_claim(compression, bytes(2**20), 2**30)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(CorruptBatch, match="stored bytes that say they are 1,073,741,824"):
        Batch.parse(bomb)
    assert pa.default_memory_pool().max_memory() == before


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("claim", [-1000, -1, 1, 1000, 10**6])
def test_a_body_of_another_length_than_it_says_is_refused(compression: str, claim: int) -> None:
    """Else what the body does not fill would be whatever the memory held before."""
    content = struct.pack("<iIii", 0, 10_000, 0, 10_000) + bytes(10_000)
    assert _read_everything(_compressed_claim(compression, content, len(content)))
    with pytest.raises(CorruptBatch, match="decompressed"):
        Batch.parse(_compressed_claim(compression, content, len(content) + claim)).columns()


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 2**32, 41])
def test_a_compressed_length_beyond_the_body_is_refused(length: int) -> None:
    stored = bytearray(Batch.pack(columns_of_values([bytes(1000)]), compression="zstd").to_bytes())
    struct.pack_into("<Q", stored, HEADER_BYTES, length)
    with pytest.raises(CorruptBatch, match=f"{length} compressed bytes do not fit"):
        Batch.parse(_signed(stored)).columns()


@pytest.mark.parametrize("nulls", [0, 1, 3, 4])
def test_a_wrong_number_of_nulls_is_refused(nulls: int) -> None:
    stored = bytearray(Batch.pack(columns_of_values([b"a", None, b"c", None])).to_bytes())
    struct.pack_into("<i", stored, HEADER_BYTES, nulls)
    with pytest.raises(CorruptBatch):
        Batch.parse(_signed(stored)).columns()
