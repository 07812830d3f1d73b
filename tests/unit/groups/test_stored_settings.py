"""Settings of groups in the metadata: who may store them, what of before is moved there, and what outlives what."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.config import Config, GroupsConfig
from goqueue.errors import GroupModeMismatch, InvalidConfig, InvalidRequest
from goqueue.groups.commands import ListSettings
from goqueue.groups.queue.settings import Mode, Sharing
from goqueue.groups.service import GroupService, NewOffset
from goqueue.groups.settings.own_settings import HEARTBEAT, SESSION
from goqueue.metadata.events import FeatureFinalised, GroupSettings
from goqueue.metadata.features import METADATA_VERSION
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

CONFIG = Config(groups=GroupsConfig(offsets_partitions=3))
SHORT = {SESSION: "6000", HEARTBEAT: "1500"}
Story = Callable[[Services], Awaitable[None]]


def play(*stories: Story) -> SimNode:
    node = SimNode(1, CONFIG)
    for story in stories:
        assert node.live(story)
    return node


def as_before(groups: GroupService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the node keep settings where earlier versions did."""
    monkeypatch.setattr(type(groups._settings.stored), "are_available", property(lambda _self: False))


async def in_the_log(services: Services) -> dict[str, GroupSettings]:
    shards = await services.groups._coordinator.submit_all(ListSettings())
    return {group: settings for shard in shards for group, settings in shard}


async def stored(services: Services) -> dict[str, GroupSettings]:
    """What the metadata has, once nothing is being moved."""
    while services.groups._settings.former._moving:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.01)
    return dict(services.defaults._metadata.image.group_settings)


def test_settings_are_metadata_and_no_record_of_the_coordinator() -> None:
    async def story(services: Services) -> None:
        await services.groups.ensure_queue("work", sharing=Sharing.SHARED)
        await services.groups.alter_queue("work", {"visibility_ms": 700, "start": "latest"})
        await services.groups.alter_settings("work", SHORT, delivery={"retries_max": 3})

    async def after(services: Services) -> None:
        expected = GroupSettings(6_000, 1_500, "", "latest", {"visibility_ms": 700, "retries_max": 3})
        assert await stored(services) == {"work": expected}
        assert await in_the_log(services) == {}
        assert await services.groups.settings("work") == expected
        queue = await services.groups.ensure_queue("work")
        assert (queue.sharing, queue.policy, queue.start) == (Sharing.SHARED, expected.policy, "latest")
        assert await services.groups.queue_settings("work") == queue

    play(story, after)


def test_settings_of_a_name_make_no_group_and_wait_for_its_first_use() -> None:
    async def story(services: Services) -> None:
        await services.groups.alter_settings("later", {}, delivery={"visibility_ms": 900, "start": "latest"})
        await services.delivery.govern("later")
        assert await services.groups.mode("later") is None
        assert await services.groups.list() == ()
        queue = await services.groups.ensure_queue("later")
        assert (queue.policy, queue.start) == ({"visibility_ms": 900}, "latest")

    play(story)


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    async def story(services: Services) -> None:
        groups = services.groups
        await groups.commit("stream", [NewOffset("t", 0, 0)])
        await services.topics.ensure_internal("__t", 1, {})
        await groups.commit("stream", [NewOffset("__t", 0, 0)])
        with pytest.raises(GroupModeMismatch):
            await groups.alter_settings("stream", {}, delivery={"visibility_ms": 1})
        with pytest.raises(InvalidConfig):
            await groups.alter_settings("g", {SESSION: "1"}, delivery={"visibility_ms": 1})
        with pytest.raises(InvalidRequest):
            await groups.alter_settings("g", SHORT, delivery={"start": "middle"})
        await groups.alter_settings("g", SHORT, delivery={"visibility_ms": 1}, validate_only=True)
        assert await stored(services) == {}

    play(story)


def test_settings_go_with_their_group() -> None:
    async def story(services: Services) -> None:
        await services.topics.ensure_internal("__t", 1, {})
        await services.groups.ensure_queue("queue")
        await services.groups.commit("stream", [NewOffset("__t", 0, 0)])
        for group in ("queue", "stream", "other"):
            await services.groups.alter_settings(group, SHORT)
        for group in ("queue", "stream"):
            await services.groups.delete(group)
        assert list(await stored(services)) == ["other"]
        assert (await services.groups.ensure_queue("queue")).policy == {}

    play(story)


def test_two_changes_at_the_same_time_both_count() -> None:
    async def story(services: Services) -> None:
        await services.groups.ensure_queue("work")
        changes = [
            services.groups.alter_queue("work", {name: 5}) for name in ("visibility_ms", "ttl_ms", "retries_max")
        ]
        await asyncio.gather(*changes, services.groups.alter_settings("work", SHORT))
        expected = {"visibility_ms": 5, "ttl_ms": 5, "retries_max": 5}
        assert await stored(services) == {"work": GroupSettings(6_000, 1_500, policy=expected)}

    play(story)


def test_settings_of_before_are_moved_when_every_node_understands_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {
        "own": GroupSettings(6_000, 1_500),
        "work": GroupSettings(start="latest", policy={"visibility_ms": 700}),
    }

    async def before(services: Services) -> None:
        with monkeypatch.context() as patch:
            as_before(services.groups, patch)
            await services.groups.alter_settings("own", SHORT)
            await services.groups.alter_settings("work", {}, delivery={"visibility_ms": 700, "start": "latest"})
            assert await services.groups.settings("own") == expected["own"]
            assert await services.groups.mode("work") is Mode.QUEUE
            assert (await services.groups.ensure_queue("work")).policy == {"visibility_ms": 700}
            assert (await stored(services), await in_the_log(services)) == ({}, expected)
        # Another node that did not agree does now, and the level is final.
        await services.defaults._metadata.commit([FeatureFinalised(METADATA_VERSION, 3)])
        assert await stored(services) == expected
        assert await in_the_log(services) == {}
        assert (await services.groups.ensure_queue("work")).policy == {"visibility_ms": 700}

    async def after(services: Services) -> None:
        assert await stored(services) == expected
        # Taken back: nothing of before comes up again.
        await services.groups.alter_settings("own", {SESSION: None, HEARTBEAT: None})
        await services.groups.alter_queue("work", {"visibility_ms": None, "start": None})

    async def last(services: Services) -> None:
        assert await services.groups.settings("own") == GroupSettings()
        assert (await services.groups.ensure_queue("work")).policy == {}
        assert await in_the_log(services) == {}

    play(before, after, last)


def test_a_change_that_comes_before_the_move_keeps_what_it_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def before(services: Services) -> None:
        with monkeypatch.context() as patch:
            as_before(services.groups, patch)
            await services.groups.alter_settings("work", SHORT, delivery={"visibility_ms": 700, "ttl_ms": 9})

    async def change(services: Services) -> None:
        await services.groups.alter_settings("work", {SESSION: None}, delivery={"visibility_ms": 8, "ttl_ms": None})
        assert await stored(services) == {"work": GroupSettings(0, 1_500, policy={"visibility_ms": 8})}
        assert await in_the_log(services) == {}

    play(before, change)
