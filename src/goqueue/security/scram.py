"""SCRAM (RFC 5802), the server's side: passwords as they are stored, and one login as a state machine.

The nonce of the server is new in every login, so that messages of an earlier login prove nothing in a later one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

from goqueue.errors import AuthenticationFailed
from goqueue.security.model import ScramCredential

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = 8192
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
_SALT_BYTES = 24
_MESSAGE_BYTES_MAX = 4096
_NONCE_CHARS_MAX = 256


def credential_of(mechanism: str, password: str, iterations: int = ITERATIONS) -> ScramCredential:
    """What is stored of a password. Takes some milliseconds."""
    salt = secrets.token_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(MECHANISMS[mechanism], password.encode(), salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def credential_of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The same from a password that was salted elsewhere."""
    digest = MECHANISMS[mechanism]
    stored_key = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return ScramCredential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", digest))


def is_password(mechanism: str, credential: ScramCredential, password: str) -> bool:
    """Whether this is the password. Takes some milliseconds: not for the event loop."""
    digest = MECHANISMS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), credential.salt, credential.iterations)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return hmac.compare_digest(stored, credential.stored_key)


class Decoy:
    """Credentials of users who do not exist: always the same for a name, so that a login does not reveal them.

    The secret is the same on every node and after every restart: a salt that changes would tell that there is no user.
    """

    def __init__(self, secret: Callable[[], bytes]) -> None:
        self._secret = secret

    def of(self, mechanism: str, user: str) -> ScramCredential:
        """A credential that no password fits."""
        salt = hmac.digest(self._secret(), f"{mechanism} {user}".encode(), "sha256")[:_SALT_BYTES]
        size = hashlib.new(MECHANISMS[mechanism]).digest_size
        return ScramCredential(salt, ITERATIONS, secrets.token_bytes(size), secrets.token_bytes(size))


class ScramLogin:
    """One login: client-first and client-final come in, server-first and server-final go out."""

    def __init__(self, mechanism: str, find: Callable[[str], ScramCredential | None], decoy: Decoy) -> None:
        self._mechanism = mechanism
        self._digest = MECHANISMS[mechanism]
        self._find = find
        self._decoy = decoy
        self._first = ""
        self._server_first = ""
        self._nonce = self._client_nonce = ""
        self._gs2 = ""
        self._credential: ScramCredential | None = None
        self._is_real = False
        self.user = ""
        self.is_done = False

    @property
    def credential(self) -> ScramCredential | None:
        """What the password is checked against, once the client has said who it is."""
        return self._credential

    def step(self, message: bytes) -> bytes:
        """The answer to the client's next message; raises `AuthenticationFailed`."""
        if len(message) > _MESSAGE_BYTES_MAX:
            raise AuthenticationFailed("the message is too long")
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailed("the message is not text") from None
        return (self._begin(text) if self._credential is None else self._finish(text)).encode()

    def _begin(self, text: str) -> str:
        flag, comma, rest = text.partition(",")
        authorization_id, comma_2, bare = rest.partition(",")
        # Without channel binding: "y" is said by clients that have it and believe that we do not.
        if not comma or not comma_2 or flag not in {"n", "y"}:
            raise AuthenticationFailed("not a first message of SCRAM")
        fields = _fields(bare)
        user, nonce = fields.get("n", ""), fields.get("r", "")
        if not user or not nonce or len(nonce) > _NONCE_CHARS_MAX or "m" in fields:
            raise AuthenticationFailed("the first message lacks user or nonce")
        self.user = user.replace("=2C", ",").replace("=3D", "=")
        if authorization_id not in {"", f"a={user}"}:
            raise AuthenticationFailed("the authorization id is not the user who authenticates")
        self._gs2 = f"{flag},{authorization_id},"
        found = self._find(self.user)
        self._is_real = found is not None
        self._credential = found or self._decoy.of(self._mechanism, self.user)
        self._first, self._client_nonce, self._nonce = bare, nonce, nonce + secrets.token_urlsafe(24)
        salt = base64.b64encode(self._credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._server_first

    def _finish(self, text: str) -> str:
        credential = self._credential
        if self.is_done or credential is None:
            raise AuthenticationFailed("a SCRAM message came after the end of the login")
        without_proof, found, proof_text = text.rpartition(",p=")
        fields = _fields(without_proof)
        binding = base64.b64encode(self._gs2.encode()).decode()
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            raise AuthenticationFailed("the proof is not base64") from None
        if not found or fields.get("c") != binding or len(proof) != len(credential.stored_key):
            raise AuthenticationFailed("not a final message of SCRAM")
        nonce = fields.get("r", "")
        # librdkafka before 2.4 puts its own nonce before ours once more; ours, which is new, is in it all the same.
        if nonce not in {self._nonce, self._client_nonce + self._nonce}:
            raise AuthenticationFailed("the nonce does not belong to this login")
        signed = f"{self._first},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._digest)
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), credential.stored_key)
        if not (is_right and self._is_real):
            raise AuthenticationFailed("the password is wrong, or there is no such user")
        self.is_done = True
        return "v=" + base64.b64encode(hmac.digest(credential.server_key, signed, self._digest)).decode()


def _fields(text: str) -> dict[str, str]:
    """The attributes of a message; each once."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name in fields:
            raise AuthenticationFailed("not a message of SCRAM")
        fields[name] = value
    return fields
