"""What one connection may ask, given how far its login has come.

Before a login: ApiVersions and the two SASL requests, few and small ones. After it: everything, until the session
ends; then the client authenticates again on the same connection (KIP-368) or is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.codec.kafka.encode import API_VERSIONS_KEY
from goqueue.errors import AuthenticationFailed, IllegalSaslState
from goqueue.ports import Buffer
from goqueue.security import sasl

if TYPE_CHECKING:
    from goqueue.security.authentication import Identity
    from goqueue.security.service import Security

SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY = 17, 36
UNAUTHENTICATED_BYTES_MAX = 64 * 1024
UNAUTHENTICATED_REQUESTS_MAX = 16
_BEFORE_LOGIN = frozenset({API_VERSIONS_KEY, SASL_HANDSHAKE_KEY, SASL_AUTHENTICATE_KEY})
# Logins on one connection are slow; one after the other as fast as it can is an attack.
_LOGINS_MAX = 1000


class Step(NamedTuple):
    """An answer to one message of a login; the lifetime is 0 if the session does not end."""

    message: bytes
    lifetime_ms: int


class Gate:
    """The login of one connection."""

    __slots__ = (
        "_address",
        "_ends_ms",
        "_is_by_certificate",
        "_login",
        "_logins",
        "_mechanism",
        "_on_identity",
        "_requests",
        "_security",
        "has_failed",
        "identity",
        "is_open",
    )

    def __init__(self, security: Security, address: str, on_identity: Callable[[str], None]) -> None:
        """`on_identity` is told the principal whenever the client has shown who it is."""
        self._security = security
        self._address = address
        self._on_identity = on_identity
        self._login: sasl.Login | None = None
        self._mechanism = ""
        self._requests = 0
        self._logins = 0
        self.has_failed = False
        self.identity: Identity | None = None
        # Once the client has shown who it is, for a session that does not end: every request is looked at.
        self.is_open = False
        # There while the client is who a certificate says; a login may replace it once.
        self._is_by_certificate = False
        self._ends_ms = 0

    def take_certificate(self, certificate: Mapping[str, Any] | None) -> None:
        """The client certificate that TLS has verified, if there is one."""
        self.identity = self._security.authenticator.of_certificate(certificate)
        if self.identity is not None:
            self._is_by_certificate = self.is_open = True
            self._security.authenticator.logged_in(self.identity, self._address)
            self._on_identity(self.identity.principal)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What is offered."""
        return self._security.authenticator.mechanisms

    def refusal(self, request: Buffer) -> str | None:
        """Why this request is not even looked at; None if it is."""
        key = int.from_bytes(request[:2], "big", signed=True)
        if self.identity is None:
            self._requests += 1
            if self.has_failed or key not in _BEFORE_LOGIN:
                return f"it sent API {key} before it authenticated"
            if self._requests > UNAUTHENTICATED_REQUESTS_MAX:
                return "it sent too many requests before it authenticated"
        elif self._ends_ms and key not in _BEFORE_LOGIN and self._security.clock.now_ms() >= self._ends_ms:
            return "its session has ended and it did not authenticate again"
        return None

    def handshake(self, mechanism: str) -> None:
        """Begin a login; raises `UnsupportedMechanism`."""
        if self._login is not None:
            raise IllegalSaslState("a login is under way already")
        if self.identity is not None and self._mechanism and mechanism != self._mechanism:
            raise IllegalSaslState("the mechanism cannot be changed when authenticating again")
        self._logins += 1
        if self._logins > _LOGINS_MAX:
            raise IllegalSaslState("this connection has authenticated too often")
        self._login = sasl.begin(mechanism, self._security.authenticator)
        self._mechanism = mechanism

    async def step(self, message: bytes) -> Step:
        """The next message of the login. After the last one `identity` is who the client is."""
        login = self._login
        if login is None:
            raise IllegalSaslState("there was no handshake before this message")
        authenticator, method = self._security.authenticator, self._mechanism.lower()
        try:
            if not authenticator.failures.may_try(self._address):
                raise AuthenticationFailed("too many failed logins from this address")
            answer = await login.step(message)
            found = login.identity
            if found is None:
                return Step(answer, 0)
            is_other = self.identity is not None and self.identity.principal != found.principal
            if is_other and not self._is_by_certificate:
                raise AuthenticationFailed("the principal cannot be changed when authenticating again")
        except AuthenticationFailed as error:
            self._login = None
            self.has_failed = True
            await authenticator.refuse(self._address, method, login.claimed, error.reason)
            raise
        self._login = None
        self.identity = found
        self._is_by_certificate = False
        authenticator.logged_in(found, self._address)
        self._on_identity(found.principal)
        return Step(answer, self._begin_session(found))

    def _begin_session(self, identity: Identity) -> int:
        now_ms = self._security.clock.now_ms()
        ends = [identity.expires_ms] if identity.expires_ms else []
        if self._security.config.reauthentication_ms:
            ends.append(now_ms + self._security.config.reauthentication_ms)
        self._ends_ms = min(ends) if ends else 0
        self.is_open = not ends
        return max(self._ends_ms - now_ms, 1) if self._ends_ms else 0
