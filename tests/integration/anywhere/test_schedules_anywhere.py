"""Recurring messages on any node of three: they live in one partition, and only its leader makes and deletes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes

from goqueue.metadata.events import ScheduleHome, ScheduleHomed


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[ThreeNodes]:
    async with three_nodes(tmp_path) as found:
        await found.topic("orders", NODES)
        yield found


def _nightly(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "cron": "0 3 * * *", "topic": "orders", "value": "v", **more}


async def _names(nodes: ThreeNodes, node: int) -> list[str]:
    listed = await nodes.ask(node, "GET", "/schedules")
    assert listed["count"] == len(listed["schedules"])
    return [one["name"] for one in listed["schedules"]]


async def test_each_node_makes_shows_and_deletes_schedules_that_live_at_any_leader(nodes: ThreeNodes) -> None:
    made: dict[str, int] = {}
    for node in NODES:
        for partition in (0, 1, 2, None):
            name = f"s{node}-{partition}"
            more = {} if partition is None else {"partition": partition}
            created = await nodes.ask(node, "POST", "/schedules", _nightly(name, **more), status=201)
            home = int(created["next_slot"].split("/")[0])
            assert partition in (None, home)
            made[name] = home
    for node in NODES:
        assert await _names(nodes, node) == sorted(made)
        for name, home in made.items():
            shown = await nodes.ask(node, "GET", f"/schedules/{name}")
            assert (shown["name"], int(shown["next_slot"].split("/")[0])) == (name, home)
    for at, name in enumerate(made):
        await nodes.ask(NODES[at % 3], "DELETE", f"/schedules/{name}")
        await nodes.ask(NODES[(at + 1) % 3], "GET", f"/schedules/{name}", status=404)
        await nodes.ask(NODES[(at + 2) % 3], "DELETE", f"/schedules/{name}", status=404)
    for node in NODES:
        assert await _names(nodes, node) == []
        assert (await nodes.ask(node, "GET", "/topics/orders/delayed"))["messages"] == []


async def test_a_name_in_use_is_refused_on_every_node_wherever_the_second_one_would_live(nodes: ThreeNodes) -> None:
    await nodes.ask(1, "POST", "/schedules", _nightly("nightly", partition=1), status=201)
    for node in NODES:
        for partition in range(3):
            body = _nightly("nightly", partition=partition)
            refused = await nodes.ask(node, "POST", "/schedules", body, status=409)
            assert refused["error"]["code"] == "schedule_exists"
    for node in NODES:
        shown = await nodes.ask(node, "GET", "/schedules/nightly")
        assert shown["next_slot"].startswith("1/")
        assert len((await nodes.ask(node, "GET", "/topics/orders/delayed"))["messages"]) == 1
    await nodes.ask(3, "DELETE", "/schedules/nightly")
    again = await nodes.ask(1, "POST", "/schedules", _nightly("nightly", partition=2), status=201)
    assert again["next_slot"].startswith("2/")


async def test_a_name_that_a_crash_left_at_another_leader_is_used_again(nodes: ThreeNodes) -> None:
    metadata = nodes.running[1].services.defaults._metadata
    topic = metadata.image.topic("orders")
    assert topic is not None
    for home in range(3):
        for node in NODES:
            name = f"left-{home}-{node}"
            await metadata.commit([ScheduleHomed(name, ScheduleHome(topic.topic_id, home))])
            await nodes.ask(node, "GET", f"/schedules/{name}", status=404)
            created = await nodes.ask(node, "POST", "/schedules", _nightly(name, partition=2), status=201)
            assert created["next_slot"].startswith("2/")
    assert len(await _names(nodes, 1)) == 9
