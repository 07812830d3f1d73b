"""From credentials to an identity: API keys, passwords, tokens, certificates.

One principal is meant whatever way was used: `User:alice` by password, by key, by token or by certificate has the same
rights. What is wrong with credentials is written to the audit log and never told to the client.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from goqueue.clock import Clock
from goqueue.errors import AuthenticationFailed
from goqueue.ports import Offload
from goqueue.security.certificate_names import Rule, name_of
from goqueue.security.failures import FailedLogins
from goqueue.security.model import ApiKey, ScramCredential
from goqueue.security.scram import Decoy, is_password
from goqueue.security.store import Losers, SecurityStore

if TYPE_CHECKING:
    from goqueue.security.tokens import TokenVerifier

KEY_PREFIX = "gq_"
_KEY_CHARS_MAX = 200
_PASSWORD_CHARS_MAX = 1024
_KEPT_MS = 60_000
_KEPT_MAX = 10_000
_TOUCH_MS = 3600 * 1000


class Identity(NamedTuple):
    """Who a client has shown to be. `expires_ms` is 0 if the credential has no end."""

    principal: str
    method: str
    expires_ms: int = 0


# What the audit log is told: principal or what was claimed, method, address, and the reason of a failure.
OnLogin = Callable[[str, str, str, str], None]


class Authenticator:
    """Checks every kind of credential."""

    def __init__(
        self,
        store: SecurityStore,
        *,
        mechanisms: Collection[str],
        rules: Sequence[Rule],
        tokens: TokenVerifier | None,
        offload: Offload,
        clock: Clock,
        on_login: OnLogin,
        failed_login_ms_max: int = 5_000,
    ) -> None:
        self._store = store
        self._rules = rules
        self._tokens = tokens
        self._offload = offload
        self._clock = clock
        self._on_login = on_login
        self.failures = FailedLogins(clock, failed_login_ms_max)
        self.decoy = Decoy(lambda: store.decoy_secret)
        self.mechanisms = tuple(mechanisms) + (("OAUTHBEARER",) if tokens is not None else ())
        # Passwords that were right a moment ago, under a hash that means nothing outside of this process.
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, tuple[Identity, int]] = OrderedDict()
        self._used: dict[str, int] = {}
        store.subscribe(self._forget)

    async def checked(
        self, address: str, method: str, claimed: str, check: Callable[[], Any], *, is_quiet: bool = False
    ) -> Identity:
        """The identity that `check` finds. A failure is counted, audited and answered late.

        With `is_quiet` the caller tells the audit log of a success.
        """
        failures = self.failures
        if not failures.may_try(address):
            raise AuthenticationFailed("too many failed logins from this address")
        try:
            identity: Identity = await check()
        except AuthenticationFailed as error:
            await self.refuse(address, method, claimed, error.reason)
            raise
        if not is_quiet:
            self._on_login(identity.principal, method, address, "")
        return identity

    def logged_in(self, identity: Identity, address: str) -> None:
        """Audit a login that succeeded."""
        self._on_login(identity.principal, identity.method, address, "")

    async def refuse(self, address: str, method: str, claimed: str, reason: str) -> None:
        """Count, audit and hold back a failure; the caller answers it afterwards."""
        self._on_login(claimed, method, address, reason)
        seconds = self.failures.failed(address)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.failures.answered(address)

    def of_key(self, text: str) -> Identity:
        """The principal of an API key. Cheap: a key is random, so one hash is enough."""
        _, _, rest = text.partition(KEY_PREFIX)
        found = self._store.keys.get(rest.partition("_")[0]) if len(text) <= _KEY_CHARS_MAX else None
        digest = hashlib.sha256(text.encode()).hexdigest()
        if not hmac.compare_digest(digest, found.sha256 if found is not None else "0" * 64) or found is None:
            raise AuthenticationFailed("the API key is not known")
        now_ms = self._clock.now_ms()
        if found.expires_ms and found.expires_ms <= now_ms:
            raise AuthenticationFailed(f"API key {found.id} has expired")
        self._used[found.id] = now_ms
        return Identity(found.principal, "api_key", found.expires_ms)

    def kept(self, user: str, password: str) -> Identity | None:
        """The identity, if this password was right a moment ago."""
        found = self._kept.get(self._mark(user, password))
        if found is None or found[1] <= self._clock.monotonic_ms():
            return None
        return found[0]

    async def of_password(self, user: str, password: str, method: str) -> Identity:
        """The user of that name, if it is the password. Hashing is done in a thread."""
        if len(password) > _PASSWORD_CHARS_MAX or not password:
            raise AuthenticationFailed("the password is empty or too long")
        found = self.kept(user, password)
        if found is not None:
            return found._replace(method=method)
        known = self._store.users.get(user)
        mechanism, credential = next(iter(known.scram.items())) if known is not None and known.scram else ("", None)
        if credential is None:
            mechanism, credential = "SCRAM-SHA-256", self.decoy.of("SCRAM-SHA-256", user)
        is_right = await self._offload(lambda: is_password(mechanism, credential, password))
        # Changed while we hashed: the answer would be about a password that is no longer the user's.
        if not is_right or known is None or self._store.users.get(user) is not known:
            raise AuthenticationFailed("user or password is wrong")
        identity = Identity(f"User:{user}", method)
        self._kept[self._mark(user, password)] = identity, self._clock.monotonic_ms() + _KEPT_MS
        while len(self._kept) > _KEPT_MAX:
            self._kept.popitem(last=False)
        return identity

    async def of_token(self, text: str) -> Identity:
        """The principal of a token."""
        if self._tokens is None:
            raise AuthenticationFailed("tokens are not configured")
        token = await self._tokens.verify(text)
        return Identity(f"User:{token.name}", "token", token.expires_ms)

    def of_certificate(self, certificate: Mapping[str, Any] | None) -> Identity | None:
        """The principal of a client certificate that TLS has verified; None if there is none, or no rule for it."""
        name = name_of(certificate, self._rules) if certificate else None
        return None if name is None else Identity(f"User:{name}", "certificate")

    def scram_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        """What is stored of a user's password for that mechanism."""
        found = self._store.users.get(user)
        return None if found is None else found.scram.get(mechanism)

    async def keep_last_used(self) -> None:
        """Store when keys were last used; once an hour is enough for each."""
        used, self._used = self._used, {}
        for key_id, used_ms in used.items():
            held = self._store.keys.get(key_id)
            if held is not None and used_ms - held.last_used_ms >= _TOUCH_MS:
                await self._store.put_key(structs.replace(held, last_used_ms=used_ms))

    def last_used_ms(self, key: ApiKey) -> int:
        """When a key was last used, as far as this node knows."""
        return max(self._used.get(key.id, 0), key.last_used_ms)

    def _mark(self, user: str, password: str) -> bytes:
        return hmac.digest(self._secret, f"{len(user)}:{user}:{password}".encode(), "sha256")

    def _forget(self, _losers: Losers) -> None:
        self._kept.clear()


def new_key(principal: str, *, label: str, now_ms: int, expires_ms: int) -> tuple[str, ApiKey]:
    """A new API key: its text, which is shown once, and what is stored of it."""
    key_id = secrets.token_hex(6)
    text = f"{KEY_PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text, ApiKey(key_id, principal, digest, label, now_ms, expires_ms)
