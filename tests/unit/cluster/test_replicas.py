"""A replication factor is raised: copies are added, counted when they are in sync, and the minimum follows."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random
from uuid import UUID

import pytest
from msgspec import structs

from goqueue.cluster.control.placement import ClusterPlacement, Load, spread_evenly
from goqueue.cluster.control.plan import decide
from goqueue.cluster.control.replicas import ReplicaChanges, progress
from goqueue.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from goqueue.metadata.events import (
    Assignment,
    AssignmentsChanged,
    FeatureFinalised,
    Node,
    NodeChanged,
    Topic,
    TopicConfigChanged,
    TopicCreated,
)
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.image import Image
from goqueue.metadata.keys import session_key
from goqueue.metadata.shared.kv import Put
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.testing.kv_model import KvModel

TOPIC = UUID(int=9)
ALONE = Assignment(leader=1, leader_epoch=3, replicas=(1,), isr=(1,))


async def test_one_copy_becomes_three_once_the_new_ones_are_in_sync() -> None:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    for number in (1, 2, 3):
        began = await store.transact([], [Put(session_key(number), b"")])
        node = Node(number, UUID(int=number), broker_epoch=began.revision, fenced=False)
        await store.commit([NodeChanged(number, node)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2)])
    await store.commit([TopicCreated(Topic("t", TOPIC, 60), (ALONE,) * 60)])
    placement = ClusterPlacement(lambda: store.image, (1, 2, 3), copies_default=0, min_insync=0)

    await ReplicaChanges(store, placement).raise_copies("t", 3)

    assert len(progress(store.image)) == 60
    begun = store.image.assignments(TOPIC)
    assert {(one.replicas, frozenset(one.adding), one.isr) for one in begun} == {((1,), frozenset({2, 3}), (1,))}
    # Asked again, nothing more is added, and nothing is complete before the copies are.
    await ReplicaChanges(store, placement).raise_copies("t", 3)
    assert store.image.assignments(TOPIC) == begun
    assert decide(store.image, 0, calm_since_ms=0, return_after_ms=-1).batches == ()

    caught_up = {number: structs.replace(one, isr=(1, 2, 3)) for number, one in enumerate(begun)}
    await store.commit([AssignmentsChanged("t", TOPIC, caught_up)])
    for batch in decide(store.image, 0, calm_since_ms=0, return_after_ms=-1).batches:
        await store.commit(batch.events, batch.guards)
    done = store.image.assignments(TOPIC)
    assert progress(store.image) == []
    assert {(one.leader, one.leader_epoch, set(one.replicas) == {1, 2, 3}) for one in done} == {(1, 3, True)}
    await ReplicaChanges(store, placement).raise_minimum("t", 3)
    topic = store.image.topic("t")
    assert topic is not None
    assert topic.config == {"min.insync.replicas": "2"}

    # Node 1 would lead all of them for good, and node 2 inherit all.
    await ReplicaChanges(store, placement).spread("t", range(60))
    spread = store.image.assignments(TOPIC)
    assert Counter(one.replicas[:2] for one in spread) == dict.fromkeys(permutations((1, 2, 3), 2), 10)
    assert {(one.leader, one.leader_epoch, one.isr) for one in spread} == {(1, 3, (1, 2, 3))}, "nothing is elected yet"
    assert await ReplicaChanges(store, placement).spread("t", []) == 0
    await store.close()


async def test_only_copies_in_sync_are_preferred_as_leaders() -> None:
    behind = Assignment(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 3))
    image = Image()
    assert spread_evenly(behind, {1: 5, 2: 0, 3: 1}, Load(image)) == (3, 1, 2)
    assert spread_evenly(structs.replace(behind, isr=()), {}, Load(image)) == (1, 2, 3)


async def test_a_list_of_eligible_replicas_from_before_a_change_of_the_minimum_is_not_written_anew() -> None:
    """Nodes 3 and 1 have acknowledged since: node 2 would be believed to have all of that."""
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    for number in (1, 2, 3):
        began = await store.transact([], [Put(session_key(number), b"")])
        node = Node(number, UUID(int=number), broker_epoch=began.revision, fenced=False)
        await store.commit([NodeChanged(number, node)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2)])
    without_2 = Assignment(leader=3, leader_epoch=3, replicas=(1, 2, 3), isr=(3, 1), eligible=(2,))
    await store.commit([TopicCreated(Topic("t", TOPIC, 1, config={"min.insync.replicas": "3"}), (without_2,))])
    await store.commit([TopicConfigChanged("t", TOPIC, {"min.insync.replicas": "2"})])
    placement = ClusterPlacement(lambda: store.image, (1, 2, 3), copies_default=0, min_insync=0)

    await ReplicaChanges(store, placement).spread("t", [0])

    (spread,) = store.image.assignments(TOPIC)
    assert (spread.replicas, spread.eligible) == ((1, 3, 2), ())
    await store.close()


async def test_copies_are_removed_and_those_in_sync_stay() -> None:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    for number in (1, 2, 3):
        began = await store.transact([], [Put(session_key(number), b"")])
        node = Node(number, UUID(int=number), broker_epoch=began.revision, fenced=False)
        await store.commit([NodeChanged(number, node)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2)])
    three = Assignment(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3))
    behind = Assignment(leader=3, leader_epoch=3, replicas=(2, 1, 3), isr=(3, 1))
    await store.commit([TopicCreated(Topic("t", TOPIC, 2, config={"min.insync.replicas": "2"}), (three, behind))])
    changes = ReplicaChanges(store, ClusterPlacement(lambda: store.image, (1, 2, 3), copies_default=0, min_insync=0))

    with pytest.raises(InvalidReplicationFactor, match=r"min\.insync\.replicas=2") as refused:
        await changes.lower_copies("t", 1)
    assert refused.value.hint == "first: goqueue topic alter t --config min.insync.replicas=1"

    await changes.lower_copies("t", 2)
    assert [one.removing for one in store.image.assignments(TOPIC)] == [(3,), (2,)]
    for batch in decide(store.image, 0, calm_since_ms=0, return_after_ms=-1).batches:
        await store.commit(batch.events, batch.guards)
    done = store.image.assignments(TOPIC)
    assert [(one.replicas, one.isr, one.leader, one.leader_epoch) for one in done] == [
        ((1, 2), (1, 2), 1, 3),
        ((1, 3), (3, 1), 3, 3),
    ]
    assert progress(store.image) == []
    await store.close()


async def test_copies_are_not_removed_while_only_a_node_that_is_being_added_has_everything() -> None:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    for number in (1, 2, 3, 4):
        began = await store.transact([], [Put(session_key(number), b"")])
        node = Node(number, UUID(int=number), broker_epoch=began.revision, fenced=False)
        await store.commit([NodeChanged(number, node)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2)])
    alone = Assignment(leader=4, leader_epoch=3, replicas=(1, 2, 3), isr=(4,), adding=(4,), removing=(3,))
    await store.commit([TopicCreated(Topic("t", TOPIC, 1), (alone,))])
    placement = ClusterPlacement(lambda: store.image, (1, 2, 3, 4), copies_default=0, min_insync=0)
    changes = ReplicaChanges(store, placement)
    (before,) = store.image.assignments(TOPIC)

    with pytest.raises(InvalidReplicaAssignment, match=r"only nodes \[4\] have all records of t-0"):
        await changes.lower_copies("t", 2)
    assert store.image.assignments(TOPIC) == (before,)

    caught_up = structs.replace(before, isr=(1, 4))
    await store.commit([AssignmentsChanged("t", TOPIC, {0: caught_up})])
    await changes.lower_copies("t", 2)
    (after,) = store.image.assignments(TOPIC)
    assert (after.leader, after.leader_epoch, after.isr, after.adding, after.removing) == (1, 4, (1,), (), (3,))
    await store.close()
