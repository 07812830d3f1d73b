"""SASL: one login of a Kafka connection, whatever the mechanism. Messages in, messages out, at the end an identity."""

from __future__ import annotations

from typing import Protocol

from goqueue.errors import AuthenticationFailed, UnsupportedMechanism
from goqueue.security.authentication import Authenticator, Identity
from goqueue.security.scram import MECHANISMS, ScramLogin

_REFUSED_BY_NAME = {
    "GSSAPI": "Kerberos is not supported",
    "DELEGATION-TOKEN": "delegation tokens are not supported",
}


class Login(Protocol):
    """A login under way. `identity` is there once it has succeeded."""

    identity: Identity | None

    @property
    def claimed(self) -> str:
        """The name that the client gave, whether or not it is true."""
        ...

    async def step(self, message: bytes) -> bytes:
        """Answer the client's next message; raises `AuthenticationFailed`."""
        ...


def begin(mechanism: str, authenticator: Authenticator) -> Login:
    """A login by this mechanism; raises `UnsupportedMechanism` if it is not offered."""
    if mechanism not in authenticator.mechanisms:
        offered = ", ".join(authenticator.mechanisms)
        reason = _REFUSED_BY_NAME.get(mechanism, f"mechanism {mechanism[:40]!r} is not offered")
        raise UnsupportedMechanism(reason, field="mechanism", hint=f"use one of {offered}")
    if mechanism in MECHANISMS:
        return _Scram(mechanism, authenticator)
    return _Plain(authenticator) if mechanism == "PLAIN" else _Bearer(authenticator)


class _Scram:
    def __init__(self, mechanism: str, authenticator: Authenticator) -> None:
        self._mechanism = mechanism
        self._authenticator = authenticator
        self._login = ScramLogin(
            mechanism, lambda user: authenticator.scram_credential(mechanism, user), authenticator.decoy
        )
        self.identity: Identity | None = None

    @property
    def claimed(self) -> str:
        return self._login.user

    async def step(self, message: bytes) -> bytes:
        answer = self._login.step(message)
        if self._login.is_done:
            # Removed or changed between the two messages: then the password proves nothing any more.
            if self._authenticator.scram_credential(self._mechanism, self._login.user) != self._login.credential:
                raise AuthenticationFailed("the user or its password was changed during the login")
            self.identity = Identity(f"User:{self._login.user}", self._mechanism.lower())
        return answer


class _Plain:
    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.identity: Identity | None = None
        self.claimed = ""

    async def step(self, message: bytes) -> bytes:
        try:
            authorization_id, user, password = message.decode().split("\0")
        except ValueError:
            raise AuthenticationFailed("not a message of PLAIN") from None
        self.claimed = user
        if not user or authorization_id not in {"", user}:
            raise AuthenticationFailed("the authorization id is not the user who authenticates")
        self.identity = await self._authenticator.of_password(user, password, "plain")
        return b""


class _Bearer:
    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self.identity: Identity | None = None
        self.claimed = ""

    async def step(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\x01")
        except UnicodeDecodeError:
            raise AuthenticationFailed("not a message of OAUTHBEARER") from None
        header = parts[0].split(",")
        fields = dict(part.partition("=")[::2] for part in parts[1:] if part)
        scheme, _, token = fields.get("auth", "").partition(" ")
        if header[0] != "n" or scheme.lower() != "bearer" or not token:
            raise AuthenticationFailed("not a message of OAUTHBEARER")
        identity = await self._authenticator.of_token(token)
        asked = header[1].removeprefix("a=") if len(header) > 1 else ""
        if asked and f"User:{asked}" != identity.principal:
            raise AuthenticationFailed("the authorization id is not the user of the token")
        self.identity = identity
        return b""
