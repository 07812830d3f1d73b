"""What the controller writes, worked out from one image: the order of it, and what waits for nothing."""

from __future__ import annotations

from uuid import UUID

from goqueue.cluster.control.plan import Plan, decide
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    FeatureFinalised,
    Node,
    NodeChanged,
    SessionChanged,
    Topic,
    TopicCreated,
)
from goqueue.metadata.features import KNOWN_LEVELS, METADATA_VERSION
from goqueue.metadata.image import Image

TOPIC = Topic("orders", UUID(int=1), 1, 3, {"min.insync.replicas": "2"})


def image_with(*, features: dict[str, int], alive: tuple[int, ...]) -> Image:
    """Three registered nodes, some of them with a session, and one partition that was in sync on nodes 1 and 2."""
    image = Image()
    image.apply(TopicCreated(TOPIC, (Assignment(leader=1, leader_epoch=0, replicas=(1, 2, 3), isr=(1, 2)),)), 1)
    for node_id in (1, 2, 3):
        node = Node(node_id, UUID(int=node_id), features=features, broker_epoch=node_id, fenced=False)
        image.apply(NodeChanged(node_id, node), 1)
        if node_id in alive:
            image.apply(SessionChanged(node_id, node_id), 1)
    return image


def planned(image: Image) -> Plan:
    return decide(image, 0, calm_since_ms=0, return_after_ms=-1)


def changed(plan: Plan) -> list[Assignment]:
    events = [event for batch in plan.batches for event in batch.events]
    return [one for event in events if isinstance(event, AssignmentsChanged) for one in event.assignments.values()]


def finalised(plan: Plan) -> dict[str, int]:
    events = [event for batch in plan.batches for event in batch.events]
    return {event.name: event.level for event in events if isinstance(event, FeatureFinalised)}


def test_a_change_of_partitions_does_not_hold_up_the_levels_of_features() -> None:
    plan = planned(image_with(features=dict(KNOWN_LEVELS), alive=(1, 3)))
    assert finalised(plan) == dict(KNOWN_LEVELS)
    assert [one.isr for one in changed(plan)] == [(1,)]


def test_before_the_level_is_finalised_nobody_is_written_down_as_eligible() -> None:
    """An older node beside us would forget the list, and a plan that cannot be written holds up every election."""
    plan = planned(image_with(features={METADATA_VERSION: 0}, alive=(1, 3)))
    assert finalised(plan) == {}
    assert [(one.leader, one.isr, one.eligible) for one in changed(plan)] == [(1, (1,), ())]


def test_after_it_is_finalised_whoever_leaves_below_the_minimum_is_eligible() -> None:
    image = image_with(features=dict(KNOWN_LEVELS), alive=(1, 3))
    for name, level in KNOWN_LEVELS.items():
        image.apply(FeatureFinalised(name, level), 1)
    assert [(one.leader, one.isr, one.eligible) for one in changed(planned(image))] == [(1, (1,), (2,))]


def test_levels_are_raised_in_the_same_order_in_every_process() -> None:
    """A set of names has another order in each process: a seed would not repeat a run."""
    image = image_with(features=dict(KNOWN_LEVELS), alive=(1, 2, 3))
    assert list(finalised(planned(image))) == sorted(KNOWN_LEVELS)
