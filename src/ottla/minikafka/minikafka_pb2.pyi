from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Topic(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class Payload(_message.Message):
    __slots__ = ("payload",)
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    def __init__(self, payload: _Optional[bytes] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("topic", "payload")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    topic: Topic
    payload: Payload
    def __init__(self, topic: _Optional[_Union[Topic, _Mapping]] = ..., payload: _Optional[_Union[Payload, _Mapping]] = ...) -> None: ...

class MsgNumber(_message.Message):
    __slots__ = ("msg_number",)
    MSG_NUMBER_FIELD_NUMBER: _ClassVar[int]
    msg_number: int
    def __init__(self, msg_number: _Optional[int] = ...) -> None: ...

class PollRequest(_message.Message):
    __slots__ = ("topic", "read_from")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    READ_FROM_FIELD_NUMBER: _ClassVar[int]
    topic: str
    read_from: MsgNumber
    def __init__(self, topic: _Optional[str] = ..., read_from: _Optional[_Union[MsgNumber, _Mapping]] = ...) -> None: ...

class PollResponse(_message.Message):
    __slots__ = ("payloads", "new_read_from")
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    NEW_READ_FROM_FIELD_NUMBER: _ClassVar[int]
    payloads: _containers.RepeatedCompositeFieldContainer[Payload]
    new_read_from: MsgNumber
    def __init__(self, payloads: _Optional[_Iterable[_Union[Payload, _Mapping]]] = ..., new_read_from: _Optional[_Union[MsgNumber, _Mapping]] = ...) -> None: ...
