"""Producer ids and transactions: what a caller may write to becomes part of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from goqueue.errors import (
    NotAttempted,
    TopicNotAuthorized,
)
from goqueue.security.model import Operation, Resource

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_WRITE, _DESCRIBE, _TOPIC = Operation.WRITE, Operation.DESCRIBE, Resource.TOPIC
Method = Callable[..., Any]


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


def admitted(owner_of: Callable[[int], str | None]) -> Callable[[Method, Guard], Method]:
    """Write on the transactional id or writer of the producer. Topics that may not be written to are left out."""

    def make(method: Method, guard: Guard) -> Method:
        def admit(producer: Any, places: Iterable[Any], **more: Any) -> Any:
            owner = owner_of(producer.producer_id)
            if owner is not None:
                guard.require(_WRITE, Resource.TRANSACTIONAL_ID, owner)
            return method(producer, [one for one in places if guard.may(_WRITE, _TOPIC, one.topic)], **more)

        return admit

    return make


def joined(find_owner: Callable[[int], Awaitable[str | None]]) -> Callable[[Method, Guard], Method]:
    """Write on the transactional id or writer of the producer, and on the topic."""

    def make(method: Method, guard: Guard) -> Method:
        async def join(producer: Any, place: Any, number: int | None) -> Any:
            owner = await find_owner(producer.producer_id)
            if owner is not None:
                guard.require(_WRITE, Resource.TRANSACTIONAL_ID, owner)
            guard.require(_WRITE, _TOPIC, place.topic)
            return await method(producer, place, number)

        return join

    return make


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
