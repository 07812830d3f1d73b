"""OffsetFetch: how far a group, or from version 8 on many groups, have read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from goqueue.errors import GoQueueError, TopicIdNotFound, UnstableOffset
from goqueue.groups.commands import CommittedOffset, CommittedOffsets
from goqueue.records import TopicPartition
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Reply, error_code

API = Api(key=9, name="OffsetFetch", versions=(1, 10))

_MANY_GROUPS_FROM = 8
_TOPIC_IDS_FROM = 10


class _Answer(NamedTuple):
    """What one group has to say."""

    topics: list[dict[str, object]]
    error_code: int


async def handle(context: Context, request: Message) -> Reply:
    """Partitions without an offset are answered with -1."""
    if context.api_version < _MANY_GROUPS_FROM:
        answer = await _of_group(context, request.group_id, request.topics, require_stable=request.require_stable)
        # Topics of the older form have no id, in no version.
        topics = [{"name": one["name"], "partitions": one["partitions"]} for one in answer.topics]
        return {"topics": topics, "error_code": answer.error_code}
    answers = await asyncio.gather(
        *(
            _of_group(
                context,
                one.group_id,
                one.topics,
                one.member_id,
                one.member_epoch,
                require_stable=request.require_stable,
            )
            for one in request.groups
        )
    )
    return {
        "groups": [
            {"group_id": one.group_id, "topics": answer.topics, "error_code": answer.error_code}
            for one, answer in zip(request.groups, answers, strict=True)
        ]
    }


async def _of_group(
    context: Context,
    group: str,
    topics: Sequence[Message] | None,
    member_id: str | None = None,
    member_epoch: int = -1,
    *,
    require_stable: bool,
) -> _Answer:
    named = None if topics is None else [(_name(context, topic), topic) for topic in topics]
    wanted = None
    if named is not None:
        wanted = [
            TopicPartition(name, partition)
            for name, topic in named
            if name is not None
            for partition in topic.partition_indexes
        ]
    try:
        found = await context.services.groups.fetch_offsets(
            group, wanted, member_id=member_id, member_epoch=member_epoch, require_stable=require_stable
        )
    except UnstableOffset as error:
        return _Answer(_unstable(named, error), NONE)
    except GoQueueError as error:
        return _Answer([], error_code(error))
    answered = _all_topics(found) if named is None else [_topic(name, topic, found) for name, topic in named]
    return _Answer(answered, NONE)


def _unstable(named: list[tuple[str | None, Message]] | None, error: UnstableOffset) -> list[dict[str, object]]:
    """The client asks again for all of it, so no partition is answered with an offset."""
    row = {**_partition(-1, None), "error_code": error_code(error)}
    if named is not None:
        return [
            {
                "topic_id": getattr(topic, "topic_id", None),
                "name": name or "",
                "partitions": [{**row, "partition_index": partition} for partition in topic.partition_indexes],
            }
            for name, topic in named
        ]
    return [
        {"topic_id": None, "name": topic, "partitions": [{**row, "partition_index": one} for _, one in places]}
        for topic, places in groupby(error.partitions, key=lambda place: place[0])
    ]


def _name(context: Context, topic: Message) -> str | None:
    if context.api_version < _TOPIC_IDS_FROM:
        return str(topic.name)
    try:
        return context.services.topics.by_id(topic.topic_id).name
    except TopicIdNotFound:
        return None


def _topic(name: str | None, topic: Message, found: CommittedOffsets) -> dict[str, object]:
    partitions = [
        _partition(partition, found.get(TopicPartition(name, partition)))
        if name is not None
        else {**_partition(partition, None), "error_code": error_code(TopicIdNotFound())}
        for partition in topic.partition_indexes
    ]
    return {"topic_id": getattr(topic, "topic_id", None), "name": name or "", "partitions": partitions}


def _all_topics(found: CommittedOffsets) -> list[dict[str, object]]:
    by_topic: dict[tuple[str, UUID], list[dict[str, object]]] = {}
    for (topic, partition), committed in sorted(found.items(), key=lambda item: item[0]):
        by_topic.setdefault((topic, committed.topic_id), []).append(_partition(partition, committed))
    return [
        {"topic_id": topic_id, "name": topic, "partitions": partitions}
        for (topic, topic_id), partitions in by_topic.items()
    ]


def _partition(partition: int, committed: CommittedOffset | None) -> dict[str, object]:
    return {
        "partition_index": partition,
        "committed_offset": -1 if committed is None else committed.offset,
        "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": NONE,
    }
