"""Topics as they travel: every setting arrives as it was, and "no limit" is not "nothing said"."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidValue
from ottla.model import Topic
from ottla.protocol.topics import decode_settings, decode_topic, encode_settings, encode_topic
from ottla.settings import TopicSettings
from ottla.v1 import log_pb2 as pb

POSITIVE = st.integers(1, 2**63 - 1)

SETTINGS = st.builds(
    TopicSettings,
    partitions=st.integers(1, 10_000),
    partitioner=st.sampled_from(["round-robin", "key-hash", "json-field:city"]),
    retention_ms=st.none() | POSITIVE,
    retention_bytes=st.none() | POSITIVE,
    max_message_bytes=st.integers(1, 2**30),
    sync=st.sampled_from(["always", "interval", "never"]),
    sync_interval_ms=POSITIVE,
    segment_bytes=POSITIVE,
    segment_ms=st.none() | POSITIVE,
)


@given(SETTINGS, st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1))
def test_a_topic_arrives_as_it_was(settings: TopicSettings, created_ms: int, version: int) -> None:
    topic = Topic(name="deliveries", id="f" * 32, created_ms=created_ms, settings=settings, version=version)
    sent = encode_topic(topic).SerializeToString()
    assert decode_topic(pb.Topic.FromString(sent)) == topic


def test_every_setting_has_its_field() -> None:
    fields = {field.name for field in pb.TopicSettings.DESCRIPTOR.fields}
    assert fields == {field.name for field in dataclasses.fields(TopicSettings)}


def test_all_settings_are_sent_so_that_none_is_taken_from_another_versions_defaults() -> None:
    sent = encode_settings(TopicSettings())
    assert {field.name for field, _ in sent.ListFields()} == {f.name for f in dataclasses.fields(TopicSettings)}


def test_only_what_is_said_is_a_change() -> None:
    assert decode_settings(pb.TopicSettings()) == {}
    assert decode_settings(pb.TopicSettings(partitions=3, sync="never")) == {"partitions": 3, "sync": "never"}


@pytest.mark.parametrize("name", ["retention_ms", "retention_bytes", "segment_ms"])
def test_zero_is_no_limit_where_there_can_be_none(name: str) -> None:
    assert decode_settings(pb.TopicSettings(**{name: 0})) == {name: None}  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("name", ["partitions", "max_message_bytes", "segment_bytes", "sync_interval_ms"])
def test_zero_is_wrong_where_a_limit_must_be(name: str) -> None:
    said = decode_settings(pb.TopicSettings(**{name: 0}))  # type: ignore[arg-type]  # by name
    with pytest.raises(InvalidValue, match=name):
        TopicSettings().changed(**said)
