"""Who sends an HTTP request: an API key, a token, user and password, or a client certificate.

Credentials are read from headers only. A query string ends up in logs and histories, so none is read from there.
"""

from __future__ import annotations

import asyncio
import base64
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from goqueue.errors import AuthenticationFailed, AuthenticationRequired
from goqueue.security.authentication import KEY_PREFIX, Identity
from goqueue.servers.access.doors import DoorNeed, is_open

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.security.service import Security
    from goqueue.security.store import Losers

_REVOKED_SECONDS = 0.1
_SEEN_MAX = 10_000


class HttpLogin:
    """Turns the headers of a request into a principal, and ends requests of principals that lost an access."""

    def __init__(self, security: Security) -> None:
        self._security = security
        self._authenticator = security.authenticator
        self._open_routes = frozenset(security.config.open_routes)
        # By identity: requests compare like mappings.
        self._in_flight: dict[int, tuple[web.Request, str]] = {}
        # Who was last seen on a connection: the audit log has one line for it, not one for each request.
        self._seen: OrderedDict[object, str] = OrderedDict()
        security.store.subscribe(self._revoke)

    async def identified(self, request: web.Request, caller: Caller, needs: DoorNeed | None) -> Caller:
        """The caller with its principal; raises if it must authenticate and did not."""
        identity = await self._identity(request, caller.address)
        if identity is None:
            if needs is not None and is_open(needs, self._open_routes):
                return caller
            # Not slowed: browsers and clients ask without credentials first.
            raise AuthenticationRequired
        self._note(request, identity, caller.address)
        if identity.expires_ms:
            request["goqueue.expires_ms"] = identity.expires_ms
        return msgspec.structs.replace(caller, principal=identity.principal)

    async def _identity(self, request: web.Request, address: str) -> Identity | None:
        header = request.headers.get("Authorization", "")
        scheme, _, value = header.partition(" ")
        scheme, value = scheme.lower(), value.strip()
        key = request.headers.get("X-API-Key")
        if key is None and scheme == "bearer" and value.startswith(KEY_PREFIX):
            key = value
        if key is not None:
            return await self._by_key(key, address)
        if scheme == "bearer":
            return await self._authenticator.checked(
                address, "token", "", lambda: self._authenticator.of_token(value), is_quiet=True
            )
        if scheme == "basic":
            return await self._by_password(value, address)
        if header:
            raise AuthenticationFailed("unknown scheme")
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return self._authenticator.of_certificate(certificate) if certificate else None

    async def _by_key(self, key: str, address: str) -> Identity:
        try:
            return self._authenticator.of_key(key)
        except AuthenticationFailed as error:
            await self._authenticator.refuse(address, "api_key", key.rpartition("_")[0][:40], error.reason)
            raise

    async def _by_password(self, value: str, address: str) -> Identity:
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (Base64Error, UnicodeDecodeError):
            raise AuthenticationFailed("not a header of basic authentication") from None
        if not colon:
            raise AuthenticationFailed("not a header of basic authentication")
        known = self._authenticator.kept(user, password)
        if known is not None:
            return known
        return await self._authenticator.checked(
            address, "basic", user, lambda: self._authenticator.of_password(user, password, "basic"), is_quiet=True
        )

    def _note(self, request: web.Request, identity: Identity, address: str) -> None:
        transport = request.transport
        peer = transport.get_extra_info("peername") if transport is not None else None
        if self._seen.get(peer) != identity.principal:
            self._seen[peer] = identity.principal
            if len(self._seen) > _SEEN_MAX:
                self._seen.popitem(last=False)
            self._authenticator.logged_in(identity, address)

    # --- requests under way -------------------------------------------------------------

    @contextmanager
    def in_flight(self, request: web.Request, caller: Caller) -> Iterator[None]:
        """While it lasts, the request ends when its principal loses an access or its credential expires."""
        self._in_flight[id(request)] = request, caller.principal
        expires_ms = request.get("goqueue.expires_ms")
        timer = None
        if expires_ms:
            seconds = (expires_ms - self._security.clock.now_ms()) / 1000
            timer = asyncio.get_running_loop().call_later(max(seconds, 0), _end, request)
        try:
            yield
        finally:
            del self._in_flight[id(request)]
            if timer is not None:
                timer.cancel()

    def _revoke(self, principals: Losers) -> None:
        loop = asyncio.get_running_loop()
        for request, principal in self._in_flight.values():
            if principals is None or principal in principals:
                # Not at once: it may be the request that made the change.
                loop.call_later(_REVOKED_SECONDS, self._end_if_under_way, request)

    def _end_if_under_way(self, request: web.Request) -> None:
        if id(request) in self._in_flight:
            _end(request)


def _end(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
