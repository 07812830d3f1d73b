"""HTTP on any node of three: what one leads, the others answer for too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.anywhere.three_nodes import NODES, ThreeNodes, three_nodes


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[ThreeNodes]:
    async with three_nodes(tmp_path) as found:
        await found.topic("orders", NODES)
        yield found


async def test_records_for_several_leaders_are_published_through_one_node(nodes: ThreeNodes) -> None:
    messages = [{"value": f"v{n}", "key": f"k{n}"} for n in range(30)]
    reply = await nodes.ask(2, "POST", "/topics/orders/messages", {"messages": messages})
    assert reply["count"] == 30
    assert {one["partition"] for one in reply["results"]} == {0, 1, 2}
    for node in NODES:
        found = await nodes.ask(node, "GET", "/topics/orders/messages?limit=100")
        assert sorted(one["value"] for one in found["messages"]) == sorted(f"v{n}" for n in range(30))
        assert sum(found["next_offsets"].values()) == 30
        shown = await nodes.ask(node, "GET", "/topics/orders")
        assert shown["total_messages"] == 30


async def test_a_partition_that_another_node_leads_is_written_and_read_by_number(nodes: ThreeNodes) -> None:
    reply = await nodes.ask(3, "POST", "/topics/orders/messages", {"value": "x", "partition": 0})
    assert (reply["results"][0]["partition"], reply["results"][0]["offset"]) == (0, 0)
    found = await nodes.ask(2, "GET", "/topics/orders/partitions/0/messages")
    assert [one["value"] for one in found["messages"]] == ["x"]
    assert (await nodes.ask(2, "GET", "/topics/orders/partitions/0/offset?from=latest"))["offset"] == 1
    truncated = await nodes.ask(2, "POST", "/topics/orders/partitions/0/truncate", {"before_offset": 1})
    assert truncated["earliest"] == 1


async def test_a_read_that_waits_is_answered_when_another_leader_gets_a_record(nodes: ThreeNodes) -> None:
    waiting = asyncio.ensure_future(nodes.ask(1, "GET", "/topics/orders/messages?wait=20s&from=latest"))
    await asyncio.sleep(0.1)
    await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "late", "partition": 2})
    found = await asyncio.wait_for(waiting, 5)
    assert [one["value"] for one in found["messages"]] == ["late"]


async def test_a_refusal_is_the_same_on_every_node(nodes: ThreeNodes) -> None:
    for node in NODES:
        refused = await nodes.ask(node, "GET", "/topics/orders/partitions/1/messages?offset=99", status=416)
        assert refused["error"]["code"] == "offset_out_of_range"
        await nodes.ask(node, "POST", "/topics/nothing/receive", {"group": "g"}, status=404)
        await nodes.ask(node, "GET", "/groups/nobody", status=404)


async def test_queue_messages_of_all_leaders_are_received_and_settled_anywhere(nodes: ThreeNodes) -> None:
    messages = [{"value": f"v{n}", "partition": n % 3} for n in range(9)]
    await nodes.ask(1, "POST", "/topics/orders/messages", {"messages": messages})
    taken: list[dict[str, Any]] = []
    for turn in range(9):
        node = NODES[turn % 3]
        found = await nodes.ask(node, "POST", "/topics/orders/receive", {"group": "work", "limit": 2})
        taken += found["messages"]
    assert sorted(one["value"] for one in taken) == sorted(f"v{n}" for n in range(9))
    receipts = [one["receipt_handle"] for one in taken]
    settled = await nodes.ask(3, "POST", "/messages/ack", {"receipts": receipts})
    assert (settled["succeeded"], settled["failed"]) == (9, 0)
    again = await nodes.ask(2, "POST", "/messages/ack", {"receipts": [*receipts[:1], "nonsense"]}, status=207)
    assert [one["error"]["code"] for one in again["results"]] == ["receipt_expired", "invalid_receipt"]
    for node in NODES:
        stats = await nodes.ask(node, "GET", "/reliability/stats")
        assert stats["ack_manager"]["acked_total"] == 9
        assert len(stats["queues"]) == 3


async def test_a_receive_that_waits_gets_what_another_node_is_given(nodes: ThreeNodes) -> None:
    waiting = asyncio.ensure_future(nodes.ask(1, "POST", "/topics/orders/receive", {"group": "work", "wait": "20s"}))
    await asyncio.sleep(0.2)
    await nodes.ask(3, "POST", "/topics/orders/messages", {"value": "x", "partition": 1})
    found = await asyncio.wait_for(waiting, 5)
    assert [one["value"] for one in found["messages"]] == ["x"]


async def test_what_was_leased_for_a_caller_that_has_gone_can_be_taken_at_once(nodes: ThreeNodes) -> None:
    body = {"group": "work", "wait": "20s", "visibility": "1h"}
    waiting = [asyncio.ensure_future(nodes.ask(1, "POST", "/topics/orders/receive", body)) for _ in range(5)]
    await asyncio.sleep(0.2)
    for one in waiting:
        one.cancel()
    # Until node 1 has seen that the connections are gone: what it writes before is lost, as with one node.
    await asyncio.sleep(0.05)
    await nodes.ask(2, "POST", "/topics/orders/messages", {"messages": [{"value": "x", "partition": 1}] * 5})
    got = 0
    deadline = asyncio.get_running_loop().time() + 10
    while got < 5 and asyncio.get_running_loop().time() < deadline:
        found = await nodes.ask(3, "POST", "/topics/orders/receive", {"group": "work", "wait": "1s", "limit": 10})
        got += len(found["messages"])
    assert got == 5


async def test_a_group_is_the_same_whichever_node_is_asked(nodes: ThreeNodes) -> None:
    await nodes.ask(1, "POST", "/topics/orders/messages", {"messages": [{"value": f"{n}"} for n in range(12)]})
    for number in range(6):
        group = f"readers-{number}"
        joined = await nodes.ask(1, "POST", f"/groups/{group}/join", {"topics": ["orders"], "mode": "stream"})
        member, generation = joined["member_id"], joined["generation"]
        assert len(joined["partitions"]) == 3
        found: list[str] = []
        for turn in range(4):
            query = f"member_id={member}&generation={generation}&timeout=1s"
            polled = await nodes.ask(NODES[turn % 3], "GET", f"/groups/{group}/poll?{query}")
            found += [one["value"] for one in polled["messages"]]
            if len(found) == 12:
                break
        assert sorted(found) == sorted(f"{n}" for n in range(12))
        offsets = {"orders": {"0": 1, "1": 2, "2": 3}}
        body = {"offsets": offsets, "member_id": member, "generation": generation}
        await nodes.ask(2, "POST", f"/groups/{group}/offsets", body)
        for node in NODES:
            shown = await nodes.ask(node, "GET", f"/groups/{group}/offsets")
            assert {at: one["offset"] for at, one in shown["topics"]["orders"].items()} == {"0": 1, "1": 2, "2": 3}
            assert shown["total_lag"] == 6
    for node in NODES:
        listed = await nodes.ask(node, "GET", "/groups")
        assert [one["id"] for one in listed["groups"]] == [f"readers-{n}" for n in range(6)]


async def test_a_queue_groups_policy_is_obeyed_by_every_leader(nodes: ThreeNodes) -> None:
    for partition in range(3):
        await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "x", "partition": partition})
        await nodes.ask(1, "POST", "/topics/orders/receive", {"group": "work", "partition": partition})
    await nodes.ask(2, "PATCH", "/groups/work/policy", {"retries_max": 7})
    for node in NODES:
        policy = await nodes.ask(node, "GET", "/groups/work/policy")
        assert policy["effective"]["retries_max"] == 7


async def test_settings_of_a_group_are_changed_at_any_node_and_obeyed_by_every_leader(nodes: ThreeNodes) -> None:
    """As Kafka's administrators do it: they ask whichever broker they are connected to."""
    for partition in range(3):
        await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "x", "partition": partition})
        await nodes.ask(1, "POST", "/topics/orders/receive", {"group": "work", "partition": partition})
    for node, running in nodes.running.items():
        wanted = {"retries_max": 10 * node, "start": "latest"}
        await running.services.groups.alter_settings("work", {}, delivery=wanted)
        for leader, other in nodes.running.items():
            assert (await other.services.groups.settings("work")).policy == {"retries_max": 10 * node}
            queues = other.services.delivery._queues.of_group("work")
            assert len(queues) == 1
            async with asyncio.timeout(10):
                while queues[0].policy.retries_max != 10 * node:  # noqa: ASYNC110 - the metadata alone told the leader
                    await asyncio.sleep(0.01)
            policy = await nodes.ask(leader, "GET", "/groups/work/policy?topic=orders")
            assert policy["effective"]["retries_max"] == 10 * node
    # Settings of a name that nobody uses make no group, wherever they are given.
    for running in nodes.running.values():
        await running.services.groups.alter_settings("nobody", {"consumer.session.timeout.ms": "6000"})
    listed = await nodes.ask(3, "GET", "/groups")
    assert [one["id"] for one in listed["groups"]] == ["work"]


