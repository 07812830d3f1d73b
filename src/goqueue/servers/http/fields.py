"""The field that an error blames, by the name that it has in the request.

The parts behind the routes know their own words: a group id, a topic's name, a number of partitions. Whoever sent the
request looks for the name that they wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from goqueue.errors import GoQueueError, InvalidConfig
from goqueue.servers.http.route import Route

_IN_BRACES = re.compile(r"{(\w+)}")
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
# The request as a whole.
BODY = "body"


def names_of(route: Route) -> frozenset[str]:
    """Every name that a request to the route may have: parts of its path, its query, its body."""
    names = {BODY, *_IN_BRACES.findall(route.path)}
    for kind in (route.query, route.body):
        if kind is not None:
            names.update(kind.__struct_encode_fields__)
    return frozenset(names)


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
