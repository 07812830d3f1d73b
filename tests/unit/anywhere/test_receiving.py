"""Receiving from several leaders: nothing stays leased for a caller that has gone, and nothing exceeds the limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.homes import Homes
from goqueue.anywhere.queues.receiving import ReceiveAnywhere
from goqueue.caller import ANONYMOUS, Caller
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.values import Action, Delivery, Receive, Settlement
from goqueue.errors import CoordinatorUnavailable, NotLeader, PeerUnreachable
from goqueue.records import TopicPartition

PLACES = [TopicPartition("orders", number) for number in range(3)]


class Leaders(Homes):
    """Node n leads partition n."""

    def __init__(self) -> None:
        self.node_id = 0

    def by_leader(self, places: Any) -> dict[int, list[TopicPartition]]:
        return {place.partition: [place] for place in places}


class Peers(Asking):
    """Peers whose answers a test gives."""

    def __init__(self, answer: Callable[[int, Receive], Awaitable[list[Delivery]]]) -> None:
        self.homes = Leaders()
        self.give = answer
        self.asked: list[tuple[int, int]] = []

    def answer(self, *_: Any) -> None:
        """Nobody asks us."""

    async def ask(
        self, node_id: int, _method: Any, question: Any, _caller: Caller, *, on_late: Any = None, **_: Any
    ) -> Any:
        self.asked.append((node_id, question.wait_ms))
        task = asyncio.ensure_future(self.give(node_id, question))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: on_late(done.result()))
            raise


class Local:
    """This node has nothing."""

    async def receive(self, request: Receive, **_: Any) -> list[Delivery]:
        if request.wait_ms:
            await asyncio.Event().wait()
        return []


def delivery(partition: int, offset: int) -> Delivery:
    return Delivery("orders", partition, offset, 0, None, b"v", (), 2, f"orders:{partition}:{offset}:1:x", 1, 0, 0)


def receiving(
    answer: Callable[[int, Receive], Awaitable[list[Delivery]]],
) -> tuple[ReceiveAnywhere, Peers, list[Settlement]]:
    released: list[Settlement] = []

    def give_back(settlements: Sequence[Settlement]) -> None:
        released.extend(settlements)

    peers = Peers(answer)
    return ReceiveAnywhere(cast("DeliveryService", Local()), peers, give_back), peers, released


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come true")


async def test_the_first_node_that_has_messages_ends_the_search() -> None:
    async def answer(node: int, _request: Receive) -> list[Delivery]:
        return [delivery(node, 0)]

    receive, peers, released = receiving(answer)
    found = await receive.receive(Receive("g", "c", PLACES, 10, wait_ms=1000), ANONYMOUS)
    assert [one.partition for one in found] == [peers.asked[0][0]]
    assert peers.asked[0][1] == 0, "nobody waits before all were asked"
    assert released == []


async def test_what_several_give_in_the_same_moment_is_cut_to_the_limit_and_the_rest_released() -> None:
    gate = asyncio.Event()

    async def answer(node: int, request: Receive) -> list[Delivery]:
        if not request.wait_ms:
            return []
        await gate.wait()
        return [delivery(node, 0), delivery(node, 1)]

    receive, peers, released = receiving(answer)
    task = asyncio.ensure_future(receive.receive(Receive("g", "c", PLACES, 2, wait_ms=60_000), ANONYMOUS))
    await until(lambda: len(peers.asked) == 4)
    gate.set()
    found = await task
    await asyncio.sleep(0)
    assert len(found) == 2
    assert {one.receipt for one in found}.isdisjoint(one.receipt for one in released)
    assert len(released) == 2
    assert {one.action for one in released} == {Action.RELEASE}


async def test_an_answer_that_comes_after_the_caller_has_gone_is_released() -> None:
    gate = asyncio.Event()

    async def answer(node: int, request: Receive) -> list[Delivery]:
        if not request.wait_ms:
            return []
        await gate.wait()
        return [delivery(node, 7)]

    receive, peers, released = receiving(answer)
    task = asyncio.ensure_future(receive.receive(Receive("g", "c", PLACES, 10, wait_ms=60_000), ANONYMOUS))
    await until(lambda: len(peers.asked) == 4)
    task.cancel()
    await asyncio.wait([task])
    gate.set()
    await until(lambda: len(released) == 2)
    assert sorted(one.receipt for one in released) == ["orders:1:7:1:x", "orders:2:7:1:x"]


async def test_leaders_that_refuse_for_long_are_asked_less_and_less_often() -> None:
    """So a partition does that has too few in-sync replicas: every consumer that waits would ask 50 times a second."""
    pauses: list[float] = []

    async def answer(_node: int, _request: Receive) -> list[Delivery]:
        raise CoordinatorUnavailable("orders-1 has 1 in-sync replica")

    async def settle_down(seconds: float = 0.02) -> None:
        pauses.append(seconds)
        await asyncio.sleep(seconds)

    receive, peers, _ = receiving(answer)
    peers.settle_down = settle_down  # type: ignore[method-assign]
    with pytest.raises(CoordinatorUnavailable):
        await receive.receive(Receive("g", "c", PLACES[1:], 10, wait_ms=300), ANONYMOUS)
    assert pauses[:3] == pytest.approx([0.02, 0.04, 0.08])
    assert len(pauses) <= 5


async def test_an_answer_that_comes_in_the_moment_in_which_the_caller_goes_is_released() -> None:
    gate = asyncio.Event()

    async def answer(node: int, request: Receive) -> list[Delivery]:
        if not request.wait_ms:
            return []
        await gate.wait()
        return [delivery(node, 7)]

    receive, peers, released = receiving(answer)
    task = asyncio.ensure_future(receive.receive(Receive("g", "c", PLACES, 10, wait_ms=60_000), ANONYMOUS))
    await until(lambda: len(peers.asked) == 4)
    gate.set()
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    outcome = (await asyncio.wait([task]))[0].pop()
    if outcome.cancelled():
        await until(lambda: len(released) == 2)
    else:
        assert len(outcome.result()) == 2


async def test_a_node_that_cannot_be_reached_does_not_hide_what_the_others_have() -> None:
    async def answer(node: int, _request: Receive) -> list[Delivery]:
        if node == 1:
            raise PeerUnreachable(1, "no answer")
        return [delivery(node, 0)]

    receive, _, _ = receiving(answer)
    for _ in range(3):
        found = await receive.receive(Receive("g", "c", PLACES, 10, wait_ms=0), ANONYMOUS)
        assert [one.partition for one in found] == [2]


async def test_while_a_leader_cannot_be_reached_the_others_are_waited_for_and_leaders_are_looked_up_again() -> None:
    first_wait = asyncio.Event()

    async def answer(node: int, request: Receive) -> list[Delivery]:
        if node == 1:
            raise PeerUnreachable(1, "no answer")
        if request.wait_ms:
            assert request.wait_ms <= 500
            first_wait.set()
        return [delivery(node, 0)] if first_wait.is_set() and request.wait_ms == 0 else []

    class Empty:
        async def receive(self, *_: Any, **__: Any) -> list[Delivery]:
            return []

    receive, peers, _ = receiving(answer)
    receive._local = cast("DeliveryService", Empty())
    found = await receive.receive(Receive("g", "c", PLACES, 10, wait_ms=60_000), ANONYMOUS)
    assert [one.partition for one in found] == [2]
    assert [wait_ms for node, wait_ms in peers.asked if node == 1] == [0, 0]


async def test_if_no_leader_answers_the_receiver_is_told() -> None:
    class Dead:
        async def receive(self, *_: Any, **__: Any) -> list[Delivery]:
            raise PeerUnreachable(0, "no answer")

    async def answer(node: int, _request: Receive) -> list[Delivery]:
        raise PeerUnreachable(node, "no answer")

    receive, _, _ = receiving(answer)
    receive._local = cast("DeliveryService", Dead())
    with pytest.raises(PeerUnreachable):
        await receive.receive(Receive("g", "c", PLACES, 10, wait_ms=0), ANONYMOUS)


async def test_whoever_waits_for_partitions_without_a_leader_leaves_the_loop_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It looked again and again without a pause: the node answered nobody for 20 s, and lost its session."""

    async def answer(_node: int, _request: Receive) -> list[Delivery]:
        raise AssertionError("nobody leads anything")

    receiver, peers, _ = receiving(answer)
    looks = 0

    def none_leads(places: Any) -> dict[int, list[TopicPartition]]:
        nonlocal looks
        looks += 1
        return {-1: list(places)}

    monkeypatch.setattr(peers.homes, "by_leader", none_leads)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.01)

    beside = asyncio.create_task(others())
    assert await receiver.receive(Receive("g", "c", PLACES, 10, wait_ms=200), ANONYMOUS) == []
    beside.cancel()
    assert turns > 5
    assert looks <= 3


async def test_a_node_without_a_session_passes_nothing_on_and_gives_it_back() -> None:
    """It was frozen while the answer of the leader lay here; others had the messages settled meanwhile."""

    async def answer(node: int, _request: Receive) -> list[Delivery]:
        return [delivery(node, 7)] if node == 1 else []

    receive, _, released = receiving(answer)
    problems = iter(["this node has no session", None])
    receive._session_problem = lambda: next(problems)
    with pytest.raises(NotLeader, match="this node has no session"):
        await receive.receive(Receive("g", "c", PLACES[1:2], 10), ANONYMOUS)
    assert released == [Settlement("orders:1:7:1:x", Action.RELEASE)]
    assert await receive.receive(Receive("g", "c", PLACES[1:2], 10), ANONYMOUS) == [delivery(1, 7)]
    assert len(released) == 1
