"""What a queue gives out without a session: another node may lead it by now, and have had the messages settled."""

from __future__ import annotations

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.delivery.values import Action, Receive, Settlement
from goqueue.errors import NotLeader
from goqueue.records import Acks, NewRecord, TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACE = TopicPartition("orders", 0)


def test_messages_are_not_given_out_by_a_node_without_a_session() -> None:
    """A node that had been frozen gave out what its successor had had settled."""

    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        await services.publish.publish_records("orders", [NewRecord(None, b"one")] * 2, acks=Acks.ALL)
        receiver, request = services.delivery._receiver, Receive("g", "c", [PLACE], 1)
        receiver._session_problem = lambda: "this node has no session"
        with pytest.raises(NotLeader, match="this node has no session"):
            await services.delivery.receive(request)
        with pytest.raises(NotLeader, match="this node has no session"):
            await services.delivery.acquire("g", PLACE, "c", limit=1)

        receiver._session_problem = lambda: None
        for _ in range(2):
            # Nothing was leased meanwhile.
            (found,) = await services.delivery.receive(request)
            assert found.delivery_count == 1
            (settled,) = await services.delivery.settle([Settlement(found.receipt, Action.ACK)])
            assert settled.error is None

    assert SimNode(1).live(story)


def test_messages_are_not_given_out_when_the_session_ends_while_they_are_read() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        await services.publish.publish_records("orders", [NewRecord(None, b"one")], acks=Acks.ALL)
        looks = iter([None, "this node has no session"])
        services.delivery._receiver._session_problem = lambda: next(looks)
        with pytest.raises(NotLeader, match="this node has no session"):
            await services.delivery.receive(Receive("g", "c", [PLACE], 1))

    assert SimNode(1).live(story)
