"""Queues: receipts, figures and redrives, and the schedules that publish to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from goqueue.errors import (
    ScheduleNotFound,
)
from goqueue.security.model import Operation, Resource

if TYPE_CHECKING:
    from goqueue.servers.access.guard import Guard

_READ, _WRITE, _DESCRIBE, _TOPIC = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Resource.TOPIC
Method = Callable[..., Any]


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
