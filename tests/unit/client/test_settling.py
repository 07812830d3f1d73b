"""Settlements gather while a request is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from goqueue.client.errors import BrokerUnreachable, SettleFailed
from goqueue.client.queues.settling import Settler
from goqueue.client.types import QueueMessage, Settled, SettleProblem


class Wire:
    """A transport that answers when told, and remembers what it was sent."""

    def __init__(self, *, refuse: frozenset[str] = frozenset(), down: bool = False, loses_answer: bool = False) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.go = asyncio.Event()
        self._refuse = refuse
        self._down = down
        self._loses_answer = loses_answer

    async def settle(
        self,
        path: str,
        receipts: Sequence[str],
        fields: Mapping[str, Any],
        *,
        durable: bool,
        on_lost: Callable[[], None],
    ) -> list[Settled]:
        body = {"receipts": list(receipts), "durable": durable, **fields}
        if self._loses_answer:
            on_lost()
        self.sent.append((path, body))
        await self.go.wait()
        if self._down:
            raise BrokerUnreachable("there", "nobody")
        return [
            Settled(False, one, error=SettleProblem("receipt_expired", "too late"), status=410)
            if one in self._refuse
            else Settled(True, one, "acked")
            for one in body["receipts"]
        ]


def message(receipt: str) -> QueueMessage:
    return QueueMessage("t", 0, 0, 0, None, None, receipt=receipt, delivery_count=1, visible_until_ms=0)


async def settle_loop(turns: int = 5) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_those_that_come_while_one_travels_go_together() -> None:
    wire = Wire()
    settler = Settler(wire, durable=False)  # type: ignore[arg-type]
    first = settler.put("/messages/ack", "a")
    await settle_loop()
    rest = [settler.put("/messages/ack", name) for name in "bcd"]
    await settle_loop()
    assert [body["receipts"] for _, body in wire.sent] == [["a"]]
    wire.go.set()
    await settler.flush()
    assert [body["receipts"] for _, body in wire.sent] == [["a"], ["b", "c", "d"]]
    assert [one.result().receipt for one in [first, *rest]] == list("abcd")


async def test_what_differs_in_reason_or_delay_does_not_travel_together() -> None:
    wire = Wire()
    wire.go.set()
    settler = Settler(wire, durable=True)  # type: ignore[arg-type]
    settler.put("/messages/nack", "a", reason="x")
    settler.put("/messages/nack", "b", reason="y")
    await settler.flush()
    assert [(body["receipts"], body["reason"], body["durable"]) for _, body in wire.sent] == [
        (["a"], "x", True),
        (["b"], "y", True),
    ]


async def test_each_learns_its_own_fate() -> None:
    wire = Wire(refuse=frozenset({"b"}))
    wire.go.set()
    settler = Settler(wire, durable=False)  # type: ignore[arg-type]
    good, bad = settler.put("/messages/ack", "a"), settler.put("/messages/ack", "b")
    assert (await good).success
    with pytest.raises(SettleFailed, match="too late") as caught:
        await bad
    assert (caught.value.status, caught.value.code) == (410, "receipt_expired")


async def test_without_an_answer_all_of_them_are_told() -> None:
    wire = Wire(down=True)
    wire.go.set()
    settler = Settler(wire, durable=False)  # type: ignore[arg-type]
    waits = [settler.put("/messages/ack", name) for name in "ab"]
    for one in waits:
        with pytest.raises(BrokerUnreachable):
            await one
    # And what comes next is tried again.
    assert settler.put("/messages/ack", "c") is not None
    await settler.flush()
    assert len(wire.sent) == 2


async def test_more_than_a_request_takes_are_sent_in_several() -> None:
    wire = Wire()
    wire.go.set()
    settler = Settler(wire, durable=False)  # type: ignore[arg-type]
    results = await settler.send("/messages/ack", [message(str(n)) for n in range(2500)])
    assert [len(body["receipts"]) for _, body in wire.sent] == [1000, 1000, 500]
    assert [one.receipt for one in results] == [str(n) for n in range(2500)]


@pytest.mark.parametrize(("lease_s", "is_settled"), [(30.0, True), (-1.0, False)])
async def test_a_receipt_that_is_gone_after_a_lost_answer_was_settled_if_its_lease_still_holds(
    lease_s: float, is_settled: bool
) -> None:
    wire = Wire(refuse=frozenset({"a"}), loses_answer=True)
    wire.go.set()
    settler = Settler(wire, durable=True)  # type: ignore[arg-type]
    until_s = asyncio.get_running_loop().time() + lease_s
    future = settler.put("/messages/ack", "a", until_s=until_s)
    if is_settled:
        assert (await future).action == "acked"
        # What is known is forgotten: a second acknowledgement is a mistake of the program, and is told.
        wire._loses_answer = False
        future = settler.put("/messages/ack", "a", until_s=until_s)
    with pytest.raises(SettleFailed):
        await future


class Moving(Wire):
    """The leader of the partition goes, and the next one answers as planned."""

    def __init__(self, *, then: int) -> None:
        super().__init__()
        self._statuses = {"moved": [503, 503, then]}

    async def settle(self, path: str, receipts: Sequence[str], *args: Any, **kwargs: Any) -> list[Settled]:
        self.sent.append((path, {"receipts": list(receipts)}))
        return [self._result(one) for one in receipts]

    def _result(self, receipt: str) -> Settled:
        status = self._statuses[receipt].pop(0) if receipt in self._statuses else 200
        problem = SettleProblem({503: "not_coordinator", 410: "receipt_expired"}.get(status, ""), "not so")
        return (
            Settled(True, receipt, "acked") if status == 200 else Settled(False, receipt, error=problem, status=status)
        )


@pytest.mark.parametrize("then", [200, 410])
async def test_a_receipt_is_settled_again_while_its_partition_changes_its_leader(then: int) -> None:
    until_s = asyncio.get_running_loop().time() + 30.0
    settler = Settler(Moving(then=then), durable=False)
    one, other = (settler.put("/messages/ack", name, until_s=until_s) for name in ("moved", "here"))
    assert (await other).success
    # Within its lease nobody else can have settled it: the former leader had, before it went.
    assert (await one).action == "acked"

    settler = Settler(wire := Moving(then=then), durable=False)
    results = await settler.send("/messages/ack", [message("here"), message("moved")], until_s=until_s)
    assert [one.receipt for one in results if one.success] == ["here", "moved"]
    assert [body["receipts"] for _, body in wire.sent] == [["here", "moved"], ["moved"], ["moved"]]


async def test_a_receipt_whose_lease_has_ended_is_not_settled_again() -> None:
    settler = Settler(wire := Moving(then=200), durable=False)
    with pytest.raises(SettleFailed, match="not so"):
        await settler.put("/messages/ack", "moved")
    with pytest.raises(SettleFailed, match="not so"):
        await settler.send("/messages/ack", [message("moved")])
    assert len(wire.sent) == 2


async def test_settlements_of_other_partitions_do_not_wait_for_one_that_has_no_leader() -> None:
    loop = asyncio.get_running_loop()
    wire = Moving(then=200)
    wire._statuses["moved"] = [503] * 1_000
    settler = Settler(wire, durable=False)
    moved = settler.put("/messages/ack", "moved", until_s=loop.time() + 30.0)
    await settle_loop()

    begun_s = loop.time()
    for number in range(50):
        await settler.put("/messages/ack", str(number), until_s=begun_s + 30.0)
    assert loop.time() - begun_s < 1

    settler.close()
    await settler.flush()
    with pytest.raises(SettleFailed, match="not so"):
        await moved


async def test_what_another_settlement_may_have_done_is_not_told_as_done_by_this_one() -> None:
    """An extension without an answer has settled nothing."""
    moving = Moving(then=410)
    settler = Settler(moving, durable=False)
    with pytest.raises(SettleFailed):
        await settler.put("/messages/visibility", "moved", visibility="30s")
    moving._statuses["moved"] = [410]
    with pytest.raises(SettleFailed) as caught:
        await settler.put("/messages/ack", "moved", until_s=asyncio.get_running_loop().time() + 30.0)
    assert caught.value.code == "receipt_expired"


async def test_nothing_is_remembered_of_receipts_that_are_given_up() -> None:
    settler = Settler(Moving(then=200), durable=False)
    with pytest.raises(SettleFailed):
        await settler.put("/messages/ack", "moved")
    with pytest.raises(SettleFailed):
        await settler.send("/messages/ack", [message("moved")])
    assert settler._unanswered == set()
