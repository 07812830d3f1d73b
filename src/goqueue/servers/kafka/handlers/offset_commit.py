"""OffsetCommit: how far a group has read."""

from __future__ import annotations

from goqueue.errors import GoQueueError, GroupNotFound, IllegalGeneration, TopicIdNotFound
from goqueue.groups.service import NewOffset
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply
from goqueue.servers.kafka.commit_errors import commit_error_code

API = Api(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    gaps=("the retention time of versions 2 to 4 is ignored, as by Kafka since 2.1",),
    order=Order.COMMIT,
)

_TOPIC_IDS_FROM = 10
_GROUP_NOT_FOUND_FROM = 9


async def handle(context: Context, request: Message) -> Reply:
    """Each partition has its own outcome; an error of the group is everybody's."""
    names = [_name(context, topic) for topic in request.topics]
    offsets = [
        NewOffset(
            topic=name,
            partition=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
        )
        for topic, name in zip(request.topics, names, strict=True)
        if isinstance(name, str)
        for one in topic.partitions
    ]
    try:
        stored = await context.services.groups.commit(
            request.group_id,
            offsets,
            member_id=request.member_id,
            generation=request.generation_id_or_member_epoch,
            instance_id=request.group_instance_id,
        )
    except GoQueueError as error:
        stored = (_known_to(context, error),) * len(offsets)
    remaining = iter(stored)
    return {
        "topics": [
            {
                "topic_id": topic.topic_id,
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "error_code": commit_error_code(next(remaining) if isinstance(name, str) else name),
                    }
                    for one in topic.partitions
                ],
            }
            for topic, name in zip(request.topics, names, strict=True)
        ]
    }


def _name(context: Context, topic: Message) -> str | GoQueueError:
    """The topic's name, which from version 10 on must be looked up by id."""
    if context.api_version < _TOPIC_IDS_FROM:
        return str(topic.name)
    try:
        return context.services.topics.by_id(topic.topic_id).name
    except TopicIdNotFound as error:
        return error


def _known_to(context: Context, error: GoQueueError) -> GoQueueError:
    """Older members do not know that a group can be gone; to them their generation is."""
    if isinstance(error, GroupNotFound) and context.api_version < _GROUP_NOT_FOUND_FROM:
        return IllegalGeneration(str(error))
    return error
