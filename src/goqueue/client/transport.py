"""One pooled HTTP connection to a broker: encode, send, retry where safe, decode, raise."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from goqueue.client.errors import BrokerUnreachable, RequestRefused
from goqueue.client.retry import RetryPolicy

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_DOT = "%2E"
_REPEATABLE_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})


class Transport:
    """Sends requests to one server. Safe to share between producers and consumers of one loop."""

    def __init__(
        self,
        server: str,
        *,
        timeout_ms: int = 30_000,
        retry: RetryPolicy | None = None,
        api_key: str | None = None,
        connections_max: int = 100,
    ) -> None:
        self.server = _address(server)
        self._timeout_ms = timeout_ms
        self._retry = retry or RetryPolicy()
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._connections_max = connections_max
        self._session: aiohttp.ClientSession | None = None

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
    ) -> T:
        """Send one request and decode its reply. `wait_ms` is added where the server may hold the answer back."""
        if repeatable is None:
            repeatable = method in _REPEATABLE_METHODS
        data = None if body is None else _encode(body)
        attempt = 0
        while True:
            attempt += 1
            retry_after: float | None = None
            try:
                status, content, retry_after = await self._once(method, path, data, params, wait_ms)
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as problem:
                if not self._retry.may_retry(attempt, repeatable=repeatable, status=None):
                    raise BrokerUnreachable(self.server, str(problem) or type(problem).__name__) from problem
            else:
                if status < 300:
                    return msgspec.json.decode(content, type=reply)
                if not self._retry.may_retry(attempt, repeatable=repeatable, status=status):
                    raise refusal(status, content)
            # Jitter needs no secrecy: it only keeps many clients from knocking at once.
            await asyncio.sleep(self._retry.delay_ms(attempt, random.random(), retry_after) / 1000)  # noqa: S311

    async def lines(self, path: str, params: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The lines of a streaming read, until either side ends it."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout_ms / 1000)
        try:
            async with self._open().get(self._url(path), params=params, timeout=timeout) as response:
                if response.status >= 300:
                    raise refusal(response.status, await response.read())
                async for line in response.content:
                    if line.strip():
                        yield line
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as problem:
            raise BrokerUnreachable(self.server, str(problem)) from problem

    async def close(self) -> None:
        """Close the pooled connections. A second close does no harm."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _once(
        self, method: str, path: str, data: bytes | None, params: Mapping[str, str] | None, wait_ms: int
    ) -> tuple[int, bytes, float | None]:
        timeout = aiohttp.ClientTimeout(total=(self._timeout_ms + wait_ms) / 1000)
        headers = {"Content-Type": "application/json"} if data is not None else None
        async with self._open().request(
            method, self._url(path), data=data, params=params, headers=headers, timeout=timeout
        ) as response:
            asked = response.headers.get("Retry-After")
            seconds = float(asked) if asked is not None and asked.isdigit() else None
            return response.status, await response.read(), seconds

    def _url(self, path: str) -> str | URL:
        # Dots that `quoted` has hidden are to stay hidden.
        return URL(self.server + path, encoded=True) if _DOT in path else self.server + path

    def _open(self) -> aiohttp.ClientSession:
        # Made on first use, because a session belongs to the loop that runs then.
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=self._connections_max)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        return self._session


def quoted(name: str) -> str:
    """A name as one step of a path. A group may be called `a/b?c`, and a request for it must reach no other."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", _DOT)


def _address(server: str) -> str:
    """The server with its scheme: `host:port` alone is meant often enough."""
    address = (server if "://" in server else f"http://{server}").rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{server!r} is no address of the HTTP API: give one such as http://127.0.0.1:8080")
    return address


def refusal(status: int, content: bytes) -> RequestRefused:
    """The error that a reply carries, whatever stands between us and the broker wrote it."""
    try:
        body: Any = msgspec.json.decode(content)
        error = body["error"]
        return RequestRefused(status, error["code"], error["message"], error.get("field"), error.get("hint"))
    except (msgspec.DecodeError, KeyError, TypeError):
        shown = content[:200].decode(errors="replace")
        return RequestRefused(status, "unexpected_reply", f"the server answered {status}: {shown}")
