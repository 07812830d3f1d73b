"""Replicas: a replication factor is raised or lowered while everything runs, partition by partition.

A change is written as `adding` and `removing`. New replicas copy the log; when all of them are in sync the controller
completes the change (`elections.moved`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from msgspec import structs

from goqueue.cluster.control.elections import NO_LEADER
from goqueue.cluster.control.placement import ClusterPlacement, Load, spread_evenly
from goqueue.cluster.control.plan import Change, batches, nodes_of
from goqueue.errors import (
    GuardFailed,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    TooBusy,
    TopicNotFound,
)
from goqueue.metadata.eligibility import MIN_INSYNC, eligible_of, min_insync_of
from goqueue.metadata.events import Assignment, AssignmentsChanged, Topic, TopicConfigChanged
from goqueue.metadata.image import Image
from goqueue.metadata.keys import settings_key
from goqueue.metadata.store import Guard, MetadataStore
from goqueue.records import TopicPartition

ATTEMPTS_MAX = 100

# What is to change in a topic, worked out from an image.
Plan = Callable[[Image, Topic], Iterator[Change]]


class ReplicaChanges:
    """Begins to add or remove copies; the controller ends it."""

    def __init__(self, metadata: MetadataStore, placement: ClusterPlacement) -> None:
        self._metadata = metadata
        self._placement = placement

    async def raise_copies(self, topic: str, copies: int) -> int:
        """Add copies to every partition that has fewer; returns how many those are."""
        copies = self._placement.copies(copies)

        def plan(image: Image, found: Topic) -> Iterator[Change]:
            load = Load(image)
            for number, before in enumerate(image.assignments(found.topic_id)):
                more = self._placement.more(before, copies, load)
                load.holds.update(more)
                if more:
                    target = (*before.replicas, *before.adding, *more)
                    yield self._changed(image, found, number, before, target)

        return await self._commit(topic, plan)

    async def lower_copies(self, topic: str, copies: int) -> int:
        """Remove copies from every partition that has more; returns how many those are.

        Copies that are in sync stay before others, and in the order of their preference.
        """
        copies = self._placement.copies(copies)

        def plan(image: Image, found: Topic) -> Iterator[Change]:
            for number, before in enumerate(image.assignments(found.topic_id)):
                wanted = min_insync_of(found, before)
                if wanted > copies:
                    raise InvalidReplicationFactor(
                        f"{copies} replicas are fewer than min.insync.replicas={wanted} of topic {topic!r}",
                        field="replication_factor",
                        hint=f"first: goqueue topic alter {topic} --config {MIN_INSYNC}={copies}",
                    )
                if len(before.replicas) > copies:
                    in_sync = [node for node in before.replicas if node in before.isr]
                    others = [node for node in before.replicas if node not in before.isr]
                    kept = set([*in_sync, *others][:copies])
                    target = tuple(node for node in before.replicas if node in kept)
                    yield self._changed(image, found, number, before, target)

        return await self._commit(topic, plan)

    async def spread(self, topic: str, numbers: Collection[int]) -> int:
        """Choose anew which copy is preferred as leader of these partitions, and which comes next; returns the changed.

        For copies that were added to those of one node: it would lead all partitions, and the same node inherit them.
        """

        def plan(image: Image, found: Topic) -> Iterator[Change]:
            others = [one for number, one in enumerate(image.assignments(found.topic_id)) if number not in numbers]
            leads = Counter(one.replicas[0] for one in others)
            load = Load(image, without={found.topic_id: numbers})
            for number, before in enumerate(image.assignments(found.topic_id)):
                if number in numbers:
                    replicas = spread_evenly(before, leads, load)
                    leads[replicas[0]] += 1
                    eligible = eligible_of(image, found, before)
                    load.add(after := structs.replace(before, replicas=replicas, eligible=eligible))
                    yield Change(found, number, before, after)

        return await self._commit(topic, plan)

    async def raise_minimum(self, name: str, copies: int) -> None:
        """Let two copies be the minimum for acks=all, unless the topic says. Not before they are there."""
        for _ in range(ATTEMPTS_MAX):
            image = self._metadata.image
            topic = image.topic(name)
            if topic is None or MIN_INSYNC in topic.config:
                return
            config = {**self._placement.settings(copies), **topic.config}
            key = settings_key(topic.topic_id)
            try:
                await self._metadata.commit(
                    [TopicConfigChanged(name, topic.topic_id, config)], [Guard(key, image.revision_of(key))]
                )
            except GuardFailed:
                continue
            return

    def _changed(self, image: Image, topic: Topic, number: int, before: Assignment, target: tuple[int, ...]) -> Change:
        after = structs.replace(
            before,
            eligible=eligible_of(image, topic, before),
            adding=tuple(node for node in target if node not in before.replicas),
            removing=tuple(node for node in before.replicas if node not in target),
        )
        # A node that was being added, and is not wanted any more, may be in sync.
        after = without_strangers(TopicPartition(topic.name, number), after, image)
        return Change(topic, number, before, after)

    async def _commit(self, name: str, plan: Plan) -> int:
        done = 0
        for _ in range(ATTEMPTS_MAX):
            image = self._metadata.image
            topic = image.topic(name)
            if topic is None:
                raise TopicNotFound(name)
            changes = [one for one in plan(image, topic) if one.after != one.before]
            try:
                for batch in batches(image, changes):
                    await self._metadata.commit(batch.events, batch.guards)
                    done += sum(len(one.assignments) for one in batch.events if isinstance(one, AssignmentsChanged))
            except GuardFailed:
                continue
            return done
        raise TooBusy(f"metadata changed {ATTEMPTS_MAX} times while replicas were being changed")


def without_strangers(place: TopicPartition, one: Assignment, image: Image) -> Assignment:
    """The assignment in which only nodes count that hold the partition: a node that was being added may do so no more.

    Refused while none of those that stay has everything, or while none of them can lead: what was acknowledged would be
    lost with the nodes that go.
    """
    holders = (*one.replicas, *one.adding)
    isr = tuple(node for node in one.isr if node in holders)
    electable = nodes_of(image).electable
    leader = one.leader
    if leader not in (*holders, NO_LEADER):
        leader = next((node for node in holders if node in isr and node in electable), NO_LEADER)
    if not isr or (leader == NO_LEADER and one.leader != NO_LEADER):
        raise InvalidReplicaAssignment(
            f"only nodes {list(one.isr)} have all records of {place}, and none of them that stays can lead: wait until "
            "another replica is in sync",
            field="replicas",
        )
    return structs.replace(
        one,
        leader=leader,
        leader_epoch=one.leader_epoch + (leader != one.leader),
        isr=isr,
        eligible=tuple(node for node in one.eligible if node in holders),
    )


def progress(image: Image) -> list[tuple[str, int, Assignment]]:
    """Every partition whose replicas are being changed."""
    return [
        (topic.name, number, one)
        for topic in image.topics()
        for number, one in enumerate(image.assignments(topic.topic_id))
        if one.adding or one.removing
    ]
