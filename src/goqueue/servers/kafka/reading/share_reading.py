"""Reading for share consumers: messages are acquired first, then the parts of batches that hold them are read.

There may be others between them; the consumer keeps the records that it was told to have
acquired. What was acquired and does not fit into the answer is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goqueue.delivery.values import AcquiredRange, Action, RangeSettlement
from goqueue.errors import CoordinatorUnavailable, GoQueueError, NotFound
from goqueue.groups.subscription.topic_partitions import TopicIdPartition
from goqueue.ports import Buffer
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.delivery.lanes.group_lanes import Quotas
    from goqueue.servers.kafka.reading.share_sessions import ShareMember, ShareSession
    from goqueue.servers.services import Services

# How soon partitions are looked at again when none of them can give anything for the moment.
_TROUBLE_SECONDS = 1.0


@dataclass(slots=True)
class SharePart:
    """What one partition gave."""

    batches: list[Buffer] = field(default_factory=list)
    acquired: list[AcquiredRange] = field(default_factory=list)
    error: GoQueueError | None = None


class ShareLimits(NamedTuple):
    """How much one answer may hold, and how long it may take."""

    records: int
    bytes: int
    wait_ms: int
    # Whether there may be more records than that, up to the end of the last batch.
    whole_batches: bool = True


async def read_shared(
    services: Services, member: ShareMember, session: ShareSession, limits: ShareLimits
) -> dict[TopicIdPartition, SharePart]:
    """Messages of the session's partitions, once there are any or the time is up; empty parts are left out."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(limits.wait_ms, services.config.limits.fetch_wait_ms_max) / 1000
    by_lanes = True
    while True:
        found: dict[TopicIdPartition, SharePart] = {}
        places: list[TopicPartition] = []
        records_left, bytes_left = limits.records, min(limits.bytes, services.config.limits.fetch_bytes_max)
        rotated = session.rotated()
        quotas = await _quotas(services, member, rotated, records_left) if by_lanes else None
        for one in rotated:
            part = SharePart()
            try:
                at = TopicPartition(services.topics.by_id(one.topic_id).name, one.partition)
                places.append(at)
                quota = None if quotas is None else quotas.get(at)
                limit = records_left if quota is None else min(sum(quota), records_left)
                asked = limits._replace(records=limit, bytes=bytes_left)
                # What is hidden is settled at once; what lies behind it is there already, so there is no wait for it.
                while limit > 0 and await _fill(services, member, at, part, asked, quota, must=not found):
                    pass
            except GoQueueError as error:
                part.error = error
            if part.acquired or part.error is not None:
                found[one] = part
            records_left -= sum(run.last - run.first + 1 for run in part.acquired)
            bytes_left -= sum(map(len, part.batches))
            if records_left <= 0 or bytes_left <= 0:
                break
        # Others may have been faster at what was planned: then there is one look at all there is before the wait.
        by_lanes = quotas is None
        # What passes is told when the time is up: a consumer that is told at once asks again at once.
        is_over = not all(isinstance(part.error, CoordinatorUnavailable) for part in found.values())
        if not is_over and not by_lanes:
            continue
        seconds_left = deadline - loop.time()
        if is_over or seconds_left <= 0 or not places:
            return found
        # A topic that goes while it is waited for is told in the next round.
        with suppress(NotFound):
            await _wait(services, member[0], places, seconds_left)


async def _wait(services: Services, group: str, places: Sequence[TopicPartition], seconds: float) -> None:
    try:
        await services.delivery.wait(group, places, int(seconds * 1000) + 1)
    except CoordinatorUnavailable:
        # None of them can give anything, and nobody says when one can.
        await asyncio.sleep(min(seconds, _TROUBLE_SECONDS))


async def _quotas(
    services: Services, member: ShareMember, partitions: Sequence[TopicIdPartition], limit: int
) -> Mapping[TopicPartition, Quotas] | None:
    """How many messages of each priority each partition gives; None where each may give what it has."""
    places: list[TopicPartition] = []
    for one in partitions:
        with suppress(NotFound):
            places.append(TopicPartition(services.topics.by_id(one.topic_id).name, one.partition))
    try:
        return await services.delivery.lane_quotas(member[0], places, member[1], limit)
    except GoQueueError:
        # The partition that has the problem is told so when its turn comes.
        return None


async def _fill(
    services: Services,
    member: ShareMember,
    at: TopicPartition,
    part: SharePart,
    asked: ShareLimits,
    quota: Quotas | None,
    *,
    must: bool,
) -> bool:
    """Whether all that was acquired turned out to be hidden or unreadable, so that there may be more."""
    group, consumer = member
    acquired = await services.delivery.acquire(
        group, at, consumer, limit=asked.records, quotas=quota, whole_batches=asked.whole_batches
    )
    if not acquired:
        return False
    try:
        read = await services.delivery.acquired_reads.read(group, at, acquired, asked.bytes, must=must)
    except GoQueueError:
        await _settle(services, member, at, acquired, Action.RELEASE)
        raise
    part.batches = read.batches
    readable, unreadable = _split(_up_to(acquired, read.covered_to), [(one.first, one.last) for one in read.unreadable])
    visible, hidden = _split(readable, read.hidden)
    part.acquired = visible
    services.delivery.acquired_reads.count(at, read, sum(run.last - run.first + 1 for run in visible))
    # What a transaction aborted, its markers, and what has left the log: nobody is ever given them.
    await _settle(services, member, at, hidden, Action.ACK)
    rest = [one._replace(first=max(one.first, read.covered_to + 1)) for one in acquired if one.last > read.covered_to]
    await _settle(services, member, at, rest, Action.RELEASE)
    if unreadable:
        held = [one.first for one in unreadable]
        await services.delivery.set_aside(group, at, consumer, held, read.unreadable)
    return bool(hidden or unreadable) and not visible


def _up_to(acquired: Sequence[AcquiredRange], last: int) -> list[AcquiredRange]:
    return [one._replace(last=min(one.last, last)) for one in acquired if one.first <= last]


def _split(
    acquired: Sequence[AcquiredRange], hidden: Sequence[tuple[int, int]]
) -> tuple[list[AcquiredRange], list[AcquiredRange]]:
    """What of the runs lies outside of the hidden stretches, and what inside; both rise."""
    outside, inside = list(acquired), []
    for first, last in hidden:
        rest = []
        for run in outside:
            if run.last < first or run.first > last:
                rest.append(run)
                continue
            inside.append(run._replace(first=max(run.first, first), last=min(run.last, last)))
            if run.first < first:
                rest.append(run._replace(last=first - 1))
            if run.last > last:
                rest.append(run._replace(first=last + 1))
        outside = rest
    return outside, inside


async def _settle(
    services: Services, member: ShareMember, at: TopicPartition, ranges: Sequence[AcquiredRange], action: Action
) -> None:
    if ranges:
        group, consumer = member
        settlements = [RangeSettlement(one.first, one.last, action) for one in ranges]
        await services.delivery.settle_ranges(group, at, consumer, settlements)
