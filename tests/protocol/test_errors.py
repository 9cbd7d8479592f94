"""Errors over the wire: every error of ottla has its status, and arrives as the same class with the same facts."""

import inspect
import json
from typing import Any

import grpc
import pytest

from ottla import errors
from ottla.errors import OttlaError
from ottla.protocol.errors import STATUS_OF, decode_error, encode_error, status_of
from ottla.protocol.statuses import Status
from ottla.v1 import log_pb2 as pb

ALL: list[type[OttlaError]] = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OttlaError)
]

SAMPLES: dict[str, Any] = {"str": "a", "int": 7, "float": 1.5, "object": "a"}


def example(kind: type[OttlaError]) -> OttlaError:
    """An error of that class, with a fact of the right type for each argument."""
    if kind.__init__ is Exception.__init__:
        return kind("a sentence")
    parameters = list(inspect.signature(kind).parameters.values())
    return kind(*(SAMPLES[parameter.annotation.__name__] for parameter in parameters))


def test_the_table_is_whole() -> None:
    assert set(STATUS_OF) == set(ALL)


@pytest.mark.parametrize("kind", ALL)
def test_an_error_arrives_as_it_was(kind: type[OttlaError]) -> None:
    error = example(kind)
    arrived = decode_error(pb.Error.FromString(encode_error(error).SerializeToString()))
    assert type(arrived) is kind
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)
    assert status_of(error) == STATUS_OF[kind] != Status.OK


def test_what_is_not_ours_is_internal_and_tells_nothing_of_the_server() -> None:
    error = ValueError("secret")
    sent = encode_error(error)
    assert status_of(error) == Status.INTERNAL
    assert "secret" not in str(sent)
    assert str(decode_error(sent)) == "the server failed (ValueError): see its log"


@pytest.mark.parametrize("name", ["NewerError", "", "Any", "json", "__doc__", "_rebuild", "ValueError"])
def test_an_error_of_a_newer_server_is_one_all_the_same(name: str) -> None:
    """And a name that is no error never becomes anything else."""
    arrived = decode_error(pb.Error(name=name, message="a sentence", facts=json.dumps({"a": 1})))
    assert type(arrived) is OttlaError
    assert str(arrived) == "a sentence"


def test_statuses_are_those_of_grpc() -> None:
    assert {status.name: status.value for status in Status} == {code.name: code.value[0] for code in grpc.StatusCode}