async def test_a_leader_that_moves_is_followed(nodes: ThreeNodes) -> None:
    await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "before", "partition": 2})
    # Nodes 2 and 3 know that node 2 leads now; node 1 hears of it a little later.
    await nodes.lead("orders", (1, 2, 2), [nodes.running[2], nodes.running[3]])
    publishing = asyncio.ensure_future(
        nodes.ask(1, "POST", "/topics/orders/messages", {"value": "after", "partition": 2})
    )
    await asyncio.sleep(0.3)
    assert not publishing.done()
    await nodes.lead("orders", (1, 2, 2), [nodes.running[1]])
    reply = await asyncio.wait_for(publishing, 5)
    assert reply["results"][0]["offset"] == 0, "node 2 begins with an empty log: nothing is replicated here"


async def test_a_transaction_is_ended_by_its_coordinator(nodes: ThreeNodes) -> None:
    for name in ("a", "b", "c", "d"):
        who = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": name})
        of = {"transactional_id": name, "producer_id": who["producer_id"], "epoch": who["epoch"]}
        await nodes.ask(2, "POST", "/transactions/begin", of)
        described = await nodes.ask(3, "GET", f"/transactions/{name}")
        assert described["producer_id"] == who["producer_id"]
        await nodes.ask(3, "POST", "/transactions/abort", of)
    for node in NODES:
        assert (await nodes.ask(node, "GET", "/transactions"))["count"] == 0


