"""From an operation's method and path to the gRPC method that stands for it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote

from google.protobuf import message_factory

from goqueue.client.errors import ClientError
from goqueue.rpc.services import SERVICES
from goqueue.rpc.table import ROWS, Row

# Operations whose methods are written by hand at the server, as this client calls them.
_MORE = (
    Row("PublishService", "PublishBatch", "POST /topics/{topic}/messages"),
    Row("QueueService", "Receive", "POST /topics/{topic}/receive"),
    *(row._replace(operation=row.without) for row in ROWS if row.without is not None),
)


class Method(NamedTuple):
    """A method, and the types of its messages."""

    row: Row
    path: str
    request: Any
    response: Any


def method_of(service: str, name: str, row: Row) -> Method:
    """The method of that name."""
    described = SERVICES[service].methods_by_name[name]
    return Method(
        row,
        f"/goqueue.v1.{service}/{name}",
        message_factory.GetMessageClass(described.input_type),
        message_factory.GetMessageClass(described.output_type),
    )


def _pattern(row: Row) -> re.Pattern[str]:
    verb, _, path = row.operation.partition(" ")
    return re.compile(re.escape(verb) + " " + re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path)))


# What has no braces first: `/transactions/stats` is not the transactional id `stats`.
_ROUTES = [
    (_pattern(row), method_of(row.service, row.method, row))
    for row in sorted((*ROWS, *_MORE), key=lambda one: one.operation.count("{"))
]


@lru_cache(maxsize=1024)
def find(verb: str, path: str) -> tuple[Method, dict[str, str]]:
    """The method, and what the path says."""
    for pattern, method in _ROUTES:
        if matched := pattern.fullmatch(f"{verb} {path}"):
            return method, {name: unquote(value) for name, value in matched.groupdict().items()}
    raise ClientError(f"the gRPC API has nothing for {verb} {path}: connect by http://")
