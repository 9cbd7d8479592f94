"""Topics and their settings as they travel. Zero stands for "no limit" in durations and sizes."""

from typing import Any

from ottla.model import Topic
from ottla.settings import TopicSettings
from ottla.v1 import log_pb2 as pb

_UNLIMITED = {"retention_ms", "retention_bytes", "segment_ms"}


def encode_settings(settings: TopicSettings) -> pb.TopicSettings:
    """All settings; `None` is sent as 0."""
    fields: dict[str, Any] = {name: 0 if value is None else value for name, value in settings.to_json().items()}
    return pb.TopicSettings(**fields)


def decode_settings(sent: pb.TopicSettings) -> dict[str, Any]:
    """The fields that are present, by the names that `TopicSettings` has."""
    fields = {field.name: value for field, value in sent.ListFields()}
    return {name: None if name in _UNLIMITED and value == 0 else value for name, value in fields.items()}


def encode_topic(topic: Topic) -> pb.Topic:
    return pb.Topic(
        name=topic.name,
        id=topic.id,
        created_ms=topic.created_ms,
        version=topic.version,
        settings=encode_settings(topic.settings),
    )


def decode_topic(sent: pb.Topic) -> Topic:
    return Topic(
        name=sent.name,
        id=sent.id,
        created_ms=sent.created_ms,
        version=sent.version,
        settings=TopicSettings(**decode_settings(sent.settings)),
    )
