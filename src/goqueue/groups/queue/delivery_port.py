"""What groups ask of whoever delivers messages to queue groups. The node hands it in.

A queue group has no committed offsets of its own: where it stands is what delivery has not
settled. And whoever delivers must hear when a member or a whole group is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from goqueue.errors import GoQueueError
from goqueue.records import TopicPartition


class QueuePositions(Protocol):
    """Where queue groups stand, as groups see it."""

    async def committed(self, group: str, places: Sequence[TopicPartition] | None) -> Mapping[TopicPartition, int]:
        """The lowest unsettled offset of these partitions, or of all that the group has received from."""
        ...

    async def unsettled(self, group: str, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """How many messages of these partitions are not settled, where the group has received from them."""
        ...

    async def reset(self, group: str, offsets: Mapping[TopicPartition, int], incarnation: int = 0) -> None:
        """Begin again at these offsets; refused while anything is in flight. `incarnation` tells which group it is."""
        ...

    async def forget(self, group: str) -> None:
        """The group is being deleted. May be asked again after a crash."""
        ...

    async def forget_topic(self, group: str, topic: str) -> bool:
        """Let the group begin the topic anew; refused while anything is in flight. Whether it ever read it."""
        ...


class QueueDelivery(Protocol):
    """Delivery, as groups see it."""

    async def release_consumer(self, group: str, consumer: str) -> None:
        """A member is gone: what it holds can be given to others at once."""
        ...


class Releases:
    """Tells delivery of members that are gone, without letting the group wait for it."""

    def __init__(self, delivery: QueueDelivery) -> None:
        self._delivery = delivery
        self._under_way: set[asyncio.Task[None]] = set()

    def departed(self, group: str, member_id: str) -> None:
        """A member of a queue group is out."""
        task = asyncio.get_running_loop().create_task(self._release(group, member_id))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def close(self) -> None:
        """Let what is under way come to its end."""
        await asyncio.gather(*self._under_way)

    async def _release(self, group: str, member_id: str) -> None:
        try:
            await self._delivery.release_consumer(group, member_id)
        except GoQueueError:
            # Its leases run out by themselves, only later.
            return
