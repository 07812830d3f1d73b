"""What a client shows to say who it is, and what it checks to know whom it talks to."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from typing import Any

from goqueue.client.errors import InvalidArgument


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """An API key or token, or user and password; a client certificate; and the authority of the broker's certificate.

    Secrets are in no `repr`, so that they end up in no log.
    """

    api_key: str | None = None
    user: str | None = None
    password: str | None = None
    # Files: PEM of the authority that signed the broker's certificate; PEM of one's own certificate and key.
    ca: str | None = None
    certificate: str | None = None
    # The key of that certificate, if it is in a file of its own.
    key: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, ca={self.ca!r})"

    def __post_init__(self) -> None:
        if self.api_key and self.user:
            raise InvalidArgument("api_key and user are both given", "give one of them")

    def over(self, other: Credentials) -> Credentials:
        """These where they say something, else the others."""
        says_who = bool(self.api_key or self.user)
        return Credentials(
            self.api_key if says_who else other.api_key,
            self.user if says_who else other.user,
            self.password if says_who else other.password,
            self.ca or other.ca,
            self.certificate or other.certificate,
            self.key if self.certificate else other.key,
        )

    def fields(self) -> dict[str, Any]:
        """As keywords of `connect`."""
        return {name: getattr(self, name) for name in ("api_key", "user", "password", "ca", "certificate")}

    def headers(self) -> dict[str, str]:
        """What goes with every request."""
        if self.api_key:
            return {"Authorization": f"Bearer {self.api_key}"}
        if self.user:
            text = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            return {"Authorization": f"Basic {text}"}
        return {}

    def tls(self) -> ssl.SSLContext | bool:
        """How TLS connections are checked; True: as the system does."""
        if not self.ca and not self.certificate:
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as problem:
            named = self.certificate if self.ca is None else f"{self.ca}, {self.certificate or ''}".rstrip(", ")
            raise InvalidArgument(f"certificates cannot be read from {named}: {problem}", "give PEM files") from problem
        return context


def from_environment() -> Credentials:
    """GOQUEUE_API_KEY, or GOQUEUE_USER and GOQUEUE_PASSWORD; GOQUEUE_CA and GOQUEUE_CERTIFICATE."""
    environ = os.environ
    key = environ.get("GOQUEUE_API_KEY")
    return Credentials(
        api_key=key,
        user=None if key else environ.get("GOQUEUE_USER"),
        password=None if key else environ.get("GOQUEUE_PASSWORD"),
        ca=environ.get("GOQUEUE_CA"),
        certificate=environ.get("GOQUEUE_CERTIFICATE"),
    )