async def test_a_node_that_cannot_be_reached_is_refused_in_time_and_the_others_answer(nodes: ThreeNodes) -> None:
    nodes.network.isolate(3)
    assert (await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "x", "partition": 1}))["count"] == 1
    listed = await asyncio.wait_for(nodes.ask(1, "GET", "/groups"), 30)
    assert listed == {"groups": []}


async def test_an_answer_says_how_far_an_acknowledged_write_got(nodes: ThreeNodes) -> None:
    body = {"messages": [{"value": "x", "partition": n} for n in range(3)], "acks": "all"}
    reply = await nodes.ask(1, "POST", "/topics/orders/messages", body)
    assert (reply["durability"], reply["replicas"]) == ("synced", 1)
    assert "durability" not in await nodes.ask(1, "POST", "/topics/orders/messages", {"value": "x", "acks": "leader"})


async def test_the_cluster_is_shown_by_every_node(nodes: ThreeNodes) -> None:
    for node in NODES:
        state = await nodes.ask(node, "GET", "/cluster/state")
        assert state["partitions"] == 3 + 6 + 3
        assert state["under_replicated"] == 12, "each partition has one replica of three in sync here"
        under = await nodes.ask(node, "GET", "/cluster/partitions?state=under_replicated&topic=orders")
        assert [one["leader"] for one in under["partitions"]] == [1, 2, 3]
        offline = await nodes.ask(node, "GET", "/cluster/partitions?state=offline")
        assert offline["count"] == 0
        health = await nodes.ask(node, "GET", "/cluster/health")
        assert health["status"] == "degraded"
        events = await nodes.ask(node, "GET", "/cluster/events?event=UncleanLeaderElected")
        assert events["count"] > 0, "this harness moves leaders out of the in-sync replicas"
        metrics = await nodes.ask(node, "GET", "/metrics")
        assert "goqueue_cluster_under_replicated_partitions 12.0" in metrics


