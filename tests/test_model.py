import pickle
from dataclasses import FrozenInstanceError

import pytest

from ottla.model import (
    Appended,
    At,
    Bounds,
    Damage,
    Earliest,
    Landed,
    LandedRange,
    Latest,
    Message,
    Record,
    Since,
    Topic,
)

_VALUES = [
    Record(value=b"v", key=None, headers=(("h", None),), timestamp_ms=-1),
    Message("deliveries", 0, 1, 2, b"k", b"v", (("h", b"x"),)),
    Landed("deliveries", 0, 1),
    LandedRange("deliveries", 0, range(1, 4)),
    Bounds(1, 4),
    Appended(1, 3),
    Topic(name="deliveries", id="a1", created_ms=5),
    Earliest(),
    Latest(),
    At(7),
    Since(1000),
    Damage(topic="deliveries", partition=0, path="x", position=88, reason="torn"),
]


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: type(value).__name__)
def test_a_value_pickles_and_is_equal_to_its_copy(value: object) -> None:
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("value", _VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_frozen(value: object) -> None:
    name = next(iter(getattr(value, "__slots__", ()) or getattr(value, "_fields", ())), "anything")
    with pytest.raises((FrozenInstanceError, AttributeError, TypeError)):
        setattr(value, name, 1)


def test_offset_is_the_message_number_by_another_name() -> None:
    assert Message("deliveries", 0, 41, 0, None, b"").offset == 41


def test_appended_knows_the_number_after_its_last() -> None:
    assert Appended(5, 3).next == 8


def test_a_record_takes_its_fields_by_name_only() -> None:
    with pytest.raises(TypeError):
        Record(b"v")  # type: ignore[call-arg]


def test_a_null_value_is_not_an_empty_one() -> None:
    assert Record(value=None) != Record(value=b"")
