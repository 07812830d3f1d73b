"""Settings of groups as bytes: what members of the consumer protocol are told, and when they are gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.groups.settings.own_settings import HEARTBEAT, SESSION
from goqueue.servers.services import Services

from .conftest import Call
from .test_share import simulated

CONSUMER_BEAT, DESCRIBE_CONFIGS, REPLACE, INCREMENTAL = 68, 32, 33, 44
GROUP, FROM_GROUP, FROM_DEFAULT = 32, 8, 5
INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_MEMBER = 42, 40, 25
LOCK = "share.record.lock.duration.ms"


async def alter(call: Call, settings: dict[str, str | None], *, validate_only: bool = False) -> dict[str, Any]:
    rows = [
        {"name": name, "value": value, "config_operation": 0 if value is not None else 1}
        for name, value in settings.items()
    ]
    resource = {"resource_type": GROUP, "resource_name": "g", "configs": rows}
    (row,) = (await call(INCREMENTAL, 1, resources=[resource], validate_only=validate_only))["responses"]
    return row


async def shown(call: Call, *names: str) -> list[tuple[str, int, bool]]:
    resource = {"resource_type": GROUP, "resource_name": "g", "configuration_keys": list(names)}
    (result,) = (await call(DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True))["results"]
    found = {row["name"]: row for row in result["configs"]}
    return [(found[name]["value"], found[name]["config_source"], found[name]["read_only"]) for name in names]


async def beat(call: Call, epoch: int) -> dict[str, Any]:
    joining: dict[str, Any] = {"subscribed_topic_names": ["jobs"], "topic_partitions": []} if epoch == 0 else {}
    return await call(
        CONSUMER_BEAT, 1, group_id="g", member_id="m", member_epoch=epoch, rebalance_timeout=300_000, **joining
    )


@simulated
async def test_a_member_is_gone_after_the_session_of_its_group(call: Call) -> None:
    assert await shown(call, SESSION, HEARTBEAT) == [("30000", FROM_DEFAULT, False), ("3000", FROM_DEFAULT, False)]

    assert (await alter(call, {SESSION: "6000", HEARTBEAT: "1500"}))["error_code"] == 0
    assert await shown(call, SESSION, HEARTBEAT) == [("6000", FROM_GROUP, False), ("1500", FROM_GROUP, False)]
    joined = await beat(call, 0)
    await asyncio.sleep(5.9)
    stayed = await beat(call, 1)
    await asyncio.sleep(6.1)
    gone = await beat(call, 1)

    assert (joined["heartbeat_interval"], stayed["error_code"], gone["error_code"]) == (1_500, 0, UNKNOWN_MEMBER)


async def test_a_setting_is_put_back_to_the_nodes(call: Call) -> None:
    await alter(call, {SESSION: "6000", HEARTBEAT: "1500"})

    assert (await alter(call, {SESSION: None}))["error_code"] == 0

    assert await shown(call, SESSION, HEARTBEAT) == [("30000", FROM_DEFAULT, False), ("1500", FROM_GROUP, False)]


async def test_only_checking_changes_nothing(call: Call) -> None:
    assert (await alter(call, {SESSION: "6000"}, validate_only=True))["error_code"] == 0
    assert (await alter(call, {SESSION: "1"}, validate_only=True))["error_code"] == INVALID_CONFIG

    assert await shown(call, SESSION) == [("30000", FROM_DEFAULT, False)]


@pytest.mark.parametrize("session", ["999", "1800001", "2000", "soon"])
async def test_a_session_that_cannot_be_is_refused_with_all_that_came_with_it(
    call: Call, services: Services, session: str
) -> None:
    refused = await alter(call, {LOCK: "5000", SESSION: session})

    assert refused["error_code"] == INVALID_CONFIG
    assert SESSION in refused["error_message"]
    assert await services.groups.mode("g") is None
    assert await shown(call, SESSION, LOCK) == [("30000", FROM_DEFAULT, False)] * 2


async def test_settings_of_a_group_are_not_replaced_as_a_whole(call: Call) -> None:
    resource = {"resource_type": GROUP, "resource_name": "g", "configs": [{"name": SESSION, "value": "6000"}]}

    (row,) = (await call(REPLACE, 1, resources=[resource], validate_only=False))["responses"]

    assert row["error_code"] == INVALID_REQUEST
