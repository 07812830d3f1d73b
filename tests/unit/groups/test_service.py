"""The group service in a whole node, simulated: names, refusals, and promises that outlive a crash."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

import pytest

from goqueue.broker.topics import NewTopic
from goqueue.config import BrokerConfig, Config, GroupsConfig
from goqueue.errors import (
    GroupNotFound,
    InvalidGroupId,
    MemberIdRequired,
    PartitionNotFound,
    RebalanceInProgress,
    TopicNotFound,
    UnknownMember,
)
from goqueue.groups.commands import (
    ConsumerBeat,
    ConsumerHeartbeat,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaver,
    SyncGroup,
)
from goqueue.groups.descriptions import ConsumerDescription, GroupState
from goqueue.groups.service import CONSUMER_OFFSETS, NewOffset
from goqueue.groups.subscription.topic_partitions import NO_PARTITIONS, PartitionSet
from goqueue.records import TopicPartition
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(broker=BrokerConfig(default_partitions=4), groups=GroupsConfig(offsets_partitions=3))


def play(story: object) -> None:
    assert SimNode(1, CONFIG).live(story)  # type: ignore[arg-type]


def joining(group: str = "g", member_id: str = "", **more: object) -> JoinGroup:
    settings: dict[str, object] = {
        "protocol_type": "consumer",
        "protocols": (("range", b""),),
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "client_id": "billing",
        **more,
    }
    return JoinGroup(group=group, member_id=member_id, new_member_id="", **settings)  # type: ignore[arg-type]


def test_a_member_id_is_the_clients_name_and_chance() -> None:
    """R3.02."""

    async def story(services: Services) -> None:
        with pytest.raises(MemberIdRequired) as first:
            await services.groups.join(joining())
        with pytest.raises(MemberIdRequired) as second:
            await services.groups.join(joining())
        assert re.fullmatch(r"billing-[0-9a-f]{32}", first.value.member_id)
        assert first.value.member_id != second.value.member_id

    play(story)


def test_a_classic_group_lives_through_the_service() -> None:
    async def story(services: Services) -> None:
        groups = services.groups
        joined = await groups.join(joining(id_required=False))
        member_id = joined.member_id
        synced = await groups.sync(SyncGroup("g", member_id, joined.generation, {member_id: b"all"}))
        assert synced.assignment == b"all"
        await groups.heartbeat(Heartbeat("g", member_id, joined.generation))
        second = asyncio.ensure_future(groups.join(joining(id_required=False)))
        await asyncio.sleep(0.1)
        with pytest.raises(RebalanceInProgress):
            await groups.heartbeat(Heartbeat("g", member_id, joined.generation))
        assert await groups.leave(LeaveGroup("g", (Leaver(member_id),))) == (None,)
        assert (await second).generation == joined.generation + 1
        assert groups.rebalance_statistics("g").started == 2
        assert groups.rebalance_statistics().started == 2

    play(story)


def test_a_session_ends_by_the_nodes_own_clock() -> None:
    async def story(services: Services) -> None:
        joined = await services.groups.join(joining(id_required=False))
        await services.groups.sync(SyncGroup("g", joined.member_id, 1, {}))
        await asyncio.sleep(9)
        await services.groups.heartbeat(Heartbeat("g", joined.member_id, 1))
        await asyncio.sleep(10.1)
        with pytest.raises(UnknownMember):
            await services.groups.heartbeat(Heartbeat("g", joined.member_id, 1))

    play(story)


def test_only_partitions_that_exist_are_committed() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("t", 2))
        outcomes = await services.groups.commit(
            "g", [NewOffset("t", 0, 5), NewOffset("t", 2, 5), NewOffset("nowhere", 0, 5), NewOffset("t", 1, 6)]
        )
        assert [type(one) for one in outcomes] == [type(None), PartitionNotFound, TopicNotFound, type(None)]
        found = await services.groups.fetch_offsets("g")
        assert {place: one.offset for place, one in found.items()} == {
            TopicPartition("t", 0): 5,
            TopicPartition("t", 1): 6,
        }
        assert await services.groups.delete_offsets("g", [TopicPartition("t", 0)]) == (None,)
        assert len(await services.groups.fetch_offsets("g")) == 1

    play(story)


def test_listing_makes_no_topic_and_finds_groups_in_all_shards() -> None:
    async def story(services: Services) -> None:
        assert await services.groups.list() == ()
        assert services.topics.find(CONSUMER_OFFSETS) is None
        await services.topics.create(NewTopic("t", 1))
        names = [f"group-{one}" for one in range(20)]
        for name in names:
            await services.groups.commit(name, [NewOffset("t", 0, 1)])
        assert [one.group for one in await services.groups.list()] == sorted(names)
        await services.groups.delete("group-7")
        with pytest.raises(GroupNotFound):
            await services.groups.describe("group-7")
        assert len(await services.groups.list()) == 19

    play(story)


@pytest.mark.parametrize("group", ["", "x" * 256, "a\nb"])
def test_a_group_has_a_printable_name(group: str) -> None:
    async def story(services: Services) -> None:
        with pytest.raises(InvalidGroupId):
            await services.groups.join(joining(group))
        with pytest.raises(InvalidGroupId):
            await services.groups.fetch_offsets(group)

    play(story)


def test_new_topics_and_partitions_reach_members_at_their_next_heartbeat() -> None:
    async def story(services: Services) -> None:
        await services.topics.create(NewTopic("orders-1", 1))
        first = await services.groups.consumer_heartbeat(
            ConsumerHeartbeat("g", "", 0, rebalance_timeout_ms=60_000, regex="orders-.*", client_id="billing")
        )
        assert first.member_id.startswith("billing-")
        assert len(first.assignment or ()) == 1
        await services.topics.create(NewTopic("orders-2", 2))
        await services.topics.add_partitions("orders-1", 3)
        second = await services.groups.consumer_heartbeat(
            ConsumerHeartbeat("g", first.member_id, 1, client_id="billing")
        )
        assert len(second.assignment or ()) == 5

    play(story)


# --- crashes ----------------------------------------------------------------------------


@dataclass
class Client:
    """A member of the new protocol that remembers what it was promised, over all lives of the node."""

    member_id: str
    epoch: int = 0
    owned: PartitionSet = NO_PARTITIONS
    offset: int = -1
    beats: list[ConsumerBeat] = field(default_factory=list)

    async def beat(self, services: Services) -> None:
        joins = self.epoch == 0
        beat = await services.groups.consumer_heartbeat(
            ConsumerHeartbeat(
                "g",
                self.member_id,
                self.epoch,
                rebalance_timeout_ms=60_000,
                topics=("t",),
                owned=NO_PARTITIONS if joins else self.owned,
            )
        )
        self.epoch = beat.member_epoch
        if beat.assignment is not None:
            self.owned = beat.assignment

    async def commit(self, services: Services) -> None:
        offset = self.offset + 1
        partition = min(self.owned).partition if self.owned else 0
        outcome = await services.groups.commit(
            f"of-{self.member_id}", [NewOffset("t", partition, offset)], generation=-1
        )
        assert outcome == (None,)
        self.offset = offset


def crash_at(step: int) -> bool:
    """Two members join and settle; the power goes at one step of the disk. False: it came to that."""
    node = SimNode(step, CONFIG)
    first, second = Client("a"), Client("b")

    async def work(services: Services) -> None:
        await services.topics.ensure("t")
        for _ in range(3):
            for client in (first, second):
                await client.beat(services)
                await client.commit(services)

    async def check(services: Services) -> None:
        if services.topics.find("t") is None:
            assert first.epoch == 0
            return
        for client in (first, second):
            promised = await services.groups.fetch_offsets(f"of-{client.member_id}")
            assert max((one.offset for one in promised.values()), default=-1) >= client.offset
        for _ in range(4):
            for client in (first, second):
                await client.beat(services)  # an answered epoch is never fenced
                assert first.owned.isdisjoint(second.owned)
        found = await services.groups.describe("g")
        assert isinstance(found, ConsumerDescription)
        assert found.state is GroupState.STABLE
        assert len(first.owned) == len(second.owned) == 2

    came_to_its_end = node.live(work, crash_at_step=step)
    assert node.live(check)
    return came_to_its_end


@pytest.mark.parametrize("start", range(4))
def test_what_a_member_was_told_survives_a_power_cut_at_any_step(start: int) -> None:
    step = 1 + start
    while not crash_at(step):
        step += 4
    assert step > 20, "there were steps to crash at"
