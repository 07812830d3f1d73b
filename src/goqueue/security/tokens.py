"""Tokens (JWT) of an issuer that we trust: checked against its published keys (JWKS).

Only signatures by a private key count: `none` and shared secrets (HS256) are never accepted. A key that is not known
makes the set of keys be read again, but not more often than every 30 seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import jwt

from goqueue.clock import Clock
from goqueue.errors import AuthenticationFailed

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_TOKEN_CHARS_MAX = 16 * 1024
_REFRESH_MS_MIN = 30_000
_LEEWAY_SECONDS = 10
_log = logging.getLogger("goqueue.security")


class Token(NamedTuple):
    """A token that was checked: who it is for, and until when."""

    name: str
    expires_ms: int


class TokenVerifier:
    """Checks tokens of one issuer."""

    def __init__(
        self,
        load_keys: Callable[[], Awaitable[bytes]],
        *,
        issuer: str,
        audience: str,
        claim: str,
        refresh_ms: int,
        clock: Clock,
    ) -> None:
        self._load_keys = load_keys
        self._issuer = issuer
        self._audience = audience
        self._claim = claim
        self._refresh_ms = refresh_ms
        self._clock = clock
        self._keys: dict[str, Any] = {}
        self._loaded_ms = -(10**15)
        self._tried_ms = -(10**15)
        self._turn = asyncio.Lock()

    async def verify(self, text: str) -> Token:
        """Who the token is for; raises `AuthenticationFailed`."""
        if len(text) > _TOKEN_CHARS_MAX:
            raise AuthenticationFailed("the token is too long")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            raise AuthenticationFailed(f"not a token: {error}") from None
        if header.get("alg") not in ALGORITHMS:
            raise AuthenticationFailed(f"algorithm {str(header.get('alg'))[:20]!r} is not accepted")
        key = await self._key(str(header.get("kid", "")))
        try:
            claims = jwt.decode(
                text,
                key=key.key,
                # The key says by which algorithm it signs; the token does not get to choose.
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud", self._claim], "verify_exp": False, "verify_nbf": False},
            )
            expires_ms, valid_from_ms = int(claims["exp"]) * 1000, int(claims.get("nbf", 0)) * 1000
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise AuthenticationFailed(f"the token is not valid: {error}") from None
        now_ms, leeway_ms = self._clock.now_ms(), _LEEWAY_SECONDS * 1000
        if expires_ms + leeway_ms <= now_ms:
            raise AuthenticationFailed("the token has expired")
        if valid_from_ms - leeway_ms > now_ms:
            raise AuthenticationFailed("the token is not valid yet")
        name = claims[self._claim]
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(f"claim {self._claim!r} is not a name")
        return Token(name, expires_ms + leeway_ms)

    async def _key(self, key_id: str) -> Any:
        now_ms = self._clock.now_ms()
        is_old = now_ms - self._loaded_ms >= self._refresh_ms
        if (key_id not in self._keys or is_old) and now_ms - self._tried_ms >= _REFRESH_MS_MIN:
            await self._load(now_ms)
        found = self._keys.get(key_id)
        if found is None:
            raise AuthenticationFailed(f"no key {key_id[:80]!r} is known")
        return found

    async def _load(self, now_ms: int) -> None:
        async with self._turn:
            if now_ms - self._tried_ms < _REFRESH_MS_MIN:
                return
            self._tried_ms = now_ms
            try:
                document = json.loads(await self._load_keys())
                self._keys = {str(row.get("kid", "")): key for row in document["keys"] if (key := _usable(row))}
            except Exception as error:  # noqa: BLE001 - whatever the issuer answers, logins by other means go on
                _log.warning("the keys of the token issuer cannot be read: %s", error)
                return
            self._loaded_ms = now_ms


def _usable(row: dict[str, Any]) -> Any:
    """The key, if it is public, for signatures, and of an algorithm that counts."""
    try:
        key = jwt.PyJWK(row)
    except (jwt.PyJWTError, KeyError, ValueError):
        return None
    return key if key.algorithm_name in ALGORITHMS and row.get("use", "sig") == "sig" else None
