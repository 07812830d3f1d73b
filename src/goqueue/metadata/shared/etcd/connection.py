"""Channels to the servers of etcd, one call at a time to one of them, and what a failed call means.

A call goes to the server that answered last. After a failure the next call goes to the next server, with the
certificates and the password that are current then: they may have been exchanged meanwhile. Streams move along: a
server that is frozen or cut off says nothing, and a watch of it would wait while others have news.

Whether a failed write was made is known only if it was never sent, or if etcd says that it refused it; all else is
`KvAmbiguous`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import msgspec

from goqueue.metadata.shared.etcd.messages import MESSAGES, message
from goqueue.metadata.shared.kv import KvAmbiguous, KvCompacted, KvError, KvUnavailable, LeaseNotFound

CALL_S_MAX = 3.0

# A server that lost its leader refuses instead of waiting for one.
_NEEDS_LEADER = ("hasleader", "true")
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # etcd refuses clients that ask more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    # Else grpc asks only once a minute while nothing else is sent, as on a watch without news.
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # So long a connection may take to be made, TLS included; one that is refused is known at once.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # Every node of a process (in tests) has connections of its own.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)
# What every server refuses alike, for it is the cluster that says so: asked again and again, as it is while there is no
# room, it would end all watches each time.
_NO_ROOM = "space exceeded"
_REFUSED_BY_ALL = (_NO_ROOM, "permission denied")
# A token of before a change of users or roles, where tokens carry the revision at which they were given (JWT). etcd
# calls that an invalid argument.
_OLD_TOKEN = "revision of auth store is old"  # noqa: S105 - what etcd says of one
# What grpc says of a call that never left this process.
_NOT_SENT = ("failed to connect", "dns resolution failed", "connections to all backends failing", "name resolution")


class Credentials(msgspec.Struct, frozen=True):
    """How this node shows who it is: contents of PEM files, and a user with a password."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    username: str = ""
    password: str = ""


