"""Partitioners: the same partition as Kafka, one message at a time or by the column (rows W2 and K4)."""

import json
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.batch import Columns, columns_of_lists
from ottla.errors import InvalidValue
from ottla.log import partitioners
from ottla.log.murmur2 import murmur2, positive_hashes
from ottla.log.partitioners import (
    ByFunction,
    KeyHash,
    Partitioner,
    as_partitioner,
    by_partition,
    check_assigned,
    check_pick,
    partitioner_for,
)

KAFKA_VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), KAFKA_VECTORS)
def test_murmur2_gives_the_numbers_of_kafkas_own_tests(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_a_column_of_keys_hashes_to_kafkas_numbers_too() -> None:
    """Enough keys of each length that the column form does the work."""
    keys = [key for key, _ in KAFKA_VECTORS] * 50
    hashes = [signed & 0x7FFFFFFF for _, signed in KAFKA_VECTORS] * 50
    assert positive_hashes(pa.array(keys, pa.binary())).to_pylist() == hashes


@given(
    keys=st.lists(st.binary(max_size=40), max_size=30),
    copies=st.integers(1, 40),
    skipped=st.integers(0, 5),
)
def test_the_column_form_agrees_with_the_single_form(keys: list[bytes], copies: int, skipped: int) -> None:
    array = pa.array(keys * copies, pa.binary()).slice(skipped)
    assert positive_hashes(array).to_pylist() == [murmur2(key) & 0x7FFFFFFF for key in (keys * copies)[skipped:]]


@given(keys=st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=60), partitions=st.integers(1, 12))
def test_key_hash_picks_the_same_for_one_message_as_for_many(keys: list[bytes | None], partitions: int) -> None:
    """Row K4: what has the same key goes to the same partition, however it is sent."""
    columns = Columns(values=pa.array([b""] * len(keys), pa.binary()), keys=pa.array(keys, pa.binary()))
    assigned = KeyHash().assign(columns, partitions)
    assert assigned is not None
    assert assigned.to_pylist() == [KeyHash().pick(key, None, partitions) for key in keys]
    assert assigned.to_pylist() == [None if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]


def test_messages_without_a_key_have_no_preference() -> None:
    assert KeyHash().pick(None, b"value", 4) is None
    assert KeyHash().assign(columns_of_lists([b"value"]), 4) is None


def test_a_key_too_long_to_be_remembered_is_hashed_all_the_same() -> None:
    assert KeyHash().pick(b"k" * 1000, None, 7) == (murmur2(b"k" * 1000) & 0x7FFFFFFF) % 7


@pytest.mark.parametrize(
    ("name", "value", "as_key"),
    [
        ("city", {"city": "Zürich"}, "Zürich".encode()),
        ("number", {"number": 42}, b"42"),
        ("late", {"late": True}, b"true"),
        ("at", {"at": {"y": 2, "x": 1}}, b'{"x":1,"y":2}'),
        ("address.city", {"address": {"city": "Bern"}}, b"Bern"),
        ("address.city", {"address.city": "Bern", "address": {"city": "Basel"}}, b"Bern"),
    ],
)
def test_a_json_field_goes_where_its_text_would_go_as_a_key(name: str, value: dict[str, Any], as_key: bytes) -> None:
    """Row W2: hash of a chosen field of the message."""
    partitioner = partitioner_for(f"json-field:{name}")
    encoded = json.dumps(value).encode()
    assert partitioner.pick(None, encoded, 1000) == KeyHash().pick(as_key, None, 1000)
    assigned = partitioner.assign(columns_of_lists([encoded]), 1000)
    assert assigned is not None
    assert assigned.to_pylist() == [KeyHash().pick(as_key, None, 1000)]


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"\xff", b"7", b"[1]", b'{"town": 1}', b'{"city": null}', b"[" * 100_000]
)
def test_a_value_without_the_json_field_has_no_preference(value: bytes | None) -> None:
    partitioner = partitioner_for("json-field:city")
    assert partitioner.pick(b"key", value, 4) is None
    assigned = partitioner.assign(columns_of_lists([value, b'{"city": "Bern"}']), 4)
    assert assigned is not None
    assert assigned.to_pylist() == [None, KeyHash().pick(b"Bern", None, 4)]


def test_a_path_through_something_that_is_no_object_finds_nothing() -> None:
    assert partitioner_for("json-field:a.b").pick(None, b'{"a": "text"}', 4) is None


