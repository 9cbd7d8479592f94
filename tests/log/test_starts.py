"""Where to start: words, numbers and times."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.errors import InvalidValue
from ottla.log.starts import locate, parse_start
from ottla.model import At, Earliest, Latest, Since, Start
from ottla.storage import open_engine
from ottla.testing.samples import batch_of, new_topic

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        (1, At(1)),
        (2**40, At(2**40)),
        (At(5), At(5)),
        (Latest(), Latest()),
        (NOON, Since(NOON_MS)),
        (NOON.astimezone(timezone(timedelta(hours=5))), Since(NOON_MS)),
        ("2030-01-31T12:00:00Z", Since(NOON_MS)),
        ("2030-01-31T14:00:00.250+02:00", Since(NOON_MS + 250)),
        ("2h ago", Since(NOON_MS - 7_200_000)),
        ("500ms ago", Since(NOON_MS - 500)),
        ("1.5 s ago", Since(NOON_MS - 1500)),
        ("1000000d ago", Since(0)),
    ],
)
def test_words_mean_a_start(words: Any, start: Start) -> None:
    assert parse_start(words, ManualClock(NOON_MS)) == start


@pytest.mark.parametrize(
    "wrong",
    [
        0,
        -1,
        At(0),
        2**63,
        True,
        1.5,
        None,
        "",
        "5",
        "first",
        "ago",
        "forever ago",
        "2 weeks ago",
        "-2h ago",
        b"earliest",
    ],
)
def test_anything_else_is_refused_with_the_ways_to_write_it(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="start") as refused:
        parse_start(wrong, ManualClock())
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


@pytest.mark.parametrize("zoneless", [datetime(2030, 1, 31), "2030-01-31T12:00:00", "2030-01-31"])  # noqa: DTZ001  (the point)
def test_a_time_without_a_zone_is_refused_not_guessed_at(zoneless: Any) -> None:
    with pytest.raises(InvalidValue, match="time zone"):
        parse_start(zoneless, ManualClock())


def test_a_start_becomes_a_number_in_a_partition() -> None:
    clock = ManualClock(1000)
    engine = open_engine("memory:", clock=clock)
    partition = engine.partition(new_topic(engine), 0)
    partition.append([batch_of(b"a", b"b")])
    clock.advance(10)
    partition.append([batch_of(b"c")])
    assert [locate(s, partition) for s in (Earliest(), Latest(), At(2), Since(0), Since(1001), Since(1011))] == [
        1,
        4,
        2,
        1,
        3,
        4,
    ]
