"""Settings of a group that hold in either mode: what its sessions obey, what is refused, what outlives what."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.groups.driver import Bench

from goqueue.config import Config, GroupsConfig
from goqueue.errors import GroupNotFound, InvalidConfig, UnknownMember
from goqueue.groups.commands import (
    AlterSettings,
    AskMode,
    AskSettings,
    ConsumerHeartbeat,
    DeleteGroup,
    DescribeGroup,
    ListGroups,
    UseQueue,
)
from goqueue.groups.queue.settings import AsQueue, Mode, Sharing
from goqueue.groups.records import SettingsRecord
from goqueue.groups.settings.own_settings import HEARTBEAT, ISOLATION, SESSION
from goqueue.metadata.events import GroupSettings
from goqueue.servers.services import Services
from goqueue.testing.sim_node import SimNode

SHORT = {SESSION: "6000", HEARTBEAT: "1500"}


def alter(bench: Bench, changes: dict[str, str | None], group: str = "g") -> SettingsRecord:
    settings = bench.ask(AlterSettings(group, changes))
    assert isinstance(settings, SettingsRecord)
    return settings


def is_member(bench: Bench, member_id: str, epoch: int, group: str = "g") -> bool:
    try:
        bench.ask(ConsumerHeartbeat(group, member_id, epoch))
    except UnknownMember:
        return False
    return True


# --- sessions -----------------------------------------------------------------------------


def test_a_member_expires_by_the_session_of_its_own_group() -> None:
    bench = Bench()
    alter(bench, SHORT)
    own, other = bench.consume("a"), bench.consume("b", group="other")
    assert (own.heartbeat_interval_ms, other.heartbeat_interval_ms) == (1_500, 3_000)

    bench.pass_ms(5_999)
    assert is_member(bench, "a", 1)
    bench.pass_ms(6_001)

    assert not is_member(bench, "a", 1)
    assert is_member(bench, "b", 1, "other")
    bench.check_replay()


def test_a_longer_session_is_obeyed_too() -> None:
    bench = Bench()
    alter(bench, {SESSION: "90000"})
    bench.consume("a")

    bench.pass_ms(89_000)

    assert is_member(bench, "a", 1)


def test_members_obey_a_new_session_from_their_next_heartbeat_on() -> None:
    bench = Bench()
    bench.consume("a")
    alter(bench, SHORT)
    bench.pass_ms(10_000)
    assert bench.consume("a", 1).heartbeat_interval_ms == 1_500

    bench.pass_ms(6_001)

    assert not is_member(bench, "a", 1)


def test_a_setting_that_is_taken_back_is_the_nodes_again() -> None:
    bench = Bench()
    alter(bench, SHORT)

    assert alter(bench, {SESSION: None, HEARTBEAT: None}) == SettingsRecord()
    bench.consume("a")
    bench.pass_ms(29_000)

    assert is_member(bench, "a", 1)
    bench.check_replay()


@pytest.mark.parametrize("compacted", [False, True])
def test_sessions_are_the_groups_own_after_a_restart(*, compacted: bool) -> None:
    bench = Bench()
    bench.consume("a")
    alter(bench, SHORT)

    bench.restart(compacted=compacted)
    bench.pass_ms(6_001)

    assert not is_member(bench, "a", 1)


def test_a_static_member_has_its_groups_session_to_come_back_in() -> None:
    bench = Bench()
    alter(bench, SHORT)
    bench.consume("a", instance_id="i")

    assert bench.consume("a", -2, instance_id="i").heartbeat_interval_ms == 1_500
    bench.pass_ms(6_001)

    with pytest.raises(UnknownMember):
        bench.consume("a", 1, instance_id="i")


def test_members_that_take_turns_in_a_queue_group_obey_it() -> None:
    bench = Bench()
    alter(bench, SHORT)
    bench.consume("a", as_queue=AsQueue(Sharing.EXCLUSIVE))

    bench.pass_ms(6_001)

    assert not is_member(bench, "a", 1)


@pytest.mark.parametrize(
    ("bounds", "session_ms", "interval_ms"),
    [
        ({"session_timeout_ms_min": 10_000}, 10_000, 1_500),
        ({"session_timeout_ms_max": 1_400, "session_timeout_ms": 1_200, "heartbeat_interval_ms": 300}, 1_400, 466),
    ],
)
def test_bounds_that_the_node_was_given_later_hold_for_what_was_set_before(
    bounds: dict[str, int], session_ms: int, interval_ms: int
) -> None:
    bench = Bench()
    alter(bench, SHORT)
    bench.config = replace(bench.config, **bounds)
    bench.restart()

    assert bench.consume("a").heartbeat_interval_ms == interval_ms
    bench.pass_ms(session_ms - 1)
    assert is_member(bench, "a", 1)
    bench.pass_ms(session_ms + 1)
    assert not is_member(bench, "a", 1)


# --- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {SESSION: "999"},
        {SESSION: "1800001"},
        {SESSION: "-1"},
        {SESSION: "soon"},
        {SESSION: ""},
        {HEARTBEAT: "0"},
        # As long as the session, which is the node's.
        {HEARTBEAT: "30000"},
        # Shorter than the heartbeat, which is the node's.
        {SESSION: "2000"},
        {SESSION: "5000", HEARTBEAT: "5000"},
        {ISOLATION: "read_all"},
        {"consumer.assignors": "range"},
    ],
)
def test_settings_that_cannot_be_are_refused_and_change_nothing(changes: dict[str, str | None]) -> None:
    bench = Bench()
    alter(bench, {ISOLATION: "read_committed"})

    with pytest.raises(InvalidConfig) as refusal:
        alter(bench, {ISOLATION: "read_uncommitted", **changes})

    assert refusal.value.field in changes
    assert bench.ask(AskSettings("g")) == GroupSettings(isolation="read_committed")


def test_an_isolation_level_can_be_set_where_old_times_no_longer_fit_together() -> None:
    bench = Bench()
    alter(bench, {HEARTBEAT: "20000"})
    bench.config = replace(bench.config, session_timeout_ms=10_000)
    bench.restart()

    assert alter(bench, {ISOLATION: "read_committed"}).isolation == "read_committed"


def test_a_change_that_is_only_checked_changes_nothing() -> None:
    bench = Bench()

    assert bench.ask(AlterSettings("g", SHORT, validate_only=True)) == SettingsRecord(6_000, 1_500)

    assert (bench.ask(AskSettings("g")), bench.log) == (GroupSettings(), [])


# --- groups -------------------------------------------------------------------------------


def test_settings_alone_make_no_group() -> None:
    bench = Bench()
    alter(bench, SHORT)
    bench.restart()

    assert (bench.ask(ListGroups()), bench.ask(AskMode("g"))) == ((), None)
    for command in (DescribeGroup("g"), DeleteGroup("g")):
        with pytest.raises(GroupNotFound):
            bench.ask(command)
    bench.ask(UseQueue("g", AsQueue(Sharing.SHARED)))
    assert bench.ask(AskMode("g")) is Mode.QUEUE
    assert bench.ask(AskSettings("g")) == GroupSettings(6_000, 1_500)


def test_settings_outlive_the_members_and_go_with_the_group() -> None:
    bench = Bench()
    alter(bench, SHORT)
    bench.consume("a")
    bench.pass_ms(6_001)
    assert bench.ask(AskSettings("g")) == GroupSettings(6_000, 1_500)

    bench.ask(DeleteGroup("g"))

    assert bench.ask(AskSettings("g")) == GroupSettings()
    bench.check_replay()


def test_settings_survive_a_crash_of_the_node() -> None:
    node = SimNode(1, Config(groups=GroupsConfig(offsets_partitions=3)))

    async def work(services: Services) -> None:
        await services.groups.alter_settings("g", {**SHORT, ISOLATION: "read_uncommitted"})

    async def check(services: Services) -> None:
        assert await services.groups.settings("g") == GroupSettings(6_000, 1_500, "read_uncommitted")
        assert await services.groups.list() == ()

    assert node.live(work)
    assert node.live(check)
