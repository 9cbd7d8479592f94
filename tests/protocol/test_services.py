"""Services from their descriptors: stubs and handlers without generated code, and nothing left out."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc  # type: ignore[import-untyped]  # it has no types

from ottla.minikafka import minikafka_pb2
from ottla.protocol.services import LOG_SERVICE, MINIKAFKA_SERVICE, Stub, handlers
from ottla.v1 import log_pb2 as pb

PROTO = Path(__file__).parents[2] / "proto"


def echo(service: Any) -> dict[str, Any]:
    """A behaviour for every method: none."""
    return {method.name: lambda _request, _context: None for method in service.methods}


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    """A server that answers three calls, one of each shape that the service has."""

    def get_topic(request: pb.GetTopicRequest, _: grpc.ServicerContext) -> pb.Topic:
        return pb.Topic(name=request.name)

    def read(request: pb.ReadRequest, _: grpc.ServicerContext) -> Iterator[pb.FetchResponse]:
        for index in range(3):
            yield pb.FetchResponse(batches=b"%d of %s" % (index, request.topic.encode()))

    def append(requests: Iterator[pb.AppendRequest], _: grpc.ServicerContext) -> Iterator[pb.AppendResponse]:
        for request in requests:
            yield pb.AppendResponse(request=request.request)

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        port = server.add_insecure_port("127.0.0.1:0")
        behaviours = echo(LOG_SERVICE) | {"GetTopic": get_topic, "Read": read, "Append": append}
        server.add_generic_rpc_handlers((handlers(LOG_SERVICE, behaviours),))
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
        server.stop(None).wait()


def test_a_unary_call_is_answered_by_its_behaviour(channel: grpc.Channel) -> None:
    assert Stub(channel, LOG_SERVICE).GetTopic(pb.GetTopicRequest(name="a")) == pb.Topic(name="a")


def test_a_call_that_answers_with_a_stream_streams(channel: grpc.Channel) -> None:
    answers = Stub(channel, LOG_SERVICE).Read(pb.ReadRequest(topic="a"))
    assert [answer.batches for answer in answers] == [b"0 of a", b"1 of a", b"2 of a"]


def test_a_call_of_two_streams_answers_as_requests_come(channel: grpc.Channel) -> None:
    answers = Stub(channel, LOG_SERVICE).Append(pb.AppendRequest(request=number) for number in (7, 8))
    assert [answer.request for answer in answers] == [7, 8]


@pytest.mark.parametrize("service", [LOG_SERVICE, MINIKAFKA_SERVICE])
def test_a_stub_has_every_method_and_no_other(channel: grpc.Channel, service: Any) -> None:
    stub = Stub(channel, service)
    assert all(callable(getattr(stub, method.name)) for method in service.methods)
    with pytest.raises(AttributeError, match="no method 'Nope'"):
        stub.Nope  # noqa: B018  (looking is what fails)


@pytest.mark.parametrize("service", [LOG_SERVICE, MINIKAFKA_SERVICE])
def test_a_missing_behaviour_is_an_error_before_anything_is_served(service: Any) -> None:
    behaviours = echo(service)
    del behaviours["Produce"]
    with pytest.raises(TypeError, match=f"{service.full_name} has no behaviour for Produce"):
        handlers(service, behaviours)


@pytest.mark.parametrize("module", [pb, minikafka_pb2])
def test_the_generated_messages_are_those_of_the_proto_file(module: Any, tmp_path: Path) -> None:
    """`make proto` was run after the last change."""
    name = module.DESCRIPTOR.name
    assert protoc.main(["protoc", f"-I{PROTO}", f"--python_out={tmp_path}", f"{PROTO}/{name}"]) == 0
    made = tmp_path / name.replace(".proto", "_pb2.py")
    assert descriptor(Path(module.__file__)) == descriptor(made)


def descriptor(generated: Path) -> str:
    """The line that holds all that the file says, whichever version of the generator wrote it."""
    (line,) = (line for line in generated.read_text().splitlines() if "AddSerializedFile" in line)
    return line


def test_every_call_is_documented() -> None:
    """The `.proto` is all that a client's author in another language has."""
    for name in (pb.DESCRIPTOR.name, minikafka_pb2.DESCRIPTOR.name):
        lines = (PROTO / name).read_text().splitlines()
        calls = [index for index, line in enumerate(lines) if line.strip().startswith("rpc ")]
        assert calls
        assert all(lines[index - 1].strip().startswith("//") for index in calls)
