"""Administration of replicas: elect leaders, and change which nodes hold a partition. Any node can be asked.

A change is one guarded write. What follows from it (replicas that catch up, the leader that changes when they have) is
the work of the leader and of the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from goqueue.cluster.control.elections import forced, preferred
from goqueue.cluster.control.plan import Change, batches, nodes_of
from goqueue.cluster.control.replicas import without_strangers
from goqueue.errors import (
    ElectionNotNeeded,
    GuardFailed,
    InvalidReplicaAssignment,
    LeaderNotElectable,
    NoReassignment,
    PartitionNotFound,
    TooBusy,
    TopicNotFound,
)
from goqueue.metadata.eligibility import eligible_of
from goqueue.metadata.events import Assignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goqueue.metadata.image import Image
    from goqueue.metadata.store import MetadataStore
    from goqueue.records import TopicPartition

_ATTEMPTS_MAX = 100


class ReplicaAdministration:
    """Changes of assignments that an operator asks for."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata

    async def elect(self, place: TopicPartition, *, unclean: bool = False) -> Assignment:
        """Let the first replica lead, or with `unclean`, of a partition without a leader, any that lives.

        An unclean leader may lack records that were acknowledged: they are lost.
        """

        def plan(one: Assignment, image: Image) -> Assignment:
            nodes = nodes_of(image)
            if unclean:
                if one.leader >= 0:
                    raise ElectionNotNeeded(f"node {one.leader} leads {place}")
                found = forced(one, nodes)
            else:
                if one.leader == one.replicas[0]:
                    raise ElectionNotNeeded(f"node {one.leader} leads {place}, and is its first replica")
                found = preferred(one, nodes)
            if found is None:
                raise LeaderNotElectable(f"no replica of {place} that may lead it is alive and in sync")
            return found

        return await self._change(place, plan)

    async def reassign(self, place: TopicPartition, replicas: Sequence[int]) -> Assignment:
        """Let these nodes hold the partition: those that are new catch up first, the others go when they have.

        Replicas that stay are in the order asked for at once, the preferred leader first. New ones come behind them.
        """

        def plan(one: Assignment, image: Image) -> Assignment:
            unknown = sorted(set(replicas) - image.nodes().keys())
            if not replicas or len(set(replicas)) != len(replicas) or unknown:
                problem = f"nodes {unknown} are not known" if unknown else f"{list(replicas)} are not different nodes"
                raise InvalidReplicaAssignment(f"{place} cannot be on {list(replicas)}: {problem}", field="replicas")
            held = one.replicas
            leaving = tuple(node for node in held if node not in replicas)
            changed = structs.replace(
                one,
                replicas=(*(node for node in replicas if node in held), *leaving),
                adding=tuple(node for node in replicas if node not in held),
                removing=leaving,
            )
            return without_strangers(place, changed, image)

        return await self._change(place, plan)

    async def cancel_reassignment(self, place: TopicPartition) -> Assignment:
        """Leave the replicas as they are."""

        def plan(one: Assignment, image: Image) -> Assignment:
            if not one.adding and not one.removing:
                raise NoReassignment(f"the replicas of {place} are not being changed")
            return without_strangers(place, structs.replace(one, adding=(), removing=()), image)

        return await self._change(place, plan)

    def reassignments(self) -> Iterator[tuple[str, int, Assignment]]:
        """Partitions whose replicas are being changed."""
        image = self._metadata.image
        for topic in image.topics():
            for number, one in enumerate(image.assignments(topic.topic_id)):
                if one.adding or one.removing:
                    yield topic.name, number, one

    async def _change(self, place: TopicPartition, plan: Callable[[Assignment, Image], Assignment]) -> Assignment:
        for _ in range(_ATTEMPTS_MAX):
            image = self._metadata.image
            topic = image.topic(place.topic)
            if topic is None:
                raise TopicNotFound(place.topic)
            if not 0 <= place.partition < topic.partition_count:
                raise PartitionNotFound(place.topic, place.partition)
            one = image.assignments(topic.topic_id)[place.partition]
            # A list from before a change of the minimum must not be written anew: it would be believed again.
            believed = structs.replace(one, eligible=eligible_of(image, topic, one))
            changed = plan(believed, image)
            if changed == one:
                return one
            (batch,) = batches(image, [Change(topic, place.partition, one, changed)])
            try:
                await self._metadata.commit(batch.events, batch.guards)
            except GuardFailed:
                continue
            return changed
        raise TooBusy(f"the assignment of {place} changed {_ATTEMPTS_MAX} times meanwhile; nothing was changed")
