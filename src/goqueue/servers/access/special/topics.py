"""Topics and their messages: what a caller may not describe or read is left out, or answered for itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.broker.reading.fetch import FetchedPartition, FetchQuery
from goqueue.errors import (
    GoQueueError,
    TopicIdNotFound,
    TopicNotAuthorized,
)
from goqueue.security.model import Operation, Resource

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_READ, _CREATE, _DESCRIBE, _TOPIC = Operation.READ, Operation.CREATE, Operation.DESCRIBE, Resource.TOPIC
Method = Callable[..., Any]


def listed_topics(method: Method, guard: Guard) -> Method:
    """Topics that the caller may describe."""
    return lambda: [one for one in method() if guard.may(_DESCRIBE, _TOPIC, one.name)]


def topic_by_id(method: Method, guard: Guard) -> Method:
    """A topic that may not be described does not exist, as far as its id is concerned."""

    def by_id(topic_id: Any) -> Any:
        topic = method(topic_id)
        if not guard.may(_DESCRIBE, _TOPIC, topic.name):
            raise TopicIdNotFound(topic_id)
        return topic

    return by_id


def created_topic(method: Method, guard: Guard) -> Method:
    """Create on the topic or on the cluster."""

    async def create(new: Any, **more: Any) -> Any:
        _require_create(guard, new.name)
        return await method(new, **more)

    return create


def ensured_topic(find: Callable[[str], Any]) -> Callable[[Method, Guard], Method]:
    """Describe if the topic is there; create if it is not."""

    def make(method: Method, guard: Guard) -> Method:
        async def ensure(name: str, **more: Any) -> Any:
            guard.require(_DESCRIBE, _TOPIC, name)
            if find(name) is None:
                _require_create(guard, name)
            return await method(name, **more)

        return ensure

    return make


def _require_create(guard: Guard, name: str) -> None:
    if not guard.may(_CREATE, Resource.CLUSTER):
        guard.require(_CREATE, _TOPIC, name)


def fetched_now(method: Method, guard: Guard) -> Method:
    """Each partition that may not be read has its own error."""

    def fetch_now(query: FetchQuery) -> list[FetchedPartition] | None:
        allowed = _allowed(query, guard)
        if len(allowed) == len(query.reads):
            found: list[FetchedPartition] | None = method(query)
            return found
        found = method(dataclasses.replace(query, reads=allowed, max_wait_ms=0))
        return None if found is None else _joined(query, found, guard)

    return fetch_now


def fetched(method: Method, guard: Guard) -> Method:
    """Each partition that may not be read has its own error."""

    async def fetch(query: FetchQuery) -> list[FetchedPartition]:
        allowed = _allowed(query, guard)
        if len(allowed) == len(query.reads):
            found: list[FetchedPartition] = await method(query)
        else:
            found = await method(dataclasses.replace(query, reads=allowed, max_wait_ms=0))
        # The wait may have been long: what was revoked meanwhile is not given.
        return _joined(query, found, guard)

    return fetch


def _allowed(query: FetchQuery, guard: Guard) -> list[Any]:
    return [read for read in query.reads if guard.may(_READ, _TOPIC, read.topic)]


def _joined(query: FetchQuery, found: Sequence[FetchedPartition], guard: Guard) -> list[FetchedPartition]:
    if len(found) == len(query.reads) and all(guard.may(_READ, _TOPIC, one.topic) for one in found):
        return list(found)
    by_place = {(one.topic, one.partition): one for one in found}
    joined = []
    for read in query.reads:
        if guard.may(_READ, _TOPIC, read.topic):
            one = by_place.get((read.topic, read.partition))
            if one is not None:
                joined.append(one)
            continue
        error: GoQueueError = TopicNotAuthorized(read.topic, "read")
        joined.append(FetchedPartition(read.topic, read.partition, error, -1, -1, -1, (), ()))
    return joined
