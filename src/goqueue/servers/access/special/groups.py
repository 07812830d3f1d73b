"""Groups, their offsets and their rebalances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from goqueue.errors import (
    TopicNotAuthorized,
)
from goqueue.security.model import Operation, Resource

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_READ, _DESCRIBE, _TOPIC, _GROUP = Operation.READ, Operation.DESCRIBE, Resource.TOPIC, Resource.GROUP
Method = Callable[..., Any]


def listed_groups(method: Method, guard: Guard) -> Method:
    """Groups that the caller may describe."""

    async def listed(**more: Any) -> Any:
        return tuple(one for one in await method(**more) if guard.may(_DESCRIBE, _GROUP, one.group))

    return listed


def committed(method: Method, guard: Guard) -> Method:
    """Read on the group; each topic that may not be read has its own error."""

    async def commit(group: str, offsets: Sequence[Any], *args: Any, **more: Any) -> Any:
        guard.require(_READ, _GROUP, group)
        allowed = [one for one in offsets if guard.may(_READ, _TOPIC, one.topic)]
        if len(allowed) == len(offsets):
            return await method(group, offsets, *args, **more)
        outcomes = iter(await method(group, allowed, *args, **more) if allowed else ())
        return tuple(
            next(outcomes) if guard.may(_READ, _TOPIC, one.topic) else TopicNotAuthorized(one.topic, "read")
            for one in offsets
        )

    return commit


def fetched_offsets(method: Method, guard: Guard) -> Method:
    """Describe on the group; offsets of topics that may not be described are left out."""

    async def fetch_offsets(group: str, partitions: Any = None, **more: Any) -> Any:
        guard.require(_DESCRIBE, _GROUP, group)
        found = await method(group, partitions, **more)
        return {at: one for at, one in found.items() if guard.may(_DESCRIBE, _TOPIC, at.topic)}

    return fetch_offsets


def polled(assignment: Callable[..., Any]) -> Callable[[Method, Guard], Method]:
    """Read on the group and on every topic that the member is assigned."""

    def make(method: Method, guard: Guard) -> Method:
        async def poll(asked: Any) -> Any:
            guard.require(_READ, _GROUP, asked.group)
            found = await method(asked)
            assigned, _ = await assignment(asked.group, asked.member_id, asked.generation)
            # After the wait, so that what was revoked meanwhile is not given.
            guard.require_all(_READ, _TOPIC, sorted({at.topic for at in assigned}))
            return found

        return poll

    return make


def group_progress(method: Method, guard: Guard) -> Method:
    """Describe on the group; topics that may not be described are left out."""

    async def of(group: str) -> Any:
        guard.require(_DESCRIBE, _GROUP, group)
        return [one for one in await method(group) if guard.may(_DESCRIBE, _TOPIC, one.topic)]

    return of


def reset_offsets(of: Callable[[str], Any]) -> Callable[[Method, Guard], Method]:
    """Read on the group and on the topic, or on all topics of the group."""

    def make(method: Method, guard: Guard) -> Method:
        async def reset(group: str, target: Any, *, topic: str | None = None, **more: Any) -> Any:
            guard.require(_READ, _GROUP, group)
            topics = {topic} if topic is not None else {one.topic for one in await of(group)}
            guard.require_all(_READ, _TOPIC, sorted(topics))
            return await method(group, target, topic=topic, **more)

        return reset

    return make


def rebalances(method: Method, guard: Guard) -> Method:
    """Describe on the group, or on the cluster for all of them."""

    def statistics(group: str | None = None) -> Any:
        if group is None:
            guard.require(_DESCRIBE, Resource.CLUSTER)
        else:
            guard.require(_DESCRIBE, _GROUP, group)
        return method(group)

    return statistics
