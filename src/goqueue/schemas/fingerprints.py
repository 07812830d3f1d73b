"""When are two schemas the same? When their fingerprints are: 256 bits that no two different schemas share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

from goqueue.formats.source import Checked, SchemaType
from goqueue.schemas.values import Reference


def fingerprint_of(
    schema_type: SchemaType, checked: Checked, references: Sequence[Reference], metadata: bytes, rule_set: bytes
) -> bytes:
    """The fingerprint of a schema with all that is registered with it."""
    digest = hashlib.sha256()
    named = "\0".join(f"{one.name}\0{one.subject}\0{one.version}" for one in sorted(references))
    for part in (schema_type.encode(), checked.canonical, named.encode(), metadata, rule_set):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def guid_of(fingerprint: bytes) -> str:
    """The GUID of a schema: the same in every registry that has it."""
    return str(UUID(bytes=fingerprint[:16], version=5))
