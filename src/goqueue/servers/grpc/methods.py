"""How a gRPC method becomes a call of ours: caller, timing, and errors as statuses, in one place for all methods."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from goqueue.errors import AuthenticationFailed, GoQueueError, MalformedRequest
from goqueue.servers.grpc.callers import caller_of
from goqueue.servers.grpc.refusals import names_in, refuse
from goqueue.servers.services import Services

if TYPE_CHECKING:
    from goqueue.servers.grpc.login import GrpcLogin

_log = logging.getLogger("goqueue.grpc")

# A method with one request and one response.
Unary = Callable[[Services, Any, Any], Awaitable[Any]]
# A method that writes to its context, and reads from it when the client streams.
ServerStream = Callable[[Services, Any, Any], Awaitable[None]]
BothStream = Callable[[Services, Any], Awaitable[None]]


class Method(NamedTuple):
    """A method as a proto declares it, and what answers it."""

    descriptor: Any
    request: Any
    response: Any
    answer: Any


async def read(context: Any) -> Any:
    """The next request of a stream, or `grpc.aio.EOF`."""
    return _checked(await context.read())


def _decoder(kind: Any) -> Callable[[bytes], Any]:
    """Bytes to a request. What cannot be read is handed on as an error, for grpcio would call it ours."""
    parse, name = kind.FromString, kind.DESCRIPTOR.full_name

    def decode(raw: bytes) -> Any:
        try:
            return parse(raw)
        except DecodeError:
            return MalformedRequest(f"these {len(raw)} bytes are not a {name}", hint="use the current protos")

    return decode


def _checked(request: Any) -> Any:
    if isinstance(request, MalformedRequest):
        raise request
    return request


class Methods:
    """Makes grpcio's handlers."""

    def __init__(self, services: Services, login: GrpcLogin | None = None) -> None:
        self._services = services
        self._login = login
        numbers = itertools.count(1)
        started = f"{services.identity.started_ms:x}"
        self._new_request_id: Callable[[], str] = lambda: f"{started}-g{next(numbers):x}"

    def handler(self, method: Method) -> Any:
        """The handler of one method."""
        reads_many, writes_many = method.descriptor.client_streaming, method.descriptor.server_streaming
        codecs = {
            "request_deserializer": _decoder(method.request),
            "response_serializer": method.response.SerializeToString,
        }
        if reads_many and writes_many:
            return grpc.stream_stream_rpc_method_handler(self._both_stream(method), **codecs)
        if writes_many:
            return grpc.unary_stream_rpc_method_handler(self._server_stream(method), **codecs)
        return grpc.unary_unary_rpc_method_handler(self._unary(method), **codecs)

    def _unary(self, method: Method) -> Any:
        times = self._services.request_times.of("grpc", method.descriptor.full_name)
        names, answer = names_in(method.request), method.answer
        loop_time = asyncio.get_running_loop().time

        async def handle(request: Any, context: Any) -> Any:
            started = loop_time()
            try:
                return await answer(await self._bound(context), _checked(request), context)
            except GoQueueError as error:
                return await refuse(context, error, names)
            except asyncio.CancelledError:
                return await self._cancelled(context)
            except grpc.aio.AbortError:
                raise
            except Exception:  # noqa: BLE001 - the last line of defence of a call
                return await self._failed(context, method)
            finally:
                times.add(loop_time() - started)

        return handle

    def _server_stream(self, method: Method) -> Any:
        names, answer = names_in(method.request), method.answer

        async def handle(request: Any, context: Any) -> None:
            try:
                await answer(await self._bound(context), _checked(request), context)
            except GoQueueError as error:
                await refuse(context, error, names)
            except asyncio.CancelledError:
                await self._cancelled(context)
            except grpc.aio.AbortError:
                raise
            except Exception:  # noqa: BLE001 - the last line of defence of a call
                await self._failed(context, method)

        return handle

    def _both_stream(self, method: Method) -> Any:
        names, answer = names_in(method.request), method.answer

        async def handle(_requests: Any, context: Any) -> None:
            try:
                await answer(await self._bound(context), context)
            except GoQueueError as error:
                await refuse(context, error, names)
            except asyncio.CancelledError:
                await self._cancelled(context)
            except grpc.aio.AbortError:
                raise
            except Exception:  # noqa: BLE001 - the last line of defence of a call
                await self._failed(context, method)

        return handle

    async def _bound(self, context: Any) -> Services:
        """The services as this caller may use them."""
        caller = caller_of(context)
        if self._login is None:
            return self._services.for_caller(caller)
        return await self._login.enter(self._services, context, caller)

    async def _cancelled(self, context: Any) -> Any:
        """Refuse a call whose caller lost an access while it was under way; else it stays cancelled."""
        if self._login is None or not self._login.has_ended():
            raise asyncio.CancelledError
        return await refuse(context, AuthenticationFailed("the credential or an access was revoked"), frozenset())

    async def _failed(self, context: Any, method: Method) -> Any:
        # Our own mistake: the caller learns the request id, the log has the rest.
        request_id = self._new_request_id()
        _log.exception("call failed", extra={"request_id": request_id, "method": method.descriptor.full_name})
        error = GoQueueError(f"something went wrong here; the broker's log has it under {request_id}")
        return await refuse(context, error, frozenset())
