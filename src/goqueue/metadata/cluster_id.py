"""The id of a cluster, given once at its first start."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from uuid import UUID

from goqueue.clock import Rng


def fresh_cluster_id(rng: Rng) -> str:
    """As Kafka's: a random UUID in URL-safe base64, 22 characters, not beginning with a dash."""
    while True:
        text = urlsafe_b64encode(UUID(int=rng.getrandbits(128), version=4).bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
