"""The field that an error blames, by the name that it has in the request.

The parts behind the front-ends know their own words: a group id, a topic's name, a number of partitions. Whoever sent
the request looks for the name that they wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from goqueue.errors import GoQueueError, InvalidConfig

# What else a request may call it, the likeliest first.
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "group_id": ("group",),
        "name": ("topic", "to"),
        "topic": ("name",),
        "partitions": ("num_partitions",),
        "transactional_id": ("transactional_id", "transaction_id", "name"),
        "visibility_timeout": ("visibility", "extension_seconds"),
        "session_timeout_ms": ("session_timeout_ms", "session_timeout"),
        "receipt_handle": ("receipts",),
        "offset": ("offsets", "before_offset"),
        "policy": ("body",),
    }
)


def field_in(names: frozenset[str], error: GoQueueError) -> str | None:
    """The field as the request has it; None if the request has none of that name."""
    field = error.field
    if field is None:
        return None
    if isinstance(error, InvalidConfig) and "config" in names:
        return f"config.{field}"
    head = field.partition("[")[0].partition(".")[0]
    if head in names:
        return field
    for other in _OTHER_NAMES.get(head, ()):
        if other in names:
            return other + field[len(head) :]
    return None
