"""What operators are told of partitions: the minimum that acks=all really asks for, also right after an election."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from goqueue.cluster.cluster_events import ClusterEvents
from goqueue.cluster.cluster_view import ClusterView, KafkaNode
from goqueue.metadata.events import Assignment, AssignmentsChanged, Delta, Topic, TopicCreated, TopicDeleted
from goqueue.metadata.image import Image
from goqueue.records import TopicPartition
from goqueue.servers.http.routes.cluster import ElectBody, elect
from goqueue.testing.clock import ManualClock


def view_of(topic: Topic, one: Assignment) -> ClusterView:
    image = Image()
    image.apply(TopicCreated(topic, (one,)), 1)
    return ClusterView(KafkaNode(1, "127.0.0.1", 9092), lambda: image, ClusterEvents(1, image, ManualClock(0)))


@pytest.mark.parametrize(("copies", "minimum", "is_below"), [(1, 1, False), (1, 2, True), (2, 2, False), (2, 3, True)])
def test_a_partition_with_fewer_copies_than_its_minimum_refuses_every_acks_all_and_is_shown(
    copies: int, minimum: int, is_below: bool
) -> None:
    nodes = tuple(range(1, copies + 1))
    topic = Topic("orders", UUID(int=1), 1, copies, {"min.insync.replicas": str(minimum)})
    (state,) = view_of(topic, Assignment(leader=1, leader_epoch=0, replicas=nodes, isr=nodes)).partitions()
    assert (state.min_insync, state.is_below_minimum, state.is_under_replicated) == (minimum, is_below, False)


def test_elections_are_counted_by_topic_and_forgotten_with_it() -> None:
    image = Image()
    one = Assignment(leader=1, leader_epoch=0, replicas=(1, 2, 3), isr=(1, 2))
    image.apply(TopicCreated(Topic("orders", UUID(int=1), 1, 3), (one,)), 1)
    events = ClusterEvents(1, image, ManualClock(0))
    view = ClusterView(KafkaNode(1, "127.0.0.1", 9092), lambda: image, events)
    assert list(view.elections()) == [("orders", 0, 0)], "counters begin with zero"
    for epoch, leader in enumerate((2, -1, 3), 1):
        changed = structs.replace(one, leader=leader, leader_epoch=epoch, isr=(2,))
        events.on_delta(Delta(epoch, (AssignmentsChanged("orders", UUID(int=1), {0: changed}),)))
    assert list(view.elections()) == [("orders", 1, 1)], "node 3 was not in sync"
    events.on_delta(Delta(9, (TopicDeleted("orders", UUID(int=1)),)))
    assert list(view.elections()) == [("orders", 0, 0)]


async def test_the_answer_to_an_election_has_the_minimum_of_the_topic() -> None:
    before = Assignment(leader=2, leader_epoch=4, replicas=(1, 2, 3), isr=(1, 2, 3))
    after = Assignment(leader=1, leader_epoch=5, replicas=(1, 2, 3), isr=(1, 2, 3))

    class Replicas:
        async def elect(self, _place: TopicPartition, *, unclean: bool) -> Assignment:
            assert not unclean
            return after

    services: Any = SimpleNamespace(
        cluster=view_of(Topic("orders", UUID(int=1), 1, 3, {"min.insync.replicas": "2"}), before), replicas=Replicas()
    )
    call: Any = SimpleNamespace(body=ElectBody(topic="orders", partition=0))
    row = await elect(services, call)
    assert (row.leader, row.leader_epoch, row.min_insync) == (1, 5, 2)
