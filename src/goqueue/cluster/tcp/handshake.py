"""The handshake between nodes: both sides prove that they have the cluster's secret, and for which nodes they speak.

    connecting node -> HELLO      (version, purpose, cluster id, own id, id of the peer, nonce)
    accepting node  -> CHALLENGE  (version, nonce)
    connecting node -> PROOFS     (one HMAC for each of its secrets)
    accepting node  -> PROOF      (an HMAC with the secret that fitted)

A proof covers HELLO and CHALLENGE, so it fits this connection alone, and the two sides prove different things: neither
can send the other's proof back. The accepting node proves itself last: a stranger learns nothing to guess the secret
from. While a secret is rotated two are valid at once, so nodes can be restarted one by one. The secret itself is never
sent. The handshake does not encrypt what follows: TLS below it does, and shows certificates besides.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import msgspec

from goqueue.errors import PeerRefused

VERSION = 1
NONCE_BYTES = 32
SECRETS_MAX = 2


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """What the connecting node says first."""

    version: int
    purpose: int
    cluster_id: str
    node_id: int
    peer_id: int
    nonce: bytes


class Challenge(msgspec.Struct, frozen=True, array_like=True):
    """What the accepting node answers; with a `refusal` it closes the connection afterwards."""

    version: int
    nonce: bytes
    refusal: str = ""


class Proofs(msgspec.Struct, frozen=True, array_like=True):
    """The proofs of the connecting node, one for each secret that it has."""

    proofs: tuple[bytes, ...]


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """The proof of the accepting node; with a `refusal` there is none."""

    proof: bytes
    refusal: str = ""


# What the decoders raise: text that is not UTF-8 has an error of its own.
MALFORMED = (msgspec.DecodeError, UnicodeDecodeError)
_encode = msgspec.msgpack.Encoder().encode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
decode_challenge = msgspec.msgpack.Decoder(Challenge).decode
decode_proofs = msgspec.msgpack.Decoder(Proofs).decode
decode_proof = msgspec.msgpack.Decoder(Proof).decode


def encode(message: Hello | Challenge | Proofs | Proof) -> bytes:
    """The bytes of one message of the handshake."""
    return _encode(message)


def refusal_of(hello: Hello, *, node_id: int, cluster_id: str) -> str:
    """Why this node does not talk to whoever sent that; empty if it does."""
    if hello.version != VERSION:
        return f"the peer protocol has version {VERSION} here, not {hello.version}"
    if hello.peer_id != node_id:
        return f"this is node {node_id}, not node {hello.peer_id}"
    if hello.cluster_id != cluster_id:
        return f"this node is part of cluster {cluster_id!r}, not of {hello.cluster_id!r}"
    if hello.node_id == node_id:
        return f"node id {node_id} is taken by this node"
    if len(hello.nonce) != NONCE_BYTES:
        return "the nonce has a wrong size"
    return ""


def client_proofs(secrets: Sequence[bytes], hello: bytes, challenge: bytes) -> Proofs:
    """What proves that the connecting node has the secret."""
    return Proofs(tuple(_mac(secret, b"connecting", hello, challenge) for secret in secrets[:SECRETS_MAX]))


def check_client(secrets: Sequence[bytes], hello: bytes, challenge: bytes, proofs: Proofs) -> bytes | None:
    """The secret that the connecting node has, too; None if it has none of ours."""
    for secret in secrets[:SECRETS_MAX]:
        expected = _mac(secret, b"connecting", hello, challenge)
        for proof in proofs.proofs[:SECRETS_MAX]:
            if hmac.compare_digest(expected, proof):
                return secret
    return None


def server_proof(secret: bytes, hello: bytes, challenge: bytes) -> Proof:
    """What proves that the accepting node has the secret."""
    return Proof(_mac(secret, b"accepting", hello, challenge))


def check_server(secrets: Sequence[bytes], hello: bytes, challenge: bytes, proof: Proof, *, peer: int) -> None:
    """Raise PeerRefused unless the accepting node has one of our secrets."""
    if proof.refusal:
        raise PeerRefused(peer, proof.refusal)
    expected = [_mac(secret, b"accepting", hello, challenge) for secret in secrets[:SECRETS_MAX]]
    if not any(hmac.compare_digest(one, proof.proof) for one in expected):
        raise PeerRefused(peer, "it does not know the cluster's secret: check cluster.secret on both nodes")


def _mac(secret: bytes, side: bytes, hello: bytes, challenge: bytes) -> bytes:
    mac = hmac.new(secret, side, hashlib.sha256)
    for part in (hello, challenge):
        mac.update(len(part).to_bytes(4, "big"))
        mac.update(part)
    return mac.digest()
