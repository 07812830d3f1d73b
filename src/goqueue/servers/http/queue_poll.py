"""A member's poll of a queue group: messages with receipts, from the partitions that are its to take from.

Exclusive members take from the partitions assigned to them; shared members from every
partition of the topics they subscribe to.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from goqueue.delivery.values import Delivery, Receive
from goqueue.errors import PartitionNotFound, TopicNotFound
from goqueue.records import TopicPartition
from goqueue.servers.services import Services

# Membership is looked at again this often while a poll waits, so that nothing is taken from a lost partition for long.
_SLICE_MS = 3_000


@dataclass(frozen=True, slots=True)
class QueuePoll:
    """What a member asks for."""

    group: str
    member_id: str
    generation: int
    limit: int
    max_bytes: int
    wait_ms: int
    visibility_ms: int | None = None
    paused: Collection[TopicPartition] = frozenset()


async def poll_queue(services: Services, poll: QueuePoll) -> tuple[list[Delivery], int]:
    """Messages for the member and its generation, waiting for the first up to `wait_ms`."""
    until_ms = services.clock.monotonic_ms() + poll.wait_ms
    refused: frozenset[TopicPartition] | None = None
    while True:
        owned, generation = await services.group_polls.assignment(poll.group, poll.member_id, poll.generation)
        left_ms = max(0, until_ms - services.clock.monotonic_ms())
        try:
            found = await services.delivery.receive(
                Receive(
                    group=poll.group,
                    consumer=poll.member_id,
                    places=sorted(owned - frozenset(poll.paused)),
                    limit=poll.limit,
                    max_bytes=poll.max_bytes,
                    wait_ms=min(left_ms, _SLICE_MS),
                    visibility_ms=poll.visibility_ms,
                )
            )
        except (TopicNotFound, PartitionNotFound):
            if owned == refused:
                raise
            # One of its topics was deleted while it waited: what the member owns now is without it.
            refused = owned
            continue
        if found or left_ms <= _SLICE_MS:
            return found, generation
