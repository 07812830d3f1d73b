"""Pooled HTTP connections to a broker: encode, send, retry where safe, decode, raise.

Of several addresses one is in use; when it does not answer, the next one is tried.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from goqueue.client.credentials import Credentials
from goqueue.client.durations import Duration, seconds_of
from goqueue.client.errors import BrokerUnreachable, ClientClosed, InvalidArgument, RequestRefused, refused
from goqueue.client.identity import client_version, default_client_id
from goqueue.client.retry import MAY_PASS, RetryPolicy
from goqueue.client.sockets import Sockets

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_DOT = "%2E"
_LARGE_BODY_BYTES = 512 * 1024
# Pings on a WebSocket: a broker that answers none is gone.
_HEARTBEAT_S = 30.0
# Answers of a broker, or of a proxy, that has no WebSockets.
_NO_SUCH_ROUTE = frozenset({200, 400, 404, 405, 426, 501})
_REPEATABLE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})


class OpenedSocket(NamedTuple):
    """A WebSocket, or none; `is_unknown` where the broker will not have one later either."""

    socket: aiohttp.ClientWebSocketResponse | None
    is_unknown: bool = False


class Transport:
    """Sends requests to one broker. Safe to share between producers and consumers of one loop."""

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        timeout: Duration = 30,
        retry: RetryPolicy | None = None,
        credentials: Credentials | None = None,
        connections_max: int = 100,
    ) -> None:
        self._servers = addresses(server)
        self.timeout_s = seconds_of(timeout, "timeout")
        self.retry = retry or RetryPolicy()
        self._credentials = credentials or Credentials()
        # Stories, logs and quotas of the broker name a program by what it calls itself.
        names = {"User-Agent": f"goqueue-python/{client_version()}", "X-Client-Id": default_client_id()}
        self._headers = {**names, **self._credentials.headers()}
        self._connections_max = connections_max
        self._sockets = Sockets()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def server(self) -> str:
        """The address that is in use."""
        return self._servers[0]

    def check_open(self) -> None:
        """Refuse what comes after the end."""
        if self._closed:
            raise ClientClosed("the client is closed: open another one with connect()")

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
        """Send one request and decode its reply. `wait_ms` is added where the server may hold the answer back.

        `on_lost` is called when an attempt may have reached the broker and its answer was lost.
        """
        if repeatable is None:
            repeatable = method in _REPEATABLE_METHODS
        data = None if body is None else _encode(body)
        attempt = 0
        while True:
            attempt += 1
            retry_after: float | None = None
            tried = self.server
            try:
                status, content, retry_after = await self._once(method, path, data, params, wait_ms)
            except (aiohttp.ClientError, TimeoutError) as problem:
                self.next_server(tried)
                never_sent = isinstance(problem, aiohttp.ClientConnectorError)
                if not never_sent and on_lost is not None:
                    on_lost()
                if not self.retry.may_retry(attempt, repeatable=repeatable or never_sent, status=None):
                    raise BrokerUnreachable(tried, reason_of(problem)) from problem
            else:
                if status < 300:
                    return msgspec.json.decode(content, type=reply)
                if not self.retry.may_retry(attempt, repeatable=repeatable, status=status):
                    raise refusal(status, content)
                if status in MAY_PASS:
                    self.next_server(tried)
            # Jitter needs no secrecy: it only keeps many clients from knocking at once.
            await asyncio.sleep(self.retry.delay_ms(attempt, random.random(), retry_after) / 1000)  # noqa: S311

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a streaming read, until either side ends it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout_s)
        try:
            async with self._open().get(self._url(path), params=params, timeout=timeout) as response:
                if response.status >= 300:
                    raise refusal(response.status, await response.read())
                async for line in response.content:
                    if line.strip():
                        yield line
        except aiohttp.ClientError as problem:
            raise BrokerUnreachable(self.server, reason_of(problem)) from problem

    async def open_socket(self, path: str, protocol: str) -> OpenedSocket:
        """A WebSocket to the address in use, none where it is refused. ConnectionError where nothing answers."""
        try:
            socket = await self._open().ws_connect(
                self.server + path, protocols=(protocol,), heartbeat=_HEARTBEAT_S, max_msg_size=0, compress=0
            )
        except aiohttp.WSServerHandshakeError as refused:
            return OpenedSocket(None, is_unknown=refused.status in _NO_SUCH_ROUTE)
        except (aiohttp.ClientError, TimeoutError) as problem:
            raise ConnectionError(reason_of(problem)) from problem
        return OpenedSocket(socket)

    async def close(self) -> None:
        """Close the pooled connections. A second close does no harm."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await self._sockets.all_closed()

    async def _once(
        self, method: str, path: str, data: bytes | None, params: Mapping[str, str] | None, wait_ms: int
    ) -> tuple[int, bytes, float | None]:
        timeout = aiohttp.ClientTimeout(total=self.timeout_s + wait_ms / 1000)
        headers = {"Content-Type": "application/json"} if data is not None else None
        # A large body is written in pieces, so that it does not hold up the loop.
        content = io.BytesIO(data) if data is not None and len(data) > _LARGE_BODY_BYTES else data
        async with self._open().request(
            method, self._url(path), data=content, params=params, headers=headers, timeout=timeout
        ) as response:
            asked = response.headers.get("Retry-After")
            seconds = float(asked) if asked is not None and asked.isdigit() else None
            return response.status, await response.read(), seconds

    def _url(self, path: str) -> str | URL:
        # Dots that `quoted` has hidden are to stay hidden.
        return URL(self.server + path, encoded=True) if _DOT in path else self.server + path

    def next_server(self, tried: str) -> None:
        """Use the next address: `tried` does not answer. Of many requests that fail together, one moves on."""
        if tried == self.server:
            self._servers = (*self._servers[1:], self._servers[0])

    def _open(self) -> aiohttp.ClientSession:
        self.check_open()
        # Made on first use, because a session belongs to the loop that runs then.
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections_max, ssl=self._credentials.tls(), socket_factory=self._sockets.make
            )
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._session


