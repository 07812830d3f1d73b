"""The gRPC server: every service of the protos on one listener, with health and, where allowed, reflection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import message_factory
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from goqueue.errors import GoQueueError
from goqueue.rpc.services import SERVICES
from goqueue.rpc.table import ROWS
from goqueue.servers.doors import Door
from goqueue.servers.grpc import consume, publish, settling, subscribe, work
from goqueue.servers.grpc.credentials import grpc_credentials
from goqueue.servers.grpc.login import GrpcLogin
from goqueue.servers.grpc.methods import Method, Methods
from goqueue.servers.grpc.plain import plain_method
from goqueue.servers.operations import Route
from goqueue.servers.services import Services

if TYPE_CHECKING:
    from goqueue.security.service import Security

_log = logging.getLogger("goqueue.grpc")
# Calls under way at a stop get this long.
STOP_SECONDS_MAX = 2.0
_HEALTH_SECONDS = 1.0
WATCHES_MAX = 100
BY_HAND: Mapping[str, Callable[..., Any]] = {
    "PublishService.Publish": publish.publish,
    "PublishService.PublishBatch": publish.publish_batch,
    "PublishService.PublishStream": publish.publish_stream,
    "ConsumeService.Consume": consume.consume,
    "ConsumeService.Subscribe": subscribe.subscribe,
    "QueueService.Receive": settling.receive,
    "QueueService.Work": work.work,
    "AckService.BatchAck": settling.batch_ack,
}


class CannotServe(GoQueueError):
    """grpcio does not get the address."""


def service_descriptors() -> list[Any]:
    """Every service of the API."""
    return list(SERVICES.values())


class _Health(health.aio.HealthServicer):  # type: ignore[misc]
    """The standard service. It asks for no credentials, so watching must not take the calls of those who have them."""

    def __init__(self) -> None:
        super().__init__()
        self._watching = 0

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802 - the proto's
        """Tell of every change until the client goes."""
        if self._watching >= WATCHES_MAX:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{WATCHES_MAX} clients watch the health already")
        self._watching += 1
        try:
            await super().Watch(request, context)
        finally:
            self._watching -= 1


class GrpcServer:
    """Serves gRPC from `start` until `stop`; a second stop does no harm.

    The socket of a door is bound to its address and is given up for grpcio, which binds by itself.
    """

    def __init__(
        self,
        services: Services,
        doors: Sequence[Door],
        operations: Sequence[Route],
        *,
        security: Security | None = None,
    ) -> None:
        self._services = services
        self._doors = doors
        self._operations = {f"{one.method} {one.path}": one for one in operations}
        self._security = security
        self._server: Any = None
        self._health: Any = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Accept connections."""
        config = self._services.config.grpc
        self._server = server = grpc.aio.server(
            maximum_concurrent_rpcs=config.calls_max,
            options=[
                ("grpc.max_receive_message_length", config.message_bytes_max),
                # A stored message may be larger than what may be sent to us; the client's own limit decides.
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", config.streams_per_connection_max),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.keepalive_time_ms", config.keepalive_ms),
                ("grpc.keepalive_timeout_ms", config.keepalive_timeout_ms),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", config.client_ping_ms_min),
                ("grpc.max_connection_idle_ms", self._services.config.limits.idle_connection_ms),
                # Two brokers on one address would share its connections.
                ("grpc.so_reuseport", 0),
            ],
        )
        self._add_services(server)
        self._add_health(server)
        if config.reflection:
            self._add_reflection(server)
        for door in self._doors:
            self._bind(server, door)
        await server.start()
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """Let the calls under way finish, then close every connection."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(STOP_SECONDS_MAX)

    def _add_services(self, server: Any) -> None:
        methods = Methods(self._services, None if self._security is None else GrpcLogin(self._security))
        rows = {f"{row.service}.{row.method}": row for row in ROWS}
        for service in service_descriptors():
            handlers = {}
            for method in service.methods:
                name = f"{service.name}.{method.name}"
                request = message_factory.GetMessageClass(method.input_type)
                response = message_factory.GetMessageClass(method.output_type)
                answer = BY_HAND.get(name) or plain_method(rows[name], self._operations, response)
                handlers[method.name] = methods.handler(Method(method, request, response, answer))
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    def _add_health(self, server: Any) -> None:
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)

    def _add_reflection(self, server: Any) -> None:
        from grpc_reflection.v1alpha import reflection

        names = [one.full_name for one in service_descriptors()]
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server)

    def _bind(self, server: Any, door: Door) -> None:
        host, port = door.socket.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        door.socket.close()
        try:
            if door.files is None:
                server.add_insecure_port(address)
            else:
                server.add_secure_port(address, grpc_credentials(door.files))
        except RuntimeError as error:
            raise CannotServe(f"cannot listen on {address}: the address is in use") from error

    async def _watch(self) -> None:
        """Keep the health that clients ask for, or watch, as the node's own checks have it."""
        names = ["", *(one.full_name for one in service_descriptors())]
        shown = None
        while True:
            # Listeners are the node's last check to pass, and this is one of them.
            problems = [one for one in self._services.checks() if one.problem is not None and one.name != "listeners"]
            serving = health_pb2.HealthCheckResponse.NOT_SERVING if problems else health_pb2.HealthCheckResponse.SERVING
            if serving != shown:
                for name in names:
                    await self._health.set(name, serving)
                shown = serving
            await asyncio.sleep(_HEALTH_SECONDS)
