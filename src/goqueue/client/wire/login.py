"""SASL, the client's side: PLAIN, SCRAM and OAUTHBEARER over a connection that is open."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from binascii import Error as Base64Error
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

from goqueue.client.wire.errors import BrokerRefused, LoginFailed
from goqueue.client.wire.security import WireSecurity

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# A broker may ask for more work, but not for hours of it.
_ITERATIONS_MAX = 1_000_000


class Connection(Protocol):
    """What a login needs of a connection."""

    def call(self, api_key: int, version: int, request: dict[str, Any], /) -> Any:
        """Send a request and return its answer."""
        ...


def log_in(connection: Connection, security: WireSecurity) -> int:
    """Log in, or raise `LoginFailed`; returns how long the session lasts in ms, 0 if it does not end."""
    answer = connection.call(SASL_HANDSHAKE, 1, {"mechanism": security.mechanism})
    if answer.error_code:
        offered = ", ".join(answer.mechanisms)
        raise LoginFailed(f"the broker does not offer {security.mechanism}; it offers {offered or 'nothing'}")
    messages = _messages(security)
    sent = next(messages)
    lifetime_ms = 0
    while True:
        answer = connection.call(SASL_AUTHENTICATE, 2, {"auth_bytes": sent})
        if answer.error_code:
            raise LoginFailed(str(BrokerRefused("login", answer.error_code, answer.error_message)))
        lifetime_ms = answer.session_lifetime
        try:
            sent = messages.send(bytes(answer.auth_bytes))
        except StopIteration:
            return int(lifetime_ms)


def _messages(security: WireSecurity) -> Generator[bytes, bytes, None]:
    """The client's messages; each answer is sent in."""
    if security.mechanism == "PLAIN":
        yield f"\0{security.username}\0{security.password}".encode()
    elif security.mechanism == "OAUTHBEARER":
        # Read anew for each login: whoever renews tokens replaces the file.
        token = security.token or Path(security.token_file).read_text(encoding="utf-8").strip()
        yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    else:
        yield from _scram(security)


def _scram(security: WireSecurity) -> Generator[bytes, bytes, None]:
    digest = _DIGESTS[security.mechanism]
    nonce = secrets.token_urlsafe(24)
    user = security.username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={user},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode()
    fields = dict(part.partition("=")[::2] for part in first.split(","))
    try:
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    except (KeyError, ValueError, Base64Error):
        raise LoginFailed("the broker's answer is not one of SCRAM") from None
    # Without these two checks somebody in between could make us do endless work, or replay an old login.
    if not fields.get("r", "").startswith(nonce) or not 1 <= iterations <= _ITERATIONS_MAX:
        raise LoginFailed("the broker's answer does not belong to this login")
    salted = hashlib.pbkdf2_hmac(digest, security.password.encode(), salt, iterations)
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{bare},{first},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", digest)
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = (yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode()
    expected = base64.b64encode(hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)).decode()
    if not hmac.compare_digest(last.encode(), f"v={expected}".encode()):
        raise LoginFailed("the broker's signature does not match the password: another server may answer in its place")
