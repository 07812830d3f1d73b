"""What a coordinator says without a session: another may coordinate by now."""

from __future__ import annotations

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.errors import CoordinatorUnavailable
from goqueue.groups.service import NewOffset
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

PLACE = TopicPartition("orders", 0)


def test_committed_offsets_are_not_told_by_a_node_without_a_session() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        (outcome,) = await services.groups.commit("g", [NewOffset("orders", 0, 7)])
        assert outcome is None
        found = await services.groups.fetch_offsets("g", [PLACE])
        assert found[PLACE].offset == 7
        services.groups._session_problem = lambda: "this node has no session"
        with pytest.raises(CoordinatorUnavailable, match="this node has no session"):
            await services.groups.fetch_offsets("g", [PLACE])

    assert SimNode(1).live(story)


def test_nor_where_a_queue_group_stands() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders", partitions=1))
        await services.groups.ensure_queue("g")
        await services.groups.commit("g", [NewOffset("orders", 0, 0)])
        assert PLACE in await services.groups.fetch_offsets("g", [PLACE])
        services.groups._session_problem = lambda: "this node has no session"
        with pytest.raises(CoordinatorUnavailable, match="this node has no session"):
            await services.groups.fetch_offsets("g", [PLACE])

    assert SimNode(1).live(story)
