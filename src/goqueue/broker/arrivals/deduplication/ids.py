"""The id of a record: a header, of which only the digest is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from goqueue.records import Header

DEDUPLICATION_HEADER = "goqueue-dedup-id"


def digest_of(headers: Iterable[Header]) -> bytes | None:
    """The digest of a record's deduplication id; None if it has none."""
    for name, value in headers:
        if name == DEDUPLICATION_HEADER and value:
            return hashlib.blake2b(value, digest_size=16).digest()
    return None
