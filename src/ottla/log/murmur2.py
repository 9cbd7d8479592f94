"""Murmur2 as Kafka's default partitioner computes it, for one key and for whole columns. No I/O.

The column form does the rounds on all keys of one length at once, in Arrow, and gives the same numbers
as the single form: a test compares them.
"""

import functools

import pyarrow as pa
import pyarrow.compute as pc

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
_FEW = 24
"""Below so many keys of one length, hashing them one by one is quicker."""


def murmur2(key: bytes) -> int:
    """The hash as 32 unsigned bits; Kafka shows the same bits as a signed number."""
    length = len(key)
    whole = length & ~3
    h = _SEED ^ length
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        h = h * _M & _MASK ^ (k ^ k >> 24) * _M & _MASK
    if length > whole:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@functools.lru_cache(maxsize=16_384)
def positive_hash(key: bytes) -> int:
    """Kafka's `toPositive(murmur2(key))`; the keys seen last are remembered, because keys come again."""
    return murmur2(key) & _POSITIVE


def positive_hashes(keys: pa.BinaryArray) -> pa.Array:
    """`positive_hash` of a column without nulls, as unsigned 32-bit numbers."""
    lengths = pc.binary_length(keys)
    order = pc.array_sort_indices(lengths)
    runs = pc.run_end_encode(lengths.take(order))
    hashes, start = [], 0
    for length, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        group = keys.take(order.slice(start, end - start))
        hashes.append(_hash_few(group) if len(group) < _FEW else _hash_alike(group, length))
        start = end
    if len(hashes) <= 1:  # one length, and the sort is stable: they are in their order already
        return hashes[0] if hashes else pa.array([], pa.uint32())
    return pa.concat_arrays(hashes).take(pc.array_sort_indices(order))


def _hash_few(keys: pa.BinaryArray) -> pa.Array:
    return pa.array([murmur2(key) & _POSITIVE for key in keys.to_pylist()], pa.uint32())


def _hash_alike(keys: pa.BinaryArray, length: int) -> pa.Array:
    """Hashes of keys that all have the same length."""
    whole = length & ~3
    h: pa.Array = pa.repeat(_uint32(_SEED ^ length), len(keys))
    for at in range(0, whole, 4):
        k = _times_m(_words(pc.binary_slice(keys, at, at + 4)))
        h = pc.bit_wise_xor(_times_m(h), _times_m(_xor_shifted(k, 24)))
    if length > whole:
        padding = pa.scalar(bytes(whole + 4 - length), pa.binary())
        tail = pc.binary_join_element_wise(pc.binary_slice(keys, whole, length), padding, pa.scalar(b"", pa.binary()))
        h = _times_m(pc.bit_wise_xor(h, _words(tail)))
    h = _times_m(_xor_shifted(h, 13))
    return pc.bit_wise_and(_xor_shifted(h, 15), _uint32(_POSITIVE))


def _words(fours: pa.BinaryArray) -> pa.Array:
    """Cells of four bytes each, seen as little-endian numbers; nothing is copied."""
    start = 4 * fours.offset
    return pa.Array.from_buffers(pa.uint32(), len(fours), [None, fours.buffers()[2].slice(start, 4 * len(fours))])


def _times_m(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers, _uint32(_M))  # wraps around, as the hash wants


def _xor_shifted(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, _uint32(bits)))


def _uint32(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint32())
