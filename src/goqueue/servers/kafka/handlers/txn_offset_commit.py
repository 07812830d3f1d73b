"""TxnOffsetCommit: how far a group has read, from the transaction's commit on."""

from __future__ import annotations

from goqueue.coordinator.shard import Transaction
from goqueue.errors import GoQueueError, GroupNotFound, IllegalGeneration
from goqueue.groups.service import NewOffset
from goqueue.security.model import Operation, Resource
from goqueue.servers.kafka.admitted import require_owner
from goqueue.servers.kafka.api import Api, Context, Message, Order, Reply
from goqueue.servers.kafka.commit_errors import commit_error_code
from goqueue.transactions.commands import Producer

API = Api(key=28, name="TxnOffsetCommit", versions=(0, 5), order=Order.COMMIT)

# From this version on clients leave it to the server to add the group to the transaction (KIP-890).
_IMPLICIT_FROM = 5


async def handle(context: Context, request: Message) -> Reply:
    """Each partition has its own outcome; an error of the group or the transaction is everybody's."""
    offsets = [
        NewOffset(
            topic=topic.name,
            partition=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
        )
        for topic in request.topics
        for one in topic.partitions
    ]
    try:
        context.services.access.require(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        await require_owner(context, request.producer_id)
        producer = Producer(request.producer_id, request.producer_epoch)
        await context.services.transactions.join_offsets(
            request.transactional_id, producer, request.group_id, implicit=context.api_version >= _IMPLICIT_FROM
        )
        stored = await context.services.groups.commit_in_transaction(
            request.group_id,
            offsets,
            Transaction(request.producer_id, request.producer_epoch),
            member_id=request.member_id,
            generation=request.generation_id,
            instance_id=request.group_instance_id,
        )
    except GroupNotFound as error:
        # Members do not know in this API that a group can be gone; to them their generation is.
        stored = (IllegalGeneration(str(error)),) * len(offsets)
    except GoQueueError as error:
        stored = (error,) * len(offsets)
    remaining = iter(stored)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": one.partition_index, "error_code": commit_error_code(next(remaining))}
                    for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