def quoted(name: str) -> str:
    """A name as one step of a path. A group may be called `a/b?c`, and a request for it must reach no other."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", _DOT)


def reason_of(problem: Exception) -> str:
    """Why a request had no answer, without what the caller knows already: the address and how it was written."""
    if isinstance(problem, aiohttp.ClientConnectorError) and not isinstance(problem, aiohttp.ClientSSLError):
        number = problem.os_error.errno
        return os.strerror(number).lower() if number and number > 0 else str(problem.os_error.strerror)
    return str(problem) or type(problem).__name__


def addresses(server: str | Sequence[str]) -> tuple[str, ...]:
    """The addresses that were given, as a list or separated by commas."""
    given = server.split(",") if isinstance(server, str) else list(server)
    found = tuple(dict.fromkeys(_address(one) for one in given if one.strip()))
    if not found:
        raise InvalidArgument("there is no address of a broker", "give one such as http://127.0.0.1:8080")
    return found


def _address(server: str) -> str:
    """The server with its scheme: `host:port` alone is meant often enough."""
    stripped = server.strip()
    address = (stripped if "://" in stripped else f"http://{stripped}").rstrip("/")
    try:
        url = URL(address)
        is_good = url.scheme in {"http", "https"} and bool(url.host)
    except ValueError:
        is_good = False
    if not is_good:
        raise InvalidArgument(f"{server!r} is not an address of the HTTP API", "give one such as http://127.0.0.1:8080")
    return address


def refusal(status: int, content: bytes) -> RequestRefused:
    """The error that a reply carries, whatever stands between us and the broker wrote it."""
    body: Any = None
    try:
        body = msgspec.json.decode(content)
        # The schema registry's errors stand by themselves, as its API has them.
        return refused(status, body if "error_code" in body else body["error"])
    except (msgspec.DecodeError, KeyError, TypeError):
        shown = content[:200].decode(errors="replace")
        error = {"code": "unexpected_reply", "message": f"the server answered {status}: {shown}"}
        problem = refused(status, error)
        problem.answer = body
        return problem
