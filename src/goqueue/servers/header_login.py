"""Who sends a request, by its headers: an API key, a token, user and password; else by its client certificate.

Credentials are read from headers only. A query string ends up in logs and histories, so none is read from there.
"""

from __future__ import annotations

import base64
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from goqueue.errors import AuthenticationFailed
from goqueue.security.authentication import KEY_PREFIX, Authenticator, Identity

_SEEN_MAX = 10_000
_BEARER = "Bearer "
_BEARER_KEY = _BEARER + KEY_PREFIX


class HeaderLogin:
    """Turns headers into an identity. The audit log has one line for a connection, not one for each request."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._seen: OrderedDict[object, str] = OrderedDict()

    def by_key(self, header: Callable[[str], str | None], address: str, peer: object) -> Identity | None:
        """The identity of a good API key, without a wait; None means to ask `identity`, which says what is wrong.

        Most requests bring a good key, and a chain of coroutines costs more than to check it.
        """
        shown = header("authorization")
        if shown is None or not shown.startswith(_BEARER_KEY) or not shown.isascii() or header("x-api-key") is not None:
            return None
        try:
            found = self._authenticator.of_key(shown[len(_BEARER) :])
        except AuthenticationFailed:
            return None
        if self._seen.get(peer) != found.principal:
            self._remember(peer, found, address)
        return found

    async def identity(
        self, header: Callable[[str], str | None], certificate: Mapping[str, Any] | None, address: str, peer: object
    ) -> Identity | None:
        """Who it is; None if it does not say. `peer` tells connections apart."""
        found = await self._found(header, certificate, address)
        if found is not None and self._seen.get(peer) != found.principal:
            self._remember(peer, found, address)
        return found

    def _remember(self, peer: object, found: Identity, address: str) -> None:
        self._seen[peer] = found.principal
        if len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)
        self._authenticator.logged_in(found, address)

    async def _found(
        self, header: Callable[[str], str | None], certificate: Mapping[str, Any] | None, address: str
    ) -> Identity | None:
        shown, key = header("authorization") or "", header("x-api-key")
        if not (shown.isascii() and (key or "").isascii()):
            raise AuthenticationFailed("the credentials are not ASCII")
        scheme, _, value = shown.partition(" ")
        scheme, value = scheme.lower(), value.strip()
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
        if shown:
            raise AuthenticationFailed("unknown scheme")
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