def test_a_json_field_needs_a_name() -> None:
    with pytest.raises(InvalidValue, match="json-field:city"):
        partitioner_for("json-field:")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match=r"'sticky'.*known: round-robin, key-hash, json-field:<name>"):
        partitioner_for("sticky")


def first_letter(key: bytes | None, value: bytes | None, partitions: int) -> int | None:
    del key
    return None if not value else value[0] % partitions


class FirstLetter:
    def pick(self, key: bytes | None, value: bytes | None, partitions: int) -> int | None:
        return first_letter(key, value, partitions)

    def assign(self, columns: Columns, partitions: int) -> pa.Array | None:
        return ByFunction(first_letter).assign(columns, partitions)


@pytest.mark.parametrize("attribute", ["first_letter", "FirstLetter"])
def test_other_packages_bring_partitioners_by_entry_point(monkeypatch: pytest.MonkeyPatch, attribute: str) -> None:
    """Row W2: further strategies are pluggable, as a function or as a class."""
    point = EntryPoint(name="letters", value=f"{__name__}:{attribute}", group="ottla.partitioners")
    monkeypatch.setattr(
        EntryPoint, "load", lambda _: {"first_letter": first_letter, "FirstLetter": FirstLetter}[attribute]
    )
    monkeypatch.setattr(partitioners, "entry_points", lambda *, group: EntryPoints([point]).select(group=group))
    assert partitioner_for("letters").pick(None, b"c", 10) == 9
    with pytest.raises(InvalidValue, match="letters"):
        partitioner_for("digits")


@pytest.mark.parametrize("own", [first_letter, FirstLetter(), "key-hash"])
def test_ones_own_partitioner_is_a_function_an_object_or_a_name(own: object) -> None:
    assert isinstance(as_partitioner(own), Partitioner)


@pytest.mark.parametrize("wrong", [7, FirstLetter, None, b"key-hash"])
def test_what_is_no_partitioner_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidValue, match="give a name, a function"):
        as_partitioner(wrong)


def test_a_function_is_asked_for_each_message_of_a_column() -> None:
    columns = columns_of_lists([b"a", None, b"c"], keys=[b"k", None, None])
    assigned = as_partitioner(first_letter).assign(columns, 10)
    assert assigned is not None
    assert assigned.to_pylist() == [7, None, 9]


@pytest.mark.parametrize("wrong", [-1, 4, True, 1.0, "1"])
def test_a_pick_that_is_no_partition_is_named(wrong: object) -> None:
    with pytest.raises(InvalidValue, match="partitioner must return 0 to 3") as caught:
        check_pick(wrong, 4)
    assert caught.value.value == repr(wrong)
    with pytest.raises(InvalidValue, match="partitioner must return 0 to 3"):
        ByFunction(lambda *_: wrong).assign(columns_of_lists([b"a"]), 4)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [[0], pa.array([0.0]), pa.array([0, 1]), pa.array([4]), pa.array([-1]), pa.array(["0"])]
)
def test_an_assignment_that_names_no_partitions_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidValue, match="must return"):
        check_assigned(wrong, columns_of_lists([b"a"]), 4)


def test_an_assignment_of_any_integer_type_will_do() -> None:
    assigned = check_assigned(pa.array([3, None], pa.uint8()), columns_of_lists([b"a", b"b"]), 4)
    assert assigned is not None
    assert assigned.to_pylist() == [3, None]
    assert check_assigned(pa.array([None], pa.int32()), columns_of_lists([b"a"]), 4) is not None


@given(assigned=st.lists(st.integers(0, 5), min_size=1, max_size=50))
def test_splitting_by_partition_keeps_every_message_and_its_order(assigned: list[int]) -> None:
    """Row K4: FIFO within a partition."""
    values = [b"%d" % index for index in range(len(assigned))]
    columns = columns_of_lists(values, keys=values, timestamps=list(range(len(assigned))))
    shares = dict(by_partition(columns, pa.array(assigned, pa.int32())))
    assert sorted(shares) == sorted(set(assigned))
    for partition, share in shares.items():
        indices = [index for index, other in enumerate(assigned) if other == partition]
        assert share.values.to_pylist() == [values[index] for index in indices]
        assert share.keys is not None
        assert share.keys.to_pylist() == share.values.to_pylist()
        assert share.timestamps is not None
        assert share.timestamps.to_pylist() == indices
