"""Schemas and traces of messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from goqueue.errors import (
    TraceNotFound,
)
from goqueue.security.model import Operation, Resource
from goqueue.servers.access.needs import topic_of_subject

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_READ, _TOPIC = Operation.READ, Resource.TOPIC
Method = Callable[..., Any]


def altered_scope(method: Method, guard: Guard) -> Method:
    """Alter configs on the topic of the subject, or on the cluster for all subjects."""

    async def alter(scope: str, *args: Any, **more: Any) -> Any:
        name = topic_of_subject(scope)
        if name:
            guard.require(Operation.ALTER_CONFIGS, _TOPIC, name)
        else:
            guard.require(Operation.ALTER_CONFIGS, Resource.CLUSTER)
        return await method(scope, *args, **more)

    return alter


def one_trace(method: Method, guard: Guard) -> Method:
    """Read on the topic of the message; otherwise there is no such trace."""

    async def get(trace_id: str) -> Any:
        found = await method(trace_id)
        if not guard.may(_READ, _TOPIC, found.topic):
            raise TraceNotFound(trace_id)
        return found

    return get


def recent_traces(method: Method, guard: Guard) -> Method:
    """Messages of topics that the caller may read."""

    async def recent(limit: int) -> Any:
        return [one for one in await method(limit) if guard.may(_READ, _TOPIC, one.topic)]

    return recent


def found_traces(method: Method, guard: Guard) -> Method:
    """Messages of topics that the caller may read."""

    async def search(wanted: Any, *args: Any, **more: Any) -> Any:
        if wanted.topic is not None:
            guard.require(_READ, _TOPIC, wanted.topic)
        found = await method(wanted, *args, **more)
        return structs.replace(found, stories=[one for one in found.stories if guard.may(_READ, _TOPIC, one.topic)])

    return search