class Connection:
    """The servers of one etcd cluster."""

    def __init__(self, endpoints: Sequence[str], read_credentials: Callable[[], Credentials] = Credentials) -> None:
        """`endpoints` are URLs, http or https. Needs a running loop.

        `read_credentials` may block. It is called now, and in a thread after calls that failed; it raises OSError.
        """
        self._endpoints = tuple(endpoints)
        self._read_credentials = read_credentials
        self._credentials = read_credentials()
        self._may_be_stale = False
        self._channels: dict[str, Any] = {}
        # With credentials from before.
        self._retired: list[Any] = []
        self._current = 0
        self._token: str | None = None
        # Open streams, and the server that each goes to.
        self._streams: dict[Any, str] = {}

    @property
    def endpoint(self) -> str:
        """The server that is asked next."""
        return self._endpoints[self._current]

    def next_server(self) -> None:
        """Ask the next one from now on. Streams that go to another one end."""
        self._current = (self._current + 1) % len(self._endpoints)
        for stream, endpoint in list(self._streams.items()):
            if endpoint != self.endpoint:
                stream.cancel()

    async def call(
        self, method: str, request: Any, answer: str, *, endpoint: str | None = None, timeout_s: float = CALL_S_MAX
    ) -> Any:
        """One call and its answer; raises a `KvError`."""
        asked = self._current
        await self._renew_credentials()
        try:
            metadata = await self._metadata()
            made = self._channel(endpoint or self.endpoint).unary_unary(
                f"/etcdserverpb.{method}",
                request_serializer=_serialized,
                response_deserializer=MESSAGES[answer].FromString,
            )
            return await made(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            raise self._failed(error, asked) from error

    async def stream(self, method: str, answer: str, first: Any) -> Any:
        """A stream in both directions, with its first message sent; raises a `KvError`.

        It is read within `ends_when_it_moves`.
        """
        await self._renew_credentials()
        metadata = await self._metadata()
        endpoint = self.endpoint
        opened = self._channel(endpoint).stream_stream(
            f"/etcdserverpb.{method}",
            request_serializer=_serialized,
            response_deserializer=MESSAGES[answer].FromString,
        )(metadata=metadata)
        try:
            async with asyncio.timeout(CALL_S_MAX):
                await opened.write(first)
        except grpc.aio.AioRpcError as error:
            raise self.failed(error) from error
        except asyncio.InvalidStateError as error:
            raise KvUnavailable(f"{endpoint} closed the stream") from error
        except asyncio.CancelledError:
            opened.cancel()
            raise
        except TimeoutError:
            opened.cancel()
            if endpoint == self.endpoint:
                self.next_server()
            raise KvUnavailable(f"{endpoint} opened no stream in {CALL_S_MAX} s") from None
        if endpoint != self.endpoint:
            opened.cancel()
            raise KvUnavailable("another server is asked from now on")
        # Not before: whoever writes to a stream that is cancelled before it is open waits for ever.
        self._streams[opened] = endpoint
        opened.add_done_callback(lambda ended: self._streams.pop(ended, None))
        return opened

    def failed(self, error: Any) -> KvError:
        """What a failed call or stream means; the next server is asked from now on, if another may do better."""
        return self._failed(error, self._current)

    async def close(self) -> None:
        """Close every channel."""
        channels = [*self._channels.values(), *self._retired]
        self._channels, self._retired = {}, []
        for channel in channels:
            await channel.close()

    def _failed(self, error: Any, asked: int) -> KvError:
        details = error.details() or ""
        found = meaning(error.code(), details)
        if error.code() is grpc.StatusCode.UNAUTHENTICATED or "auth token" in details or _OLD_TOKEN in details:
            self._token = None
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED):
            self._may_be_stale = True
        is_refused_by_all = any(words in details for words in _REFUSED_BY_ALL)
        if isinstance(found, KvAmbiguous | KvUnavailable) and asked == self._current and not is_refused_by_all:
            self.next_server()
        return found

    async def _renew_credentials(self) -> None:
        """After a failure: read the files again, and if they have changed connect anew with what they hold."""
        if not self._may_be_stale:
            return
        self._may_be_stale = False
        try:
            found = await asyncio.to_thread(self._read_credentials)
        except OSError:
            # A file that is just being replaced; the next failure looks again.
            return
        if found != self._credentials:
            self._credentials, self._token = found, None
            # Calls and watches that still run on them would be cancelled.
            self._retired += self._channels.values()
            self._channels = {}

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        if not self._credentials.username:
            return (_NEEDS_LEADER,)
        if self._token is None:
            wanted = message(
                "AuthenticateRequest", name=self._credentials.username, password=self._credentials.password
            )
            made = self._channel(self.endpoint).unary_unary(
                "/etcdserverpb.Auth/Authenticate",
                request_serializer=_serialized,
                response_deserializer=MESSAGES["AuthenticateResponse"].FromString,
            )
            try:
                self._token = (await made(wanted, timeout=CALL_S_MAX)).token
            except grpc.aio.AioRpcError as error:
                refused, self._may_be_stale = self.endpoint, True
                self.next_server()
                is_refusal = error.code() is not grpc.StatusCode.UNAVAILABLE
                reason = f"refuses user {self._credentials.username!r}" if is_refusal else "does not answer"
                raise KvUnavailable(f"{refused} {reason}: {error.details()}") from error
        return (_NEEDS_LEADER, ("token", self._token))

    def _channel(self, endpoint: str) -> Any:
        channel = self._channels.get(endpoint)
        if channel is None:
            scheme, _, address = endpoint.partition("://")
            if scheme == "https":
                held = self._credentials
                secure = grpc.ssl_channel_credentials(held.ca, held.key, held.certificate)
                channel = grpc.aio.secure_channel(address, secure, options=_OPTIONS)
            else:
                channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
            self._channels[endpoint] = channel
        return channel


@contextmanager
def ends_when_it_moves() -> Iterator[None]:
    """A stream that was cancelled because its server is not asked any more is one that failed.

    grpc raises what a cancelled task raises, too, and a task that was not cancelled would end by it.
    """
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise KvUnavailable("another server is asked from now on") from None


def meaning(code: Any, details: str) -> KvError:
    """What a failed call tells about its effect."""
    status, text = grpc.StatusCode, details.lower()
    if code is status.NOT_FOUND and "lease" in text:
        return LeaseNotFound(details)
    if code is status.OUT_OF_RANGE and "compacted" in text:
        return KvCompacted(details)
    if code is status.UNAVAILABLE and any(words in text for words in _NOT_SENT):
        return KvUnavailable(details)
    if _NO_ROOM in text:
        # The change that takes the store over its quota is made, and answered like those that are refused behind it.
        return KvAmbiguous(details)
    if _OLD_TOKEN in text:
        return KvUnavailable(details)
    if code in (
        status.RESOURCE_EXHAUSTED,
        status.UNAUTHENTICATED,
        status.PERMISSION_DENIED,
        status.UNIMPLEMENTED,
        status.FAILED_PRECONDITION,
    ):
        # etcd refused it before anything was written: too many requests, no rights.
        return KvUnavailable(details)
    if code is status.INVALID_ARGUMENT:
        raise ValueError(details)
    return KvAmbiguous(f"{code.name}: {details}")


def _serialized(request: Any) -> bytes:
    return bytes(request.SerializeToString())
