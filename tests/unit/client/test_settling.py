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
