"""Dead letters are sent back by a job on one node of three, whichever nodes lead the letters, the target and its id."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes

from goqueue.ids import DEAD_LETTER_SUFFIX


async def _redriven(nodes: ThreeNodes, topic: str, **fields: Any) -> dict[str, Any]:
    await nodes.ask(1, "POST", f"/topics/{topic}/dlq/redrive", fields, status=202)
    async with asyncio.timeout(20):
        while True:
            state: dict[str, Any] = await nodes.ask(2, "GET", f"/topics/{topic}/dlq/redrive")
            if state["state"] != "running":
                return state
            await asyncio.sleep(0.02)


async def test_letters_of_all_leaders_go_to_a_topic_of_other_leaders(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as nodes:
        await nodes.topic("out", (2, 3, 1))
        # Three ids of jobs have different coordinators; a node that coordinates none of its jobs is among them.
        for turn, topic in enumerate(("orders", "bills", "mails"), 1):
            await nodes.topic(topic, NODES)
            await nodes.topic(topic + DEAD_LETTER_SUFFIX, NODES)
            for partition in range(3):
                await nodes.ask(1, "POST", f"/topics/{topic}/messages", {"value": topic, "partition": partition})
                body = {"group": "work", "partition": partition, "wait": "5s"}
                taken = await nodes.ask(1, "POST", f"/topics/{topic}/receive", body)
                receipts = [one["receipt_handle"] for one in taken["messages"]]
                await nodes.ask(1, "POST", "/messages/reject", {"receipts": receipts, "error": "bad"})
            async with asyncio.timeout(10):
                while (await nodes.ask(3, "GET", f"/topics/{topic}/dlq"))["total"] < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            state = await _redriven(nodes, topic, to="out")
            assert (state["state"], state["redriven"]) == ("done", 3), state
            found = await nodes.ask(3, "GET", "/topics/out/messages?limit=100&isolation=read_committed")
            assert len(found["messages"]) == 3 * turn
            again = await _redriven(nodes, topic, to="out")
            assert (again["state"], again["redriven"]) == ("done", 0), "what was sent back is settled"


async def _dead(nodes: ThreeNodes, topic: str, group: str) -> None:
    """One message of each partition is rejected by the group."""
    for partition in range(3):
        await nodes.ask(
            1, "POST", f"/topics/{topic}/messages", {"value": f"{topic}-{partition}", "partition": partition}
        )
        body = {"group": group, "partition": partition, "wait": "5s"}
        taken = await nodes.ask(2, "POST", f"/topics/{topic}/receive", body)
        receipts = [one["receipt_handle"] for one in taken["messages"]]
        await nodes.ask(3, "POST", "/messages/reject", {"receipts": receipts, "error": "bad"})
    async with asyncio.timeout(10):
        while (await nodes.ask(3, "GET", f"/topics/{topic}/dlq"))["total"] < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_letters_go_back_to_the_group_in_which_they_died_whoever_leads(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as nodes:
        for topic, group in (("orders", "work"), ("bills", "audit")):
            await nodes.topic(topic, NODES)
            # No partition of letters has the leader of the partition that they came from.
            await nodes.topic(topic + DEAD_LETTER_SUFFIX, (2, 3, 1))
            await _dead(nodes, topic, group)
            state = await _redriven(nodes, topic)
            assert (state["state"], state["redriven"]) == ("done", 3), state
            found: list[str] = []
            async with asyncio.timeout(10):
                while len(found) < 3:
                    body = {"group": group, "limit": 10, "wait": "1s"}
                    taken = await nodes.ask(3, "POST", f"/topics/{topic}/receive", body)
                    found += [one["value"] for one in taken["messages"]]
            assert sorted(found) == [f"{topic}-{partition}" for partition in range(3)]
            stored = await nodes.ask(1, "GET", f"/topics/{topic}/messages?limit=100")
            assert len(stored["messages"]) == 3, "they were reopened where they lie, not written again"
            again = await _redriven(nodes, topic)
            assert (again["state"], again["redriven"]) == ("done", 0)


@pytest.mark.slow
async def test_an_edited_letter_is_written_again_for_its_group_alone(tmp_path: Path) -> None:
    async with three_nodes(tmp_path) as nodes:
        await nodes.topic("orders", NODES)
        await nodes.topic("orders" + DEAD_LETTER_SUFFIX, (2, 3, 1))
        await _dead(nodes, "orders", "work")
        state = await _redriven(nodes, "orders", headers={"mended": "yes"})
        assert (state["state"], state["redriven"]) == ("done", 3), state
        stored = await nodes.ask(1, "GET", "/topics/orders/messages?limit=100&isolation=read_committed")
        assert len(stored["messages"]) == 6
