"""The standard services beside ottla's own: health for those who watch, reflection for those who explore."""

import contextlib
import threading
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import ottla
from ottla.server import Server

SERVICES = ["ottla.v1.Log", "protocol.MiniKafka"]
CALL_S = 30.0


@pytest.fixture
def server() -> Iterator[Server]:
    with ottla.open("memory:") as log:
        server = Server(log)
        server.start("127.0.0.1:0")
        with server:
            yield server


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(str(server.address)) as channel:
        yield channel


class TestHealth:
    @pytest.mark.parametrize("service", ["", *SERVICES])
    def test_the_server_and_each_of_its_services_is_serving(self, channel: grpc.Channel, service: str) -> None:
        answer = health_pb2_grpc.HealthStub(channel).Check(
            health_pb2.HealthCheckRequest(service=service), timeout=CALL_S
        )
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    def test_nothing_is_said_of_a_service_that_is_not_there(self, channel: grpc.Channel) -> None:
        with pytest.raises(grpc.RpcError) as caught:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="nope"), timeout=CALL_S)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    def test_those_who_watch_are_told_when_the_server_goes(self, server: Server, channel: grpc.Channel) -> None:
        watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=CALL_S)
        seen = [next(watching).status]

        def watch() -> None:
            with contextlib.suppress(grpc.RpcError):
                seen.extend(answer.status for answer in watching)

        watcher = threading.Thread(target=watch)
        watcher.start()
        server.stop()
        watcher.join()
        assert seen == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]


class TestReflection:
    """What `grpcurl` and its like ask for."""

    def ask(
        self, channel: grpc.Channel, request: reflection_pb2.ServerReflectionRequest
    ) -> reflection_pb2.ServerReflectionResponse:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=CALL_S)
        return answer

    def test_every_service_is_listed(self, channel: grpc.Channel) -> None:
        answer = self.ask(channel, reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {service.name for service in answer.list_services_response.service}
        assert names >= {*SERVICES, "grpc.health.v1.Health"}

    @pytest.mark.parametrize(
        ("service", "method"), [("ottla.v1.Log", "Produce"), ("ottla.v1.Log", "Read"), ("protocol.MiniKafka", "Poll")]
    )
    def test_a_service_is_described(self, channel: grpc.Channel, service: str, method: str) -> None:
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=service)
        (found,) = self.ask(channel, request).file_descriptor_response.file_descriptor_proto
        (described,) = FileDescriptorProto.FromString(found).service
        assert described.name == service.rpartition(".")[2]
        assert method in {one.name for one in described.method}
