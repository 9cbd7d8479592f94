"""gRPC services from their descriptors: stubs for clients and handlers for servers, without generated code."""

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from ottla.minikafka import minikafka_pb2
from ottla.protocol.packed import parse_append
from ottla.v1 import log_pb2

LOG_SERVICE: ServiceDescriptor = log_pb2.DESCRIPTOR.services_by_name["Log"]
MINIKAFKA_SERVICE: ServiceDescriptor = minikafka_pb2.DESCRIPTOR.services_by_name["MiniKafka"]

_APPEND = log_pb2.AppendRequest.DESCRIPTOR.full_name
_FETCH = log_pb2.FetchResponse.DESCRIPTOR.full_name


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
    service: ServiceDescriptor, behaviours: Mapping[str, Callable[..., Any]]
) -> "grpc.GenericRpcHandler[Any, Any]":
    """A handler for every method of a service; each must have its behaviour.

    Those that append get `PackedAppend`, those that fetch return what `encode_fetch` makes.
    """
    missing = {method.name for method in service.methods} - behaviours.keys()
    if missing:
        raise TypeError(f"{service.full_name} has no behaviour for {', '.join(sorted(missing))}")
    made = {}
    for method in service.methods:
        make = getattr(grpc, f"{_kind(method)}_rpc_method_handler")
        made[method.name] = make(
            behaviours[method.name],
            request_deserializer=_parser(method.input_type),
            response_serializer=_serializer(method.output_type),
        )
    return grpc.method_handlers_generic_handler(service.full_name, made)


def _parser(kind: Descriptor) -> Callable[[bytes], Any]:
    return parse_append if kind.full_name == _APPEND else GetMessageClass(kind).FromString


def _serializer(kind: Descriptor) -> Callable[[Any], bytes]:
    return bytes if kind.full_name == _FETCH else GetMessageClass(kind).SerializeToString


def _kind(method: MethodDescriptor) -> str:
    sides = (method.client_streaming, method.server_streaming)
    return "_".join("stream" if streaming else "unary" for streaming in sides)
