"""AlterShareGroupOffsets (KIP-932): let a queue group that nobody is in go on from other offsets."""

from __future__ import annotations

from goqueue.errors import GoQueueError, GroupModeMismatch, GroupNotEmpty
from goqueue.groups.queue.settings import Mode
from goqueue.groups.service import NewOffset
from goqueue.servers.kafka.api import NONE, Api, Context, Message, Order, Reply, failed

API = Api(key=91, name="AlterShareGroupOffsets", versions=(0, 0), order=Order.CHANGE)


async def handle(context: Context, request: Message) -> Reply:
    """One result for each partition; what was delivered and not settled is delivered anew, or passed over."""
    groups, group = context.services.groups, request.group_id
    asked = [
        NewOffset(topic.topic_name, part.partition_index, part.start_offset)
        for topic in request.topics
        for part in topic.partitions
    ]
    try:
        await check_empty_queue(context, group)
        outcomes = iter(await groups.commit(group, asked))
    except GoQueueError as error:
        return {**failed(error), "responses": []}
    responses = []
    for topic in request.topics:
        known = context.services.topics.find(topic.topic_name)
        rows = [_row(part, next(outcomes)) for part in topic.partitions]
        topic_id = known.topic_id if known else None
        responses.append({"topic_name": topic.topic_name, "topic_id": topic_id, "partitions": rows})
    return {"error_code": NONE, "responses": responses}


async def check_empty_queue(context: Context, group: str) -> None:
    """Raise unless the group is a queue without members."""
    described = await context.services.groups.describe(group)
    if described.queue is None:
        raise GroupModeMismatch(group, Mode.STREAM)
    if described.members:
        raise GroupNotEmpty(f"group {group!r} has {len(described.members)} active members: stop them first")


def _row(part: Message, refusal: GoQueueError | None) -> dict[str, object]:
    row: dict[str, object] = {"partition_index": part.partition_index, "error_code": NONE}
    return row if refusal is None else row | failed(refusal)
