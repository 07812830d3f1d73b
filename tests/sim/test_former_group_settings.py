"""Settings of groups that an earlier version left in `__consumer_offsets` are moved; the power is cut at every step.

In every later life each setting is there with its value, what was changed or taken back meanwhile stays so, and in the
end nothing is left in the coordinator's log.
"""

from __future__ import annotations

import asyncio
from unittest.mock import patch

import pytest

from goqueue.config import Config, DurabilityConfig, GroupsConfig
from goqueue.groups.commands import ListSettings
from goqueue.groups.settings.own_settings import HEARTBEAT, SESSION
from goqueue.groups.settings.stored_settings import StoredSettings
from goqueue.metadata.events import GroupSettings
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(
    durability=DurabilityConfig(flush_interval_ms=40, checkpoint_interval_ms=150),
    groups=GroupsConfig(offsets_partitions=2),
)
FORMER = {
    "a": GroupSettings(6_000, 1_500),
    "b": GroupSettings(start="latest", policy={"visibility_ms": 700, "ttl_ms": 9}),
    "c": GroupSettings(isolation="read_committed", policy={"retries_max": 2}),
}
# A crash may fall before or after the changes of `change`.
CHANGED = {
    "a": GroupSettings(0, 1_500),
    "b": GroupSettings(start="latest", policy={"ttl_ms": 9, "retries_max": 4}),
    "c": FORMER["c"],
}


async def as_before(services: Services) -> None:
    with patch.object(StoredSettings, "are_available", property(lambda _self: False)):
        groups = services.groups
        await groups.alter_settings("a", {SESSION: "6000", HEARTBEAT: "1500"})
        await groups.alter_settings("b", {}, delivery={"visibility_ms": 700, "ttl_ms": 9, "start": "latest"})
        await groups.alter_settings("c", {"share.isolation.level": "read_committed"}, delivery={"retries_max": 2})


async def change(services: Services) -> None:
    """While settings are being moved: take one back, change another, leave the third alone."""
    await services.groups.alter_settings("a", {SESSION: None})
    await services.groups.alter_queue("b", {"visibility_ms": None, "retries_max": 4})
    await at_rest(services)


async def at_rest(services: Services) -> None:
    async with asyncio.timeout(60):
        for shard in await services.groups._coordinator.submit_all(ListSettings()):
            for group, _ in shard:
                await services.groups._settings.former.move(group)


async def found(services: Services) -> dict[str, GroupSettings]:
    settings = {group: await services.groups.settings(group) for group in FORMER}
    for group in ("b", "c"):
        # What a leader of a partition would obey.
        assert (await services.groups.ensure_queue(group)).policy == settings[group].policy
    return settings


def crash_at(step: int) -> bool:
    """Settings of before, a life that ends at this step of moving them, and one that looks. False: no such step."""
    node = SimNode(step, CONFIG)
    assert node.live(as_before, is_killed=step % 2 == 0)
    ended = node.live(change, crash_at_step=step)
    seen: list[dict[str, GroupSettings]] = []

    async def check(services: Services) -> None:
        seen.append(await found(services))
        await at_rest(services)
        seen.append(await found(services))
        shards = await services.groups._coordinator.submit_all(ListSettings())
        assert [group for shard in shards for group, _ in shard] == []
        assert len(services.defaults._metadata.image.group_settings) == 3

    assert node.live(check)
    for settings in seen:
        for group, one in settings.items():
            assert one in (FORMER[group], CHANGED[group]), f"step {step}: {group} has {one}"
    assert seen[0] == seen[1], f"step {step}: moving changed what holds"
    if ended:
        assert seen[0] == CHANGED
    return not ended


def test_settings_of_before_survive_a_power_cut_in_their_move() -> None:
    assert all(crash_at(step) for step in range(8, 25, 8))
    assert not crash_at(10_000)


@pytest.mark.slow
def test_settings_of_before_survive_a_power_cut_at_every_step_of_their_move() -> None:
    step = 1
    while crash_at(step):
        step += 1
    assert step > 20
