"""gRPC services from their descriptors: stubs for clients and handlers for servers, without generated code."""

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from ottla.minikafka import minikafka_pb2
from ottla.v1 import log_pb2

LOG_SERVICE: ServiceDescriptor = log_pb2.DESCRIPTOR.services_by_name["Log"]
MINIKAFKA_SERVICE: ServiceDescriptor = minikafka_pb2.DESCRIPTOR.services_by_name["MiniKafka"]


class Stub:
    """One callable for each method of a service, by its name."""

    def __init__(self, channel: grpc.Channel, service: ServiceDescriptor) -> None:
        for method in service.methods:
            make = getattr(channel, _kind(method))
            call = make(
                f"/{service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the service has no method {name!r}")


def handlers(
    service: ServiceDescriptor,
    behaviours: Mapping[str, Callable[..., Any]],
    *,
    parsers: Mapping[str, Callable[[bytes], Any]] | None = None,
    serializers: Mapping[str, Callable[[Any], bytes]] | None = None,
) -> "grpc.GenericRpcHandler[Any, Any]":
    """A handler for every method of a service; each must have its behaviour.

    *parsers* and *serializers*, by method, take the place of the generated code's.
    """
    missing = {method.name for method in service.methods} - behaviours.keys()
    if missing:
        raise TypeError(f"{service.full_name} has no behaviour for {', '.join(sorted(missing))}")
    made = {}
    for method in service.methods:
        make = getattr(grpc, f"{_kind(method)}_rpc_method_handler")
        made[method.name] = make(
            behaviours[method.name],
            request_deserializer=(parsers or {}).get(method.name, GetMessageClass(method.input_type).FromString),
            response_serializer=(serializers or {}).get(
                method.name, GetMessageClass(method.output_type).SerializeToString
            ),
        )
    return grpc.method_handlers_generic_handler(service.full_name, made)


def _kind(method: MethodDescriptor) -> str:
    sides = (method.client_streaming, method.server_streaming)
    return "_".join("stream" if streaming else "unary" for streaming in sides)