async def test_an_unclean_election_is_refused_unless_the_loss_is_accepted(nodes: ThreeNodes) -> None:
    refused = await nodes.ask(
        1, "POST", "/cluster/elections", {"topic": "orders", "partition": 0, "unclean": True}, status=400
    )
    assert refused["error"]["field"] == "accept_data_loss"
    body = {"topic": "orders", "partition": 0}
    needless = await nodes.ask(1, "POST", "/cluster/elections", body, status=409)
    assert needless["error"]["code"] == "election_not_needed"


async def test_a_transaction_over_partitions_of_several_leaders_is_committed_and_aborted_everywhere(
    nodes: ThreeNodes,
) -> None:
    for n in range(3):
        await nodes.ask(1, "POST", "/topics/orders/messages", {"value": f"job {n}", "partition": n})
    receipts: list[str] = []
    while len(receipts) < 3:
        reply = await nodes.ask(1, "POST", "/topics/orders/receive", {"group": "workers", "limit": 10, "wait": "5s"})
        receipts += [one["receipt_handle"] for one in reply["messages"]]
    await nodes.topic("out", NODES)
    who = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": "tx"})
    of = {"transactional_id": "tx", "producer_id": who["producer_id"], "epoch": who["epoch"]}
    for commit, sequence in ((False, 0), (True, 1)):
        await nodes.ask(2, "POST", "/transactions/begin", of)
        for partition in range(3):
            message = {"topic": "out", "partition": partition, "value": f"{commit}", "sequence": sequence}
            await nodes.ask(3, "POST", "/transactions/publish", {**of, **message})
        await nodes.ask(2, "POST", "/transactions/ack", {**of, "receipts": receipts})
        await nodes.ask(1, "POST", "/transactions/commit" if commit else "/transactions/abort", of)
        await _no_transactions(nodes)
    found = await nodes.ask(2, "GET", "/topics/out/messages?limit=100&isolation=read_committed")
    assert [one["value"] for one in found["messages"]] == ["True"] * 3
    again = await nodes.ask(2, "POST", "/topics/orders/receive", {"group": "workers", "limit": 10})
    assert again["messages"] == [], "all three are settled, at three leaders"


async def test_sequenced_records_join_the_transaction_of_a_coordinator_elsewhere(nodes: ThreeNodes) -> None:
    for name in ("a", "b", "c"):
        who = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": name})
        of = {"transactional_id": name, "producer_id": who["producer_id"], "epoch": who["epoch"]}
        begun = ""
        for sequence, end in enumerate(("abort", "commit")):
            earlier, begun = begun, (await nodes.ask(2, "POST", "/transactions/begin", of))["transaction_id"]
            of_producer = {"producer_id": who["producer_id"], "producer_epoch": who["epoch"], "sequence": sequence}
            for partition in range(3):
                body = {"messages": [{"value": f"{name} {end}"}], "partition": partition, "acks": "all", **of_producer}
                await nodes.ask(3, "POST", "/topics/orders/messages", {**body, "transaction_id": begun})
                if earlier:
                    late = await nodes.ask(
                        3, "POST", "/topics/orders/messages", {**body, "transaction_id": earlier}, status=409
                    )
                    assert late["error"]["code"] == "invalid_transaction_state"
            await nodes.ask(1, "POST", f"/transactions/{end}", of)
            await _no_transactions(nodes)
    for node in NODES:
        found = await nodes.ask(node, "GET", "/topics/orders/messages?limit=100&isolation=read_committed")
        assert sorted(one["value"] for one in found["messages"]) == sorted([f"{n} commit" for n in "abc"] * 3)


