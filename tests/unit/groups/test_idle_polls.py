"""A member that owns no partition polls: it waits, and holds up nobody else on the event loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from goqueue.groups.descriptions import ConsumerDescription, ConsumerMemberDescription, GroupState
from goqueue.groups.polls import GroupPolls, Poll
from goqueue.node.system_clock import SystemClock

NOTHING: frozenset[Any] = frozenset()
MEMBER = ConsumerMemberDescription("m", None, None, 1, "c", "h", ("orders",), "", NOTHING, NOTHING, NOTHING)


class Group:
    """A group that answers at once, with one member that owns nothing."""

    def __init__(self) -> None:
        self.described = 0

    async def describe(self, group: str) -> ConsumerDescription:
        self.described += 1
        return ConsumerDescription(group, GroupState.STABLE, 1, "uniform", (MEMBER,))


async def test_a_member_without_partitions_waits_and_lets_others_work() -> None:
    """A read of nothing is answered at once: the poll went round and round, and the whole node stood still."""
    group = Group()
    polls = GroupPolls(*cast("Any", (group, None, None, None, SystemClock())))
    others = 0

    async def work() -> None:
        nonlocal others
        while True:
            await asyncio.sleep(0.01)
            others += 1

    working = asyncio.create_task(work())
    polled = await polls.poll(Poll("g", "m", 1, limit=10, max_bytes=1000, wait_ms=400))
    working.cancel()
    assert polled.records == {}
    assert 2 <= group.described <= 8, "it looks again now and then, for partitions that it is given"
    assert others >= 5


async def test_a_poll_without_a_wait_is_answered_at_once() -> None:
    group = Group()
    polls = GroupPolls(*cast("Any", (group, None, None, None, SystemClock())))
    assert (await polls.poll(Poll("g", "m", 1, limit=10, max_bytes=1000, wait_ms=0))).records == {}
    assert group.described == 1
