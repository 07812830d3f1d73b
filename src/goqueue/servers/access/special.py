"""Calls whose check is more than a name: lists that leave out what a caller may not see, and answers per item.

Each function takes the real method and the caller's guard and returns the method that the caller gets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from goqueue.broker.fetch import FetchedPartition, FetchQuery
from goqueue.errors import (
    GoQueueError,
    NotAttempted,
    ScheduleNotFound,
    TopicIdNotFound,
    TopicNotAuthorized,
    TraceNotFound,
)
from goqueue.security.model import Operation, Resource
from goqueue.servers.access.needs import topic_of_subject

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_READ, _WRITE, _CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
_DESCRIBE, _TOPIC, _GROUP = Operation.DESCRIBE, Resource.TOPIC, Resource.GROUP
Method = Callable[..., Any]


# --- topics -------------------------------------------------------------------------------


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


# --- reading ------------------------------------------------------------------------------


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


# --- producing ----------------------------------------------------------------------------


def allocated_id(method: Method, guard: Guard) -> Method:
    """Idempotent write on the cluster, or write on any topic."""

    async def allocate() -> Any:
        if not guard.may_any(_WRITE, _TOPIC):
            guard.require(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
        return await method()

    return allocate


def added_partitions(method: Method, guard: Guard) -> Method:
    """Write on the transactional id and on every topic; if one is missing, none is added."""

    async def add_partitions(transactional_id: str, producer: Any, partitions: Any, **more: Any) -> Any:
        guard.require(_WRITE, Resource.TRANSACTIONAL_ID, transactional_id)
        denied = {one for one in partitions if not guard.may(_WRITE, _TOPIC, one.topic)}
        if denied:
            return {
                one: TopicNotAuthorized(one.topic, "write")
                if one in denied
                else NotAttempted("another partition of the request was refused")
                for one in partitions
            }
        return await method(transactional_id, producer, partitions, **more)

    return add_partitions


def admitted(method: Method, guard: Guard) -> Method:
    """Partitions that may not be written to do not become part of the transaction; writing to them is refused."""

    def admit(producer: Any, places: Iterable[Any], **more: Any) -> Any:
        return method(producer, [one for one in places if guard.may(_WRITE, _TOPIC, one.topic)], **more)

    return admit


def listed_transactions(method: Method, guard: Guard) -> Method:
    """Transactional ids that the caller may describe."""

    async def listed() -> Any:
        found = await method()
        return tuple(one for one in found if guard.may(_DESCRIBE, Resource.TRANSACTIONAL_ID, one.transactional_id))

    return listed


def listed_writers(method: Method, guard: Guard) -> Method:
    """Writers that the caller may describe."""

    async def listed() -> Any:
        found = await method()
        return tuple(one for one in found if guard.may(_DESCRIBE, Resource.TRANSACTIONAL_ID, one.writer))

    return listed


# --- groups -------------------------------------------------------------------------------


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


# --- queues -------------------------------------------------------------------------------


def topics_of_receipts(receipts: Iterable[str], *_args: Any, **_more: Any) -> set[str]:
    """The topics that receipts name. What is no receipt names none, and is refused by whoever reads it."""
    return {receipt.rsplit(":", 4)[0] for receipt in receipts if receipt.count(":") >= _RECEIPT_COLONS}


def topics_of_settlements(settlements: Iterable[Any], *_args: Any, **_more: Any) -> set[str]:
    """The topics of settlements."""
    return topics_of_receipts(one.receipt for one in settlements)


_RECEIPT_COLONS = 4


def figures_of(method: Method, guard: Guard) -> Method:
    """Describe on the topic, or on the cluster for all of them."""

    async def figures(topic: str | None = None, **more: Any) -> Any:
        if topic is None:
            guard.require(_DESCRIBE, Resource.CLUSTER)
        else:
            guard.require(_DESCRIBE, _TOPIC, topic)
        return await method(topic, **more)

    return figures


def redriven(method: Method, guard: Guard) -> Method:
    """Read on the dead-letter topic, and write on the target. Without a target, alter on the cluster."""

    async def start(request: Any, **more: Any) -> Any:
        guard.require(_READ, _TOPIC, request.topic)
        if request.to is None:
            # Letters name the topics that they go back to, and whoever wrote a letter chose that name.
            guard.require(Operation.ALTER, Resource.CLUSTER)
        else:
            guard.require(_WRITE, _TOPIC, request.to)
        return await method(request, **more)

    return start


# --- schedules ----------------------------------------------------------------------------


def listed_schedules(method: Method, guard: Guard) -> Method:
    """Schedules of topics that the caller may read."""

    async def listed() -> Any:
        return tuple(one for one in await method() if guard.may(_READ, _TOPIC, one.schedule.topic))

    return listed


def one_schedule(method: Method, guard: Guard) -> Method:
    """Read on its topic; otherwise there is no such schedule."""

    async def get(name: str) -> Any:
        found = await method(name)
        if not guard.may(_READ, _TOPIC, found.schedule.topic):
            raise ScheduleNotFound(name)
        return found

    return get


def deleted_schedule(get: Callable[[str], Any]) -> Callable[[Method, Guard], Method]:
    """Write on its topic; otherwise there is no such schedule."""

    def make(method: Method, guard: Guard) -> Method:
        async def delete(name: str) -> Any:
            if not guard.may(_WRITE, _TOPIC, (await get(name)).schedule.topic):
                raise ScheduleNotFound(name)
            return await method(name)

        return delete

    return make


# --- schemas ------------------------------------------------------------------------------


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


# --- stories ------------------------------------------------------------------------------


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


# --- the node -----------------------------------------------------------------------------


def rebalances(method: Method, guard: Guard) -> Method:
    """Describe on the group, or on the cluster for all of them."""

    def statistics(group: str | None = None) -> Any:
        if group is None:
            guard.require(_DESCRIBE, Resource.CLUSTER)
        else:
            guard.require(_DESCRIBE, _GROUP, group)
        return method(group)

    return statistics