async def test_what_a_task_stages_through_any_node_is_shown_when_its_epoch_is_committed(nodes: ThreeNodes) -> None:
    for writer in ("w1", "w2", "w3"):
        opened = await nodes.ask(1, "POST", f"/prepared/{writer}/0/participants", {"task": "t"})
        of = {"producer_id": opened["producer_id"], "producer_epoch": opened["producer_epoch"], "sequence": 0}
        for partition in range(3):
            body = {"messages": [{"value": writer}], "partition": partition, "acks": "all", **of}
            await nodes.ask(2, "POST", "/topics/orders/messages", body)
        hidden = await nodes.ask(3, "GET", "/topics/orders/messages?limit=100&isolation=read_committed")
        assert writer not in [one["value"] for one in hidden["messages"]]
        await nodes.ask(3, "POST", f"/prepared/{writer}/0/commit", {"participants": ["t"]})
    values: list[str] = []
    async with asyncio.timeout(10):
        while len(values) < 9:
            found = await nodes.ask(2, "GET", "/topics/orders/messages?limit=100&isolation=read_committed")
            values = sorted(one["value"] for one in found["messages"])
            await asyncio.sleep(0.01)
    assert values == ["w1"] * 3 + ["w2"] * 3 + ["w3"] * 3


async def test_offsets_of_groups_elsewhere_are_committed_in_a_transaction(nodes: ThreeNodes) -> None:
    await nodes.ask(1, "POST", "/topics/orders/messages", {"messages": [{"value": "x", "partition": 0}] * 3})
    for number in range(6):
        name, group = f"tx-{number}", f"readers-{number}"
        who = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": name})
        of = {"transactional_id": name, "producer_id": who["producer_id"], "epoch": who["epoch"]}
        for end in ("abort", "commit"):
            await nodes.ask(2, "POST", "/transactions/begin", of)
            offsets = {"orders": {"0": 1 if end == "abort" else 2}}
            await nodes.ask(3, "POST", "/transactions/offsets", {**of, "group": group, "offsets": offsets})
            await nodes.ask(2, "POST", f"/transactions/{end}", of)
            await _no_transactions(nodes)
        shown = await nodes.ask(1, "GET", f"/groups/{group}/offsets")
        assert shown["topics"]["orders"]["0"]["offset"] == 2


async def test_delayed_messages_are_held_by_the_leaders_of_their_partitions(nodes: ThreeNodes) -> None:
    messages = [{"value": f"v{n}", "partition": n % 3, "delay": "1h"} for n in range(6)]
    held = await nodes.ask(2, "POST", "/topics/orders/messages", {"messages": messages})
    assert held["count"] == 6
    for node in NODES:
        listed = await nodes.ask(node, "GET", "/topics/orders/delayed")
        assert len(listed["messages"]) == 6
    slots = [one["slot"] for one in held["results"]]
    await nodes.ask(3, "DELETE", f"/topics/orders/delayed/{slots[0]}")
    for slot in slots[1:]:
        await nodes.ask(1, "POST", f"/topics/orders/delayed/{slot}/now")
    values: list[str] = []
    async with asyncio.timeout(10):
        while len(values) < 5:
            found = await nodes.ask(3, "GET", "/topics/orders/messages?limit=100")
            values = sorted(one["value"] for one in found["messages"])
            await asyncio.sleep(0.01)
    assert values == [f"v{n}" for n in range(1, 6)]


async def test_a_delayed_message_of_a_transaction_is_held_by_another_leader(nodes: ThreeNodes) -> None:
    who = await nodes.ask(1, "POST", "/producers/init", {"transactional_id": "tx"})
    of = {"transactional_id": "tx", "producer_id": who["producer_id"], "epoch": who["epoch"]}
    await nodes.ask(2, "POST", "/transactions/begin", of)
    for partition in range(3):
        message = {"topic": "orders", "partition": partition, "value": "later", "sequence": 0, "delay": "1h"}
        staged = await nodes.ask(3, "POST", "/transactions/publish", {**of, **message})
        assert staged["delayed"]
    assert (await nodes.ask(1, "GET", "/topics/orders/delayed"))["messages"] == []
    await nodes.ask(1, "POST", "/transactions/commit", of)
    async with asyncio.timeout(10):
        while len((await nodes.ask(1, "GET", "/topics/orders/delayed"))["messages"]) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _no_transactions(nodes: ThreeNodes) -> None:
    """Wait until what was decided is carried out everywhere."""
    async with asyncio.timeout(10):
        while (await nodes.ask(1, "GET", "/transactions"))["count"]:  # noqa: ASYNC110 - there is nothing to wait for
            await asyncio.sleep(0.01)
