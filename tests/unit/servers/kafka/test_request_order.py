"""Which requests of one connection are worked on beside each other, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.codec.kafka.kio_values import request_frame

from goqueue.config import LimitsConfig
from goqueue.servers.kafka.api import Order
from goqueue.servers.kafka.connections.request_order import UnansweredRequests
from goqueue.servers.kafka.registry import HANDLERS

from .stub_handlers import Slow, stub
from .test_connection import Client, World, until

# Any API of each order; what they answer is the test's.
KEYS = {
    Order.READ: 12,
    Order.CREATING_READ: 3,
    Order.WRITE: 11,
    Order.COMMIT: 14,
    Order.CHANGE: 13,
    Order.POLL: 16,
}


class Orders(World):
    """A server whose handlers all wait until they are told to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = {order: Slow() for order in Order}

    async def begin(self, limits: LimitsConfig | None = None) -> Client:
        handlers: dict[int, Any] = {}
        for order, key in KEYS.items():
            handlers |= stub(key, (0, 2), self.slow[order], order=order)
        await self.serve(handlers, limits or LimitsConfig())
        return await self.connect()

    def started(self) -> list[Order]:
        return [order for order in Order for _ in self.slow[order].answers]

    def answer(self, order: Order) -> None:
        next(one for one in self.slow[order].answers if not one.done()).set_result({})

    async def close(self) -> None:
        # A server that stops waits for requests under way.
        for slow in self.slow.values():
            for one in slow.answers:
                if not one.done():
                    one.cancel()
        await super().close()


@pytest.fixture
async def orders() -> AsyncIterator[Orders]:
    one = Orders()
    yield one
    await one.close()


def send(client: Client, *orders: Order) -> None:
    client.send(*(request_frame(KEYS[one], 2, {}, correlation_id=at) for at, one in enumerate(orders)))


@pytest.mark.parametrize("behind", list(Order))
async def test_nothing_starts_before_the_change_in_front_of_it_is_answered(orders: Orders, behind: Order) -> None:
    client = await orders.begin()
    send(client, Order.CHANGE, behind)
    await until(lambda: bool(orders.started()))
    await asyncio.sleep(0.02)
    assert orders.started() == [Order.CHANGE]
    orders.answer(Order.CHANGE)
    await until(lambda: len(orders.started()) == 2)
    orders.answer(behind)
    await client.receive()
    await client.receive()


@pytest.mark.parametrize("before", [Order.READ, Order.WRITE, Order.COMMIT, Order.CREATING_READ])
async def test_a_change_starts_when_everything_in_front_of_it_is_answered(orders: Orders, before: Order) -> None:
    client = await orders.begin()
    send(client, before, Order.CHANGE)
    await until(lambda: bool(orders.started()))
    await asyncio.sleep(0.02)
    assert orders.started() == [before]
    orders.answer(before)
    await until(lambda: Order.CHANGE in orders.started())


@pytest.mark.parametrize("behind", list(Order))
async def test_nothing_waits_for_a_poll(orders: Orders, behind: Order) -> None:
    client = await orders.begin()
    send(client, Order.POLL, behind)
    await until(lambda: len(orders.started()) == 2)


async def test_writes_and_commits_are_worked_on_side_by_side(orders: Orders) -> None:
    client = await orders.begin()
    send(client, *[Order.WRITE, Order.COMMIT] * 20)
    await until(lambda: len(orders.started()) == 40)


async def test_reads_do_not_wait_for_writes_but_for_commits(orders: Orders) -> None:
    client = await orders.begin()
    send(client, Order.WRITE, Order.READ, Order.COMMIT, Order.READ)
    await until(lambda: len(orders.started()) == 3)
    await asyncio.sleep(0.02)
    assert orders.started().count(Order.READ) == 1
    orders.answer(Order.COMMIT)
    await until(lambda: orders.started().count(Order.READ) == 2)


async def test_a_read_that_creates_something_holds_back_even_writes(orders: Orders) -> None:
    client = await orders.begin()
    send(client, Order.CREATING_READ, Order.WRITE)
    await until(lambda: bool(orders.started()))
    await asyncio.sleep(0.02)
    assert orders.started() == [Order.CREATING_READ]
    orders.answer(Order.CREATING_READ)
    await until(lambda: Order.WRITE in orders.started())


async def test_other_connections_do_not_wait(orders: Orders) -> None:
    client, other = await orders.begin(), await orders.connect()
    send(client, Order.CHANGE)
    await until(lambda: bool(orders.started()))
    send(other, Order.READ)
    await until(lambda: Order.READ in orders.started())


def test_with_nothing_unanswered_everything_may_start() -> None:
    unanswered = UnansweredRequests()
    for order in Order:
        unanswered.add(order)
        unanswered.remove(order)
    assert unanswered.is_empty
    assert all(unanswered.may_start(order) for order in Order)


@pytest.mark.parametrize("word", ["Create", "Delete", "Alter", "EndTxn", "AddPartitions", "Leave"])
def test_apis_that_change_something_are_changes(word: str) -> None:
    named: list[SimpleNamespace] = [one for one in HANDLERS.values() if word in one.API.name]  # type: ignore[misc]
    assert named
    assert {one.API.order for one in named} == {Order.CHANGE}
