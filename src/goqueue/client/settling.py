"""Settlements on their way: acks and the like, gathered while a request is under way.

The first goes at once; those that come while it travels wait for its answer and then go
together. So a program that settles one message at a time waits for nobody, and one that
works on many at once sends few requests, without a timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from goqueue.client.errors import ClientError, SettleFailed
from goqueue.client.transport import Transport
from goqueue.client.types import QueueMessage, Settled, SettleReply

# As many as one request takes.
_BATCH_MAX = 1000

# A route and the fields that all receipts of one request share.
Kind = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(slots=True)
class _Lane:
    """One kind of settlement: receipts that wait, each with who wants to know."""

    waiting: list[tuple[str, asyncio.Future[Settled]]] = field(default_factory=list)
    sender: asyncio.Task[None] | None = None


class Settler:
    """Sends receipts in batches and tells each one's fate."""

    def __init__(self, transport: Transport, *, durable: bool) -> None:
        self._transport = transport
        self._durable = durable
        self._lanes: dict[Kind, _Lane] = {}

    def put(self, path: str, receipt: str, **fields: Any) -> asyncio.Future[Settled]:
        """Settle a receipt at the next opportunity."""
        kind = (path, tuple(sorted(fields.items())))
        lane = self._lanes.get(kind)
        if lane is None:
            lane = self._lanes[kind] = _Lane()
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        lane.waiting.append((receipt, future))
        if lane.sender is None:
            lane.sender = asyncio.create_task(self._drain(kind, lane))
        return future

    async def send(self, path: str, messages: Sequence[QueueMessage], **fields: Any) -> list[Settled]:
        """Settle messages now, in one request per thousand; raises `SettleFailed` if some were refused."""
        results: list[Settled] = []
        for first in range(0, len(messages), _BATCH_MAX):
            receipts = [one.receipt for one in messages[first : first + _BATCH_MAX]]
            results += await self._request(path, receipts, fields)
        if any(not one.success for one in results):
            raise SettleFailed(results)
        return results

    async def flush(self) -> None:
        """Wait until everything put so far has its answer."""
        while senders := [lane.sender for lane in self._lanes.values() if lane.sender is not None]:
            await asyncio.gather(*senders)

    async def _drain(self, kind: Kind, lane: _Lane) -> None:
        path, fields = kind
        try:
            # Whatever this turn of the loop still brings goes along.
            await asyncio.sleep(0)
            while lane.waiting:
                batch, lane.waiting = lane.waiting[:_BATCH_MAX], lane.waiting[_BATCH_MAX:]
                try:
                    results = await self._request(path, [receipt for receipt, _ in batch], dict(fields))
                except ClientError as problem:
                    _fail(batch, problem)
                except asyncio.CancelledError:
                    _fail(batch, ClientError("the consumer was cancelled while a settlement was under way"))
                    raise
                else:
                    for (_, future), result in zip(batch, results, strict=True):
                        _tell(future, result)
        finally:
            lane.sender = None
            # Reasons and delays make kinds of their own: those that are done are not kept.
            self._lanes.pop(kind, None)

    async def _request(self, path: str, receipts: list[str], fields: dict[str, Any]) -> list[Settled]:
        body = {"receipts": receipts, "durable": self._durable, **fields}
        # Sent twice it does no harm: a receipt that was settled the first time is refused the second.
        reply = await self._transport.call("POST", path, SettleReply, body=body, repeatable=True)
        return reply.results


def _tell(future: asyncio.Future[Settled], result: Settled) -> None:
    if future.done():
        return
    if result.success:
        future.set_result(result)
    else:
        future.set_exception(SettleFailed([result]))
        # Whoever does not look at the future has chosen to; that is not a warning of ours.
        future.exception()


def _fail(batch: Sequence[tuple[str, asyncio.Future[Settled]]], problem: ClientError) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(problem)
            future.exception()
