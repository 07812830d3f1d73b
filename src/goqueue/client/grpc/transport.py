"""One gRPC channel to a broker: the calls of the client as methods, with the retries and errors of HTTP."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, get_origin
from urllib.parse import urlsplit

import grpc
import msgspec
from google.rpc import error_details_pb2, status_pb2

from goqueue.client.credentials import Credentials
from goqueue.client.durations import Duration
from goqueue.client.errors import BrokerUnreachable, InvalidArgument, RequestRefused, refused
from goqueue.client.grpc.fields import convert, json_message, plain_of, request_of, wire_message
from goqueue.client.grpc.routes import Method, find, method_of
from goqueue.client.producing.outgoing import PublishReply
from goqueue.client.retry import MAY_PASS, RetryPolicy
from goqueue.client.transport import OpenedSocket, Transport
from goqueue.client.types import LaneReadReply, PollReply, ReadReply, ReceiveReply, SettleReply
from goqueue.errors import wire_of_code
from goqueue.rpc.table import Row

T = TypeVar("T")
SCHEME, SECURE_SCHEME = "grpc", "grpcs"
_DETAILS = "grpc-status-details-bin"
_REPEATABLE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_encode = msgspec.json.Encoder().encode
_OPTIONS = (
    # A broker that comes back is found at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Two clients of one process have connections of their own, as over HTTP.
    ("grpc.use_local_subchannel_pool", 1),
)
_CONSUME = method_of("ConsumeService", "Consume", Row("ConsumeService", "Consume", ""))
# What a status of grpcio itself is over HTTP; ours name their code in the details.
_HTTP = {
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
}
_LOST = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
# Answers whose messages are taken as they are, without a detour through text.
_WITH_MESSAGES = (ReceiveReply, PollReply, ReadReply, LaneReadReply)


class _Shared:
    """The channel to the address in use, and how many calls are under way on it."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel
        self.methods: dict[str, Any] = {}
        self._calls = 0
        self._is_retired = False

    async def __aenter__(self) -> Self:
        self._calls += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._calls -= 1
        await self._close_unused()

    @property
    def is_used(self) -> bool:
        """Whether a call is under way on it."""
        return self._calls > 0

    async def retire(self) -> None:
        """Close it with its last call: to close it now would cancel calls that another broker never sees."""
        self._is_retired = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._is_retired and not self._calls:
            await self.channel.close()


class GrpcTransport(Transport):
    """Sends the client's requests over gRPC. Safe to share between producers and consumers of one loop."""

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        timeout: Duration = 30,
        retry: RetryPolicy | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__("http://unused", timeout=timeout, retry=retry, credentials=credentials)
        self._servers = grpc_addresses(server)
        self._metadata = tuple((name.lower(), value) for name, value in self._credentials.headers().items())
        self._shared: _Shared | None = None
        # Those to other addresses on which calls are still under way.
        self._retired: set[_Shared] = set()

    async def call(
        self,
        method: str,
        path: str,
        reply: type[T],
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        wait_ms: int = 0,
        on_lost: Callable[[], None] | None = None,
    ) -> T:
        """Call the method that stands for the operation; parameters are those of HTTP."""
        if repeatable is None:
            repeatable = method in _REPEATABLE_METHODS
        found, named = find(method, path)
        given: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
        request = request_of(found.request, found.row.method, {**(params or {}), **given, **named})
        attempt = 0
        while True:
            attempt += 1
            retry_after: float | None = None
            tried = self.server
            try:
                answer = await self._once(found, request, wait_ms)
            except grpc.aio.AioRpcError as problem:
                refusal = refusal_of(problem)
                if refusal is None:
                    await self._move_on(tried)
                    never_sent = "failed to connect" in (problem.details() or "")
                    if not never_sent and on_lost is not None:
                        on_lost()
                    if not self.retry.may_retry(attempt, repeatable=repeatable or never_sent, status=None):
                        raise BrokerUnreachable(tried, problem.details() or problem.code().name) from problem
                else:
                    if not self.retry.may_retry(attempt, repeatable=repeatable, status=refusal.status):
                        raise refusal from None
                    if refusal.status in MAY_PASS:
                        await self._move_on(tried)
                    retry_after = 1.0 if refusal.status in {429, 503} else None
            else:
                return _reply(found, answer, reply)
            # Jitter needs no secrecy: it only keeps many clients from knocking at once.
            await asyncio.sleep(self.retry.delay_ms(attempt, random.random(), retry_after) / 1000)  # noqa: S311

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The messages of a streaming read as lines of JSON, until either side ends it."""
        topic = path.split("/")[2]
        named: dict[str, Any] = {"topic": topic, "start_position": params.get("from")}
        if "limit" in params:
            named["limit"] = int(params["limit"])
        if "partition" in params:
            named["partitions"] = [int(params["partition"])]
        request = request_of(_CONSUME.request, "Consume", named)
        async with self._open_channel() as shared:
            call = shared.channel.unary_stream(
                _CONSUME.path, _CONSUME.request.SerializeToString, _CONSUME.response.FromString
            )(request, metadata=self._metadata)
            try:
                async for answer in call:
                    for message in answer.batch.messages:
                        yield _encode(json_message(message))
            except grpc.aio.AioRpcError as problem:
                raise refusal_of(problem) or BrokerUnreachable(self.server, problem.details() or "") from problem
            finally:
                call.cancel()

    async def open_socket(self, path: str, protocol: str) -> OpenedSocket:  # noqa: ARG002
        """None: queues are received from and settled by calls, which share one connection anyway."""
        return OpenedSocket(None, is_unknown=True)

    async def close(self) -> None:
        """Close the channel. A second close does no harm."""
        self._closed = True
        shared, self._shared = self._shared, None
        # Also calls that another broker has not answered yet must not outlive their client.
        for one in [*self._retired, *([shared] if shared is not None else [])]:
            await one.channel.close()

    async def _once(self, method: Method, request: Any, wait_ms: int) -> Any:  # type: ignore[override]
        async with self._open_channel() as shared:
            call = shared.methods.get(method.path)
            if call is None:
                call = shared.methods[method.path] = shared.channel.unary_unary(
                    method.path, method.request.SerializeToString, method.response.FromString
                )
            return await call(request, timeout=self.timeout_s + wait_ms / 1000, metadata=self._metadata)

    async def _move_on(self, tried: str) -> None:
        """Use the next address, if there are several, unless another call has moved on from this one."""
        if len(self._servers) > 1 and tried == self.server:
            self.next_server(tried)
            shared, self._shared = self._shared, None
            if shared is not None:
                self._retired = {one for one in self._retired if one.is_used}
                self._retired.add(shared)
                await shared.retire()

    def _open_channel(self) -> _Shared:
        self.check_open()
        # Made on first use, because a channel belongs to the loop that runs then.
        if self._shared is None:
            scheme, _, target = self.server.partition("://")
            self._shared = _Shared(
                grpc.aio.secure_channel(target, channel_credentials(self._credentials), options=_OPTIONS)
                if scheme == SECURE_SCHEME
                else grpc.aio.insecure_channel(target, options=_OPTIONS)
            )
        return self._shared


def grpc_addresses(server: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses that were given, as a list or separated by commas."""
    given = server.split(",") if isinstance(server, str) else list(server)
    found = tuple(dict.fromkeys(one.strip().rstrip("/") for one in given if one.strip()))
    for one in found:
        parts = urlsplit(one)
        if parts.scheme not in {SCHEME, SECURE_SCHEME} or not parts.hostname or parts.path or parts.port is None:
            raise InvalidArgument(
                f"{one!r} is not an address of the gRPC API",
                "give one such as grpc://127.0.0.1:9000, or grpcs:// for TLS",
            )
    return found


