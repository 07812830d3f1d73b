"""The plan: all that the controller has to write, worked out from one image. Pure.

Order matters. First every partition is brought in line with the nodes that live. Only when nothing of that is left
are registered nodes unfenced: by then no in-sync set counts on what they had before they started. Leaders return to
their preferred replica last, when no node has come or gone for a while. Levels of features wait for nothing: a change
that needs a level must not stand in front of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import structs

from goqueue.cluster.control.elections import Nodes, Rules, elected, is_settled, is_unclean, moved, preferred
from goqueue.metadata import keys
from goqueue.metadata.eligibility import eligible_of, min_insync_of, storable
from goqueue.metadata.events import Assignment, AssignmentsChanged, Event, FeatureFinalised, Node, NodeChanged, Topic
from goqueue.metadata.image import Image
from goqueue.metadata.store import Guard, SessionGuard

# With their guards, those of the topics' settings and those of the sessions, so many fit into one transaction of etcd.
PARTITIONS_PER_BATCH = 50
# Leaders return a few at a time, so that clients are not all redirected at once.
RETURNS_MAX = 200

UNCLEAN = "unclean.leader.election.enable"


class Batch(msgspec.Struct, frozen=True):
    """Events of one transaction, with the guards under which they are right."""

    events: tuple[Event, ...]
    guards: tuple[Guard | SessionGuard, ...]


class Change(msgspec.Struct, frozen=True):
    """What becomes of one partition."""

    topic: Topic
    partition: int
    before: Assignment
    after: Assignment
    # Whether acknowledged records may be lost by it.
    is_unclean: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What is to be written now. Nothing: look again at `wake_at_ms`, or when the image has changed."""

    batches: tuple[Batch, ...] = ()
    unclean: tuple[Change, ...] = ()
    wake_at_ms: int | None = None


def nodes_of(image: Image) -> Nodes:
    """Who may lead: has a session, and was unfenced in it."""
    registered = image.nodes()
    return Nodes(
        electable=frozenset(node_id for node_id, node in registered.items() if is_electable(image, node)),
        emptied=frozenset(node_id for node_id, node in registered.items() if node.is_emptied),
    )


def is_electable(image: Image, node: Node) -> bool:
    """Whether this node may lead and be in sync."""
    return not node.fenced and image.sessions.get(node.node_id) == node.broker_epoch


def decide(image: Image, now_ms: int, *, calm_since_ms: int, return_after_ms: int) -> Plan:
    """All that has to be written. `calm_since_ms` is when a node last came or went."""
    features = tuple(_features(image))
    changes = list(_changes(image, nodes_of(image)))
    if changes:
        unclean = tuple(one for one in changes if one.is_unclean)
        return Plan((*features, *batches(image, changes)), unclean)
    others = (*_unfenced(image), *features)
    if others or return_after_ms < 0:
        return Plan(others)
    due_ms = calm_since_ms + return_after_ms
    returns = list(_returns(image))
    if not returns:
        return Plan()
    return Plan(batches(image, returns[:RETURNS_MAX])) if now_ms >= due_ms else Plan(wake_at_ms=due_ms)


def batches(image: Image, changes: Sequence[Change]) -> tuple[Batch, ...]:
    """The changes as transactions, each guarded by what it was worked out from."""
    return tuple(
        _batch(image, changes[at : at + PARTITIONS_PER_BATCH]) for at in range(0, len(changes), PARTITIONS_PER_BATCH)
    )


def _changes(image: Image, nodes: Nodes) -> Iterator[Change]:
    for topic in image.topics():
        unclean = topic.config.get(UNCLEAN) == "true"
        for partition, one in enumerate(image.assignments(topic.topic_id)):
            if is_settled(one, nodes):
                continue
            eligible = eligible_of(image, topic, one)
            after = elected(one, eligible, nodes, Rules(min_insync_of(topic, one), unclean))
            after = storable(image, moved(after, nodes))
            if after != one:
                yield Change(topic, partition, one, after, is_unclean(one, eligible, after))


def _batch(image: Image, changes: Sequence[Change]) -> Batch:
    by_topic: dict[str, tuple[Topic, dict[int, Assignment]]] = {}
    guards: dict[str, Guard | SessionGuard] = {}
    for one in changes:
        topic = one.topic
        by_topic.setdefault(topic.name, (topic, {}))[1][one.partition] = one.after
        key = keys.partition_key(topic.topic_id, one.partition)
        guards[key] = Guard(key, one.before.partition_epoch)
        if one.after.eligible:
            settings = keys.settings_key(topic.topic_id)
            guards[settings] = Guard(settings, image.revision_of(settings))
        if one.after.leader != one.before.leader and one.after.leader in image.sessions:
            # Whoever starts again meanwhile, perhaps with another directory, must not find itself elected.
            session = keys.session_key(one.after.leader)
            guards[session] = SessionGuard(session, image.sessions[one.after.leader])
    events = [AssignmentsChanged(name, topic.topic_id, changed) for name, (topic, changed) in by_topic.items()]
    return Batch(tuple(events), tuple(guards.values()))


def _unfenced(image: Image) -> Iterator[Batch]:
    for node_id, node in image.nodes().items():
        # One with the token of a clean stop is about to leave.
        if not node.fenced or node.clean_token or image.sessions.get(node_id) != node.broker_epoch:
            continue
        key, session = keys.node_key(node_id), keys.session_key(node_id)
        yield Batch(
            (NodeChanged(node_id, structs.replace(node, fenced=False, is_emptied=False)),),
            (Guard(key, image.revision_of(key)), SessionGuard(session, node.broker_epoch)),
        )


def _features(image: Image) -> Iterator[Batch]:
    """Raise every level to what all registered nodes know, living or not."""
    nodes = list(image.nodes().values())
    levels = image.feature_levels()
    for name in sorted({name for node in nodes for name in node.features}):
        level = min(node.features.get(name, 0) for node in nodes)
        if level > levels.get(name, 0):
            guards = [Guard(keys.node_key(one.node_id), image.revision_of(keys.node_key(one.node_id))) for one in nodes]
            yield Batch((FeatureFinalised(name, level),), tuple(guards))


def _returns(image: Image) -> Iterator[Change]:
    nodes = nodes_of(image)
    for topic in image.topics():
        for partition, one in enumerate(image.assignments(topic.topic_id)):
            after = preferred(one, nodes)
            if after is not None:
                yield Change(topic, partition, one, after)
