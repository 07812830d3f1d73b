"""Receives that meet travel together, and each consumer gets its share."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.client.errors import BrokerUnreachable, ClientClosed
from goqueue.client.queues.gathering import ReceiveGatherer, SettleGatherer
from goqueue.client.types import QueueMessage, Settled


def message(offset: int) -> QueueMessage:
    return QueueMessage("t", 0, offset, 0, None, None, receipt=str(offset), delivery_count=1, visible_until_ms=0)


class Queue:
    """Answers when told, with as many messages as it has."""

    def __init__(self, *counts: int) -> None:
        self.asked: list[tuple[int, int]] = []
        self.returned: list[int] = []
        self.go = asyncio.Event()
        self._counts = list(counts)
        self._next = 0

    async def take(self, limit: int, wait_ms: int) -> list[QueueMessage]:
        self.asked.append((limit, wait_ms))
        await self.go.wait()
        count = min(limit, self._counts.pop(0) if self._counts else 0)
        found = [message(self._next + number) for number in range(count)]
        self._next += count
        return found

    def gatherer(self) -> ReceiveGatherer:
        return ReceiveGatherer(self.take, lambda messages: self.returned.extend(one.offset for one in messages))


async def until(condition) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.001)


async def test_receives_of_one_moment_are_one_request_and_each_gets_its_share():
    queue = Queue(5)
    gatherer = queue.gatherer()
    queue.go.set()

    found = await asyncio.gather(*(gatherer.receive(limit, 0) for limit in (1, 2, 3)))

    assert queue.asked == [(6, 0)]
    assert [[one.offset for one in share] for share in found] == [[0], [1, 2], [3, 4]]


async def test_those_that_got_nothing_wait_on():
    queue = Queue(1, 1)
    gatherer = queue.gatherer()
    queue.go.set()

    found = await asyncio.gather(*(gatherer.receive(1, 60_000) for _ in range(2)))

    assert [share[0].offset for share in found] == [0, 1]
    assert [limit for limit, _ in queue.asked] == [2, 1]


async def test_an_empty_queue_answers_all_with_nothing():
    queue = Queue(0)
    gatherer = queue.gatherer()
    queue.go.set()

    assert await asyncio.gather(*(gatherer.receive(1, 0) for _ in range(3))) == [[], [], []]


async def test_a_receive_does_not_wait_for_one_at_an_empty_queue():
    queue = Queue(0, 1)
    gatherer = queue.gatherer()
    waiting = asyncio.create_task(gatherer.receive(1, 60_000))
    await until(lambda: queue.asked)

    second = asyncio.create_task(gatherer.receive(1, 0))
    await until(lambda: len(queue.asked) == 2)

    for task in (waiting, second):
        task.cancel()
    await asyncio.gather(waiting, second, return_exceptions=True)
    gatherer.close()


async def test_what_comes_for_a_receive_that_was_cancelled_is_given_back():
    queue = Queue(2)
    gatherer = queue.gatherer()
    first, second = (asyncio.create_task(gatherer.receive(1, 0)) for _ in range(2))
    await until(lambda: queue.asked)

    first.cancel()
    queue.go.set()

    assert [one.offset for one in await second] == [0]
    assert queue.returned == [1]


async def test_an_error_is_raised_by_every_receive_of_the_request():
    async def fail(_limit: int, _wait_ms: int) -> list[QueueMessage]:
        raise BrokerUnreachable("there", "gone")

    gatherer = ReceiveGatherer(fail, lambda _: None)

    found = await asyncio.gather(*(gatherer.receive(1, 0) for _ in range(2)), return_exceptions=True)

    assert [type(one) for one in found] == [BrokerUnreachable] * 2


async def test_a_close_fails_what_is_under_way():
    queue = Queue()
    gatherer = queue.gatherer()
    waiting = asyncio.create_task(gatherer.receive(1, 60_000))
    await until(lambda: queue.asked)
    behind = asyncio.create_task(gatherer.receive(1, 60_000))
    await asyncio.sleep(0)

    gatherer.close()

    for one in (waiting, behind):
        with pytest.raises(ClientClosed):
            await one


async def test_settlements_that_meet_are_one_request_even_if_one_of_them_is_cancelled():
    sent: list[list[str]] = []
    go = asyncio.Event()

    async def send(receipts, _lost):
        sent.append(list(receipts))
        await go.wait()
        return [Settled(True, one) for one in receipts]

    done: list[bool] = []
    gatherer = SettleGatherer(send, lambda: done.append(True))
    first, second, third = (asyncio.create_task(gatherer.settle([name], lambda: None)) for name in "abc")
    await until(lambda: sent)
    first.cancel()
    go.set()

    assert [(await one)[0].receipt for one in (second, third)] == ["b", "c"]
    assert sent == [["a", "b", "c"]]
    await until(lambda: done)