def channel_credentials(credentials: Credentials) -> Any:
    """The authority and the own certificate of a TLS connection, from their files."""
    try:
        ca = Path(credentials.ca).read_bytes() if credentials.ca else None
        own = Path(credentials.certificate).read_bytes() if credentials.certificate else None
    except OSError as problem:
        raise InvalidArgument(f"certificates cannot be read: {problem}", "give PEM files") from problem
    # One file holds the certificate and its key, as for HTTPS.
    return grpc.ssl_channel_credentials(root_certificates=ca, private_key=own, certificate_chain=own)


def refusal_of(problem: Any) -> RequestRefused | None:
    """The broker's error; None if no answer of a broker came back."""
    metadata = dict(problem.trailing_metadata() or ())
    if _DETAILS in metadata:
        status = status_pb2.Status.FromString(metadata[_DETAILS])
        for packed in status.details:
            info = error_details_pb2.ErrorInfo()
            if packed.Unpack(info):
                return _refused(info, status.message)
    if problem.code() in _LOST:
        return None
    error = {"code": "unexpected_reply", "message": f"{problem.code().name}: {problem.details()}"}
    return refused(_HTTP.get(problem.code(), 500), error)


def _refused(info: Any, message: str) -> RequestRefused:
    code = info.reason.lower()
    hint = info.metadata.get("hint")
    if hint:
        message = message.removesuffix(f" ({hint})")
    wire = wire_of_code(code)
    error = {"code": code, "message": message, "field": info.metadata.get("field") or None, "hint": hint or None}
    return refused(500 if wire is None else wire.http, error)


def _reply(method: Method, answer: Any, kind: Any) -> Any:
    if kind in _WITH_MESSAGES:
        messages = [wire_message(one) for one in answer.messages]
        if kind is ReceiveReply:
            return ReceiveReply(messages)
        if kind is ReadReply:
            return ReadReply(messages, answer.next_offset, answer.high_watermark)
        if kind is LaneReadReply:
            return LaneReadReply(messages, dict(answer.next_offsets))
        offsets: dict[str, dict[str, int]] = {}
        for one in answer.next_offsets:
            offsets.setdefault(one.topic, {})[str(one.partition)] = one.offset
        return PollReply(messages, offsets, answer.generation)
    if kind is int or get_origin(kind) is list:
        # The response has one field, which is the answer.
        return convert(next(iter(plain_of(answer, nulls=False).values())), kind)
    if method.row.wrap is not None:
        answer = getattr(answer, method.row.wrap)
    # A mapping has all that may be there, as attributes; a struct has its own defaults.
    plain = plain_of(answer, nulls=not issubclass(get_origin(kind) or kind, msgspec.Struct))
    for ours, theirs in method.row.renamed.items():
        plain[theirs] = plain.pop(ours)
    if kind is SettleReply:
        plain = {**plain, "results": [_with_status(one) for one in plain["results"]]}
    if kind is PublishReply:
        plain = {
            "results": [_with_status(one) for one in plain["results"]],
            "acks": plain.get("ack_mode", "leader"),
            "durability": plain.get("durability") or None,
            "replicas": plain.get("replicas") or None,
        }
    return convert(plain, kind)


def _with_status(result: dict[str, Any]) -> dict[str, Any]:
    if "error" in result:
        wire = wire_of_code(result["error"]["code"])
        result["status"] = 500 if wire is None else wire.http
    return result
