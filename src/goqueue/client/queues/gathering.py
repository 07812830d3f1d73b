"""Receives, and settlements, that several consumers of one program ask for at the same time travel as one request.

Each would otherwise cost the broker a request, a lease and a write. The first one goes at once; those that come while
it travels wait for its reply. Receives do not wait for long: a reply that does not come soon is that of an empty queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from goqueue.client.errors import ClientClosed
from goqueue.client.types import QueueMessage, Settled

# How long a receive waits for the reply to another one before it goes by itself.
_GATHER_S_MAX = 0.005
# As many as one request takes.
_LIMIT_MAX = 1_000

# Takes up to so many messages, waiting for the first for so many milliseconds.
Take = Callable[[int, int], Awaitable[list[QueueMessage]]]
GiveBack = Callable[[Sequence[QueueMessage]], None]
# Is called when the reply to a settlement was lost.
Lost = Callable[[], None]
Send = Callable[[Sequence[str], Lost], Awaitable[list[Settled]]]


@dataclass(slots=True, eq=False)
class _Asked:
    limit: int
    until_s: float
    future: asyncio.Future[list[QueueMessage]]


class ReceiveGatherer:
    """Receives of one topic, group, consumer and visibility."""

    def __init__(self, take: Take, give_back: GiveBack) -> None:
        self._take = take
        self._give_back = give_back
        self._waiting: deque[_Asked] = deque()
        self._under_way: dict[asyncio.Task[None], list[_Asked]] = {}
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        return not self._waiting and not self._under_way

    async def receive(self, limit: int, wait_ms: int) -> list[QueueMessage]:
        """Up to `limit` messages, waiting for the first up to `wait_ms`."""
        loop = asyncio.get_running_loop()
        asked = _Asked(limit, loop.time() + wait_ms / 1000, loop.create_future())
        self._waiting.append(asked)
        self._plan()
        try:
            return await asked.future
        except asyncio.CancelledError:
            if asked.future.done() and not asked.future.cancelled() and asked.future.exception() is None:
                self._give_back(asked.future.result())
            raise

    def _plan(self) -> None:
        if self._timer is not None or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_GATHER_S_MAX, self._send) if self._under_way else loop.call_soon(self._send)

    def _send(self) -> None:
        """Send what has gathered as one request."""
        self._timer = None
        batch: list[_Asked] = []
        left = _LIMIT_MAX
        while self._waiting and (not batch or self._waiting[0].limit <= left):
            asked = self._waiting.popleft()
            if not asked.future.done():
                batch.append(asked)
                left -= asked.limit
        if not batch:
            return
        task = asyncio.create_task(self._request(batch))
        self._under_way[task] = batch
        task.add_done_callback(self._done)
        if self._waiting:
            self._plan()

    async def _request(self, batch: list[_Asked]) -> None:
        # The shortest wait decides; those who asked for longer are asked for again.
        wait_s = max(0.0, min(one.until_s for one in batch) - asyncio.get_running_loop().time())
        try:
            messages = await self._take(sum(one.limit for one in batch), round(wait_s * 1000))
        except Exception as problem:  # noqa: BLE001 - it is raised where each receive waits
            _fail(batch, problem)
            return
        self._hand_out(batch, messages)

    def _hand_out(self, batch: list[_Asked], messages: list[QueueMessage]) -> None:
        at = 0
        now = asyncio.get_running_loop().time()
        again: list[_Asked] = []
        for one in batch:
            if one.future.done():
                continue
            share = messages[at : at + one.limit]
            at += len(share)
            if share or one.until_s <= now:
                one.future.set_result(share)
            else:
                again.append(one)
        if at < len(messages):
            self._give_back(messages[at:])
        self._waiting.extendleft(reversed(again))

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            # The programs that were just served may ask again in this turn of the loop.
            self._timer = asyncio.get_running_loop().call_soon(self._send)

    def close(self) -> None:
        """Fail all receives that wait."""
        closed = ClientClosed("the client was closed while a receive was under way")
        _fail(self._waiting, closed)
        for task, batch in self._under_way.items():
            task.cancel()
            _fail(batch, closed)
        self._waiting.clear()


@dataclass(slots=True, eq=False)
class _Settling:
    receipts: Sequence[str]
    on_lost: Lost
    future: asyncio.Future[list[Settled]]


class SettleGatherer:
    """Settlements of one kind. `done` is called when none is left."""

    def __init__(self, send: Send, done: Callable[[], object]) -> None:
        self._send = send
        self._finished = done
        self._waiting: deque[_Settling] = deque()
        self._sender: asyncio.Task[None] | None = None

    async def settle(self, receipts: Sequence[str], on_lost: Lost) -> list[Settled]:
        """What became of each receipt."""
        asked = _Settling(receipts, on_lost, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._sender is None:
            # A task of its own: whoever asked may be cancelled while others wait for the same request.
            self._sender = asyncio.create_task(self._drain())
        return await asked.future

    async def _drain(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft()]
                left = _LIMIT_MAX - len(batch[0].receipts)
                while self._waiting and len(self._waiting[0].receipts) <= left:
                    batch.append(self._waiting.popleft())
                    left -= len(batch[-1].receipts)
                await self._request(batch)
        finally:
            self._sender = None
            self._finished()

    async def _request(self, batch: list[_Settling]) -> None:
        def lost() -> None:
            for one in batch:
                one.on_lost()

        try:
            results = await self._send([receipt for one in batch for receipt in one.receipts], lost)
        except asyncio.CancelledError:
            _fail(batch, ClientClosed("the client was closed while a settlement was under way"))
            raise
        except Exception as problem:  # noqa: BLE001 - it is raised where each settlement waits
            _fail(batch, problem)
            return
        at = 0
        for one in batch:
            if not one.future.done():
                one.future.set_result(results[at : at + len(one.receipts)])
            at += len(one.receipts)


def _fail(batch: Iterable[_Asked] | Iterable[_Settling], problem: Exception) -> None:
    for one in batch:
        if not one.future.done():
            one.future.set_exception(problem)
