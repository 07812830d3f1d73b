"""DescribeShareGroupOffsets (KIP-932): the lowest offset that a queue group has not settled, and its lag."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from goqueue.errors import GoQueueError, GroupModeMismatch, GroupNotFound
from goqueue.groups.commands import CommittedOffsets
from goqueue.groups.queue.settings import Mode
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, failed

API = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=(0, 1),
    gaps=("lag counts every offset above the lowest that is not settled, those settled out of order too",),
)

# Of a partition that the group has never received from.
_NOWHERE = -1


async def handle(context: Context, request: Message) -> Reply:
    """One answer for each group asked for."""
    return {"groups": await asyncio.gather(*(_described(context, one) for one in request.groups))}


async def _described(context: Context, wanted: Message) -> dict[str, object]:
    groups, group = context.services.groups, wanted.group_id
    try:
        mode = await groups.mode(group)
        if mode is None:
            raise GroupNotFound(group)
        if mode is not Mode.QUEUE:
            raise GroupModeMismatch(group, mode)
        places = None
        if wanted.topics is not None:
            places = [TopicPartition(one.topic_name, number) for one in wanted.topics for number in one.partitions]
            places = [at for at in places if _exists(context, at)]
        found = await groups.fetch_offsets(group, places)
    except GoQueueError as error:
        return {"group_id": group, "topics": [], **failed(error)}
    topics: dict[str, list[int]] = {}
    for at in sorted(found if wanted.topics is None else ()):
        topics.setdefault(at.topic, []).append(at.partition)
    for one in wanted.topics or ():
        topics[one.topic_name] = list(one.partitions)
    ends = await _ends(context, [TopicPartition(name, one) for name, numbers in topics.items() for one in numbers])
    rows = [_topic(context, *one, found, ends) for one in topics.items()]
    return {"group_id": group, "error_code": NONE, "topics": rows}


async def _ends(context: Context, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int | GoQueueError]:
    """Up to where each can be read, or why nobody can say; every leader is asked."""
    facts = context.services.partitions
    try:
        return {at: one.last_stable_offset for at, one in (await facts.bounds(places)).items()}
    except GoQueueError as error:
        if len(places) == 1:
            return {places[0]: error}
    # One of them refused for all: each for itself.
    outcomes = await asyncio.gather(*(_ends(context, [at]) for at in places))
    return {at: one for outcome in outcomes for at, one in outcome.items()}


def _topic(
    context: Context,
    name: str,
    partitions: list[int],
    found: CommittedOffsets,
    ends: Mapping[TopicPartition, int | GoQueueError],
) -> Mapping[str, object]:
    topic = context.services.topics.find(name)
    rows: list[dict[str, object]] = []
    for number in partitions:
        at = TopicPartition(name, number)
        row: dict[str, object] = {"partition_index": number, "start_offset": _NOWHERE, "error_code": NONE}
        end, committed = ends[at], found.get(at)
        if isinstance(end, GoQueueError):
            row |= failed(end)
        elif committed is not None:
            row |= {"start_offset": committed.offset, "lag": max(0, end - committed.offset)}
        rows.append(row)
    return {"topic_name": name, "topic_id": topic.topic_id if topic else None, "partitions": rows}


def _exists(context: Context, at: TopicPartition) -> bool:
    topic = context.services.topics.find(at.topic)
    return topic is not None and 0 <= at.partition < topic.partition_count
