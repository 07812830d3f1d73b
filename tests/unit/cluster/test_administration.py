"""What an operator asks for takes no replica away that alone has what was acknowledged."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from goqueue.cluster.administration import ReplicaAdministration
from goqueue.errors import InvalidReplicaAssignment
from goqueue.metadata.eligibility import eligible_of
from goqueue.metadata.events import Assignment, FeatureFinalised, Node, NodeChanged, Topic, TopicCreated
from goqueue.metadata.events import TopicConfigChanged as ConfigChanged
from goqueue.metadata.features import METADATA_VERSION
from goqueue.metadata.keys import session_key
from goqueue.metadata.shared.kv import Delete, Put
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.records import TopicPartition
from goqueue.testing.kv_model import KvModel

TOPIC = UUID(int=9)
PLACE = TopicPartition("t", 0)


async def store_with(one: Assignment, nodes: tuple[int, ...] = (1, 2, 3, 4, 5, 6)) -> KvMetadata:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    for number in nodes:
        began = await store.transact([], [Put(session_key(number), b"")])
        node = Node(number, UUID(int=number), broker_epoch=began.revision, fenced=False)
        await store.commit([NodeChanged(number, node)])
    await store.commit([FeatureFinalised(METADATA_VERSION, 2)])
    await store.commit([TopicCreated(Topic("t", TOPIC, 1, 3, {"min.insync.replicas": "2"}), (one,))])
    return store


async def test_a_move_is_not_cancelled_while_only_the_new_replicas_have_everything() -> None:
    """Nodes 1 to 3 died after 4 and 5 had joined; 4 and 5 have acknowledged since."""
    moving = Assignment(leader=4, leader_epoch=7, replicas=(1, 2, 3), isr=(4, 5), adding=(4, 5, 6), removing=(1, 2, 3))
    store = await store_with(moving)
    with pytest.raises(InvalidReplicaAssignment, match="wait until another replica is in sync"):
        await ReplicaAdministration(store).cancel_reassignment(PLACE)
    assert store.image.assignments(TOPIC)[0].isr == (4, 5)


async def test_a_cancelled_move_leaves_the_lead_to_a_replica_that_stays() -> None:
    moving = Assignment(leader=4, leader_epoch=7, replicas=(1, 2, 3), isr=(2, 4), adding=(4,), eligible=())
    store = await store_with(moving)
    after = await ReplicaAdministration(store).cancel_reassignment(PLACE)
    assert (after.leader, after.leader_epoch, after.isr, after.adding) == (2, 8, (2,), ())


async def test_another_target_takes_a_node_that_is_not_in_it_out_of_the_in_sync_replicas() -> None:
    moving = Assignment(leader=1, leader_epoch=7, replicas=(1, 2, 3), isr=(1, 2, 3, 4), adding=(4,), removing=(3,))
    store = await store_with(moving)
    after = await ReplicaAdministration(store).reassign(PLACE, (1, 2, 5))
    assert (after.isr, after.adding, after.removing, after.leader_epoch) == ((1, 2, 3), (5,), (3,), 7)


async def test_a_list_of_eligible_replicas_from_before_a_change_of_the_minimum_is_not_renewed() -> None:
    """With a minimum of 1, node 2 acknowledges alone: node 3 must not be elected for what it had before."""
    below = Assignment(leader=2, leader_epoch=7, replicas=(1, 2, 3), isr=(1, 2), eligible=(3,))
    store = await store_with(below)
    await store.commit([ConfigChanged("t", TOPIC, {"min.insync.replicas": "1"})])
    await ReplicaAdministration(store).elect(PLACE)
    (after,) = store.image.assignments(TOPIC)
    topic = store.image.topic("t")
    assert topic is not None
    assert after.leader == 1
    assert eligible_of(store.image, topic, after) == ()


async def test_a_node_that_has_another_session_by_now_is_not_elected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 lost its disk and registers again, while the write that lets it lead is on its way."""
    store = await store_with(Assignment(leader=2, leader_epoch=7, replicas=(1, 2, 3), isr=(1, 2, 3)))
    commit = store.commit
    attempts = 0

    async def late(events: object, guards: object) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await store.transact([], [Delete(session_key(1))])
            await store.transact([], [Put(session_key(1), b"")])
        return await commit(events, guards)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "commit", late)
    with pytest.raises(Exception, match="alive and in sync"):
        await ReplicaAdministration(store).elect(PLACE)
    assert store.image.assignments(TOPIC)[0].leader == 2


async def test_a_reassignment_puts_the_replicas_that_stay_in_the_order_asked_for() -> None:
    """The first is the preferred leader: the same nodes in another order change that."""
    store = await store_with(Assignment(leader=1, leader_epoch=7, replicas=(1, 2, 3), isr=(1, 2, 3)))
    after = await ReplicaAdministration(store).reassign(PLACE, (3, 1, 2))
    assert (after.replicas, after.adding, after.removing, after.leader) == ((3, 1, 2), (), (), 1)
    moving = await ReplicaAdministration(store).reassign(PLACE, (4, 2, 3))
    assert (moving.replicas, moving.adding, moving.removing) == ((2, 3, 1), (4,), (1,))
