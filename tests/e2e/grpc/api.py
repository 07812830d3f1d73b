"""A stock grpcio client for tests: stubs by name, and a record of the methods that were called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import message_factory
from google.rpc import error_details_pb2, status_pb2

from goqueue.protos import common_pb2
from goqueue.rpc.services import SERVICES

METHODS = {f"{service.name}.{method.name}" for service in SERVICES.values() for method in service.methods}
Record, Header = common_pb2.Record, common_pb2.Header


class Refused(Exception):
    """A call that was answered with a status."""

    def __init__(self, error: Any) -> None:
        super().__init__(error.details())
        self.code: str = error.code().name
        self.message: str = error.details()
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        self.details: dict[str, Any] = {}
        if packed is not None:
            for one in status_pb2.Status.FromString(packed).details:
                kind = getattr(error_details_pb2, one.TypeName().rpartition(".")[2])
                self.details[kind.DESCRIPTOR.name] = kind.FromString(one.value)


class Api:
    """Calls methods as `call("TopicService.CreateTopic", name="a")`."""

    def __init__(self, address: str, options: Iterable[tuple[str, Any]] = ()) -> None:
        self.channel = grpc.insecure_channel(address, options=list(options))
        self.called: set[str] = set()

    def close(self) -> None:
        self.channel.close()

    def request(self, method: str, **fields: Any) -> Any:
        service, name = method.split(".")
        kind = message_factory.GetMessageClass(SERVICES[service].methods_by_name[name].input_type)
        return kind(**fields)

    def invoke(self, method: str) -> Any:
        """The call as grpcio has it, for streams."""
        service, name = method.split(".")
        described = SERVICES[service].methods_by_name[name]
        self.called.add(method)
        kind = ("stream" if described.client_streaming else "unary") + (
            "_stream" if described.server_streaming else "_unary"
        )
        return getattr(self.channel, kind)(
            f"/goqueue.v1.{service}/{name}",
            request_serializer=message_factory.GetMessageClass(described.input_type).SerializeToString,
            response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
        )

    def call(self, method: str, *, timeout: float = 30, **fields: Any) -> Any:
        """A unary call."""
        try:
            return self.invoke(method)(self.request(method, **fields), timeout=timeout)
        except grpc.RpcError as error:
            raise Refused(error) from None

    def refused(self, method: str, **fields: Any) -> Refused:
        """A unary call that must be answered with a status."""
        try:
            answer = self.call(method, **fields)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {answer}")

    def publish(self, topic: str, *values: bytes, **fields: Any) -> Any:
        return self.call(
            "PublishService.PublishBatch", topic=topic, records=[Record(value=one) for one in values], **fields
        )
