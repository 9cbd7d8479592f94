import math
import pickle
from dataclasses import fields
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidValue
from ottla.settings import (
    LARGEST_MESSAGE_BYTES,
    TopicSettings,
    check_name,
    check_number,
    format_duration,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("words", "milliseconds"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("forever", None),
        (None, None),
        (" 1.5 s ", 1500),
        ("0.001s", 1),
        (2, 2000),
        (0.25, 250),
        (timedelta(minutes=1), 60_000),
        ("100000000d", 8_640_000_000_000_000),
    ],
)
def test_m5_durations_are_words(words: Any, milliseconds: int | None) -> None:
    """SEEDS M5: `500ms`, `10s`, `5m`, `2h`, `7d` and `forever`."""
    assert parse_duration(words) == milliseconds


@pytest.mark.parametrize(
    "words",
    [
        "", "5", "s", "5 weeks", "-5s", "1e3s", "5S", "Forever", "٣s", "5s5s", "0s", "0.5ms", "1" * 400 + "d",
        "100000001d", 0, -1, math.nan, math.inf, 10**400, True, [], b"5s", timedelta(0), timedelta.max, object(),
    ],
)  # fmt: skip
def test_a_wrong_duration_is_refused_with_examples(words: Any) -> None:
    with pytest.raises(InvalidValue, match=r"retention .* is not valid: .*500ms, 10s, 5m, 2h, 7d or forever"):
        parse_duration(words, "retention")


@given(st.none() | st.integers(1, 8_640_000_000_000_000))
def test_a_formatted_duration_parses_to_the_same(milliseconds: int | None) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


def test_a_duration_is_formatted_in_the_largest_unit_that_is_exact() -> None:
    assert [format_duration(ms) for ms in (1, 1500, 60_000, 7_200_000, 86_400_000)] == [
        "1ms",
        "1500ms",
        "1m",
        "2h",
        "1d",
    ]


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (1, 1),
        ("1", 1),
        ("64KiB", 65_536),
        ("10MB", 10_000_000),
        ("10mb", 10_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("2T", 2 * 10**12),
        ("9007199254740993", 9_007_199_254_740_993),
        ("unlimited", None),
        (None, None),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_sizes_are_words_and_exact(words: Any, size: int | None) -> None:
    assert parse_size(words) == size


@pytest.mark.parametrize(
    "words", ["", "B", "-1", "1PB", "1e6", "0", "0.1", 0, -1, 2**63, "1" * 400, 1.5, True, [], b"1"]
)
def test_a_wrong_size_is_refused_with_examples(words: Any) -> None:
    with pytest.raises(InvalidValue, match=r"size .* is not valid: .*64KiB, 10MB, 1GiB or unlimited"):
        parse_size(words)


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "-"])
def test_a_name_is_made_of_letters_digits_dots_dashes_and_underscores(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "a\n", "x" * 250, None, 7, b"a", "a\x00"])
def test_a_wrong_name_is_refused_with_the_rule(name: object) -> None:
    with pytest.raises(InvalidValue, match=r"topic name .* is not valid: use 1 to 249 of the characters"):
        check_name(name)


def test_a_number_is_whole_and_may_be_numpys() -> None:
    assert check_number(7, "number") == 7
    assert check_number(0, "number", least=0) == 0
    assert check_number(-5, "number", least=-10) == -5
    assert type(check_number(np.int64(7), "number")) is int


@pytest.mark.parametrize("number", [0, -1, 2**63, 1.0, "1", True, None, np.float64(1), []])
def test_a_wrong_number_is_refused(number: object) -> None:
    with pytest.raises(
        InvalidValue, match=r"number .* is not valid: it must be a whole number of at least 1 and below"
    ):
        check_number(number, "number")


def test_what_is_no_number_is_refused_whatever_the_least() -> None:
    with pytest.raises(InvalidValue):
        check_number("x", "number", least=-10)


def test_topic_settings_by_default_lose_nothing() -> None:
    settings = TopicSettings()
    assert (settings.retention_ms, settings.retention_bytes, settings.sync) == (None, None, "always")


def test_topic_settings_come_from_words() -> None:
    settings = TopicSettings.of(
        partitions=4, retention="7d", retention_bytes="1GiB", segment_age="1h", sync_interval="50ms"
    )
    assert settings == TopicSettings(
        partitions=4, retention_ms=604_800_000, retention_bytes=2**30, segment_ms=3_600_000, sync_interval_ms=50
    )


def test_topic_settings_change_as_a_copy() -> None:
    settings = TopicSettings.of(retention="7d")
    assert settings.changed(retention="forever").retention_ms is None
    assert settings.changed(partitions=2).retention_ms == settings.retention_ms == 604_800_000


def test_topic_settings_come_back_from_json_and_pickle() -> None:
    settings = TopicSettings.of(
        partitions=np.int64(3), partitioner="key-hash", retention="1h", max_message_bytes="1MiB"
    )
    stored = settings.to_json()
    assert all(type(value) in {int, str, type(None)} for value in stored.values())
    assert TopicSettings.from_json(stored) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_setting_of_a_newer_version_is_passed_over() -> None:
    assert TopicSettings.from_json({"partitions": 2, "colour": "mauve"}) == TopicSettings(partitions=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"partitions": 0},
        {"partitions": 10_001},
        {"partitions": "4"},
        {"partitions": True},
        {"partitioner": ""},
        {"partitioner": None},
        {"retention": "5 weeks"},
        {"retention": "0s"},
        {"retention_ms": 0},
        {"retention_bytes": "lots"},
        {"max_message_bytes": 0},
        {"max_message_bytes": "unlimited"},
        {"max_message_bytes": LARGEST_MESSAGE_BYTES + 1},
        {"sync": "sometimes"},
        {"sync": ["always"]},
        {"sync_interval": "forever"},
        {"segment_bytes": None},
    ],
)
def test_a_wrong_topic_setting_is_refused_by_name(wrong: dict[str, Any]) -> None:
    name = next(iter(wrong))
    with pytest.raises(InvalidValue, match=name) as caught:
        TopicSettings.of(**wrong)
    assert caught.value.what.startswith(name)


def test_an_unknown_topic_setting_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidValue, match=r"topic setting 'retentoin' is not valid: known are .*retention"):
        TopicSettings.of(retentoin="7d")


def test_every_topic_setting_has_a_default() -> None:
    assert TopicSettings() == TopicSettings(**{f.name: getattr(TopicSettings(), f.name) for f in fields(TopicSettings)})


def test_segments_roll_at_a_tenth_of_the_retention_or_at_their_own_age() -> None:
    """SEEDS M5: even a quiet topic expires on time."""
    assert TopicSettings().roll_ms is None
    assert TopicSettings.of(retention="10s").roll_ms == 1000
    assert TopicSettings.of(retention="50ms").roll_ms == 10
    assert TopicSettings.of(retention="10h", segment_age="5m").roll_ms == 300_000
    assert TopicSettings.of(segment_age="5m").roll_ms == 300_000


def test_segments_roll_by_size_or_at_a_tenth_of_the_size_limit() -> None:
    assert TopicSettings().roll_bytes == 128 * 2**20
    assert TopicSettings.of(retention_bytes="10MiB").roll_bytes == 2**20
    assert TopicSettings.of(retention_bytes=1000).roll_bytes == 2**16
    assert TopicSettings.of(retention_bytes="10GiB", segment_bytes=5000).roll_bytes == 5000
