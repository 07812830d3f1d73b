"""Nodes, sessions and the controller: seen alike by a node on its own and by the nodes of a cluster."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from goqueue.errors import GuardFailed, InvalidRequest
from goqueue.metadata.events import ControllerChanged, Delta, Node, NodeChanged, ProducerIdsReserved, SessionChanged
from goqueue.metadata.keys import CONTROLLER, GENERATION, node_key, session_key
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.membership import created_at, epoch_of
from goqueue.metadata.shared.kv import Put
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.metadata.store import Guard, SessionGuard
from goqueue.testing.clock import ManualClock
from goqueue.testing.kv_model import KvModel
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

ONE = Node(1, UUID(int=1), broker_epoch=1, fenced=False, addresses={"kafka": "127.0.0.1:9092"}, rack="a")


async def test_a_node_on_its_own_has_a_session_and_is_the_controller() -> None:
    metadata = LocalMetadata.open(MemoryFiles(), clock=ManualClock(), rng=Random(1), offload=InlineOffload())
    metadata.be_alone(ONE)
    assert dict(metadata.image.nodes()) == {1: ONE}
    assert dict(metadata.image.sessions) == {1: 1}
    assert metadata.image.controller == (1, 1)
    await metadata.commit([ProducerIdsReserved(5)], [SessionGuard(session_key(1), 1), SessionGuard(CONTROLLER, 1)])
    with pytest.raises(GuardFailed):
        await metadata.commit([ProducerIdsReserved(9)], [SessionGuard(session_key(2), 7)])
    await metadata.close()


async def test_nodes_sessions_and_controller_of_a_cluster_come_as_deltas() -> None:
    model = KvModel()
    store = await KvMetadata.open(model.client(), prefix="/q", rng=Random(1))
    heard: list[Delta] = []
    store.subscribe(heard.append)
    lease = model.grant()
    await store.commit([NodeChanged(1, ONE)])
    began = await store.transact([], [Put(session_key(1), b"", lease)])
    chosen = await store.transact([], [Put(CONTROLLER, b"1", lease)])
    await store.catch_up()
    assert store.image.nodes()[1] == ONE
    assert store.image.revision_of(node_key(1)) > 0
    assert dict(store.image.sessions) == {1: began.revision}
    assert store.image.controller == (1, chosen.revision)
    model.end_lease(lease)
    await store.catch_up()
    assert dict(store.image.sessions) == {}
    assert store.image.controller is None
    assert [event for delta in heard for event in delta.events] == [
        NodeChanged(1, ONE),
        SessionChanged(1, began.revision),
        ControllerChanged(1, chosen.revision),
        SessionChanged(1, 0),
        ControllerChanged(1, 0),
    ]
    await store.close()


async def test_a_node_that_leaves_the_cluster_is_gone_from_the_image() -> None:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    await store.commit([NodeChanged(1, ONE)])
    await store.commit([NodeChanged(1, None)], [Guard(node_key(1), store.image.revision_of(node_key(1)))])
    assert dict(store.image.nodes()) == {}
    assert store.image.revision_of(node_key(1)) == 0
    await store.close()


async def test_epochs_grow_with_the_generation_although_revisions_begin_anew() -> None:
    model = KvModel()
    store = await KvMetadata.open(model.client(), prefix="/q", rng=Random(1))
    await store.transact([], [Put(GENERATION, b"2")])
    began = await store.transact([], [Put(session_key(4), b"")])
    await store.catch_up()
    epoch = store.image.sessions[4]
    assert epoch == epoch_of(2, began.revision) > epoch_of(1, 2**39)
    assert created_at(epoch) == began.revision
    await store.commit([ProducerIdsReserved(5)], [SessionGuard(session_key(4), epoch)])
    await store.close()


async def test_a_session_cannot_be_committed() -> None:
    store = await KvMetadata.open(KvModel().client(), prefix="/q", rng=Random(1))
    with pytest.raises(InvalidRequest, match="lease"):
        await store.commit([SessionChanged(1, 5)])
    await store.close()
