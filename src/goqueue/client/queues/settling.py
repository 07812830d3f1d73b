"""Settlements on their way: acks and the like, gathered while a request is under way.

The first goes at once; those that come while it travels wait for its answer and then go
together. So a program that settles one message at a time waits for nobody, and one that
works on many at once sends few requests, without a timer. While the broker is away, or another
node is about to lead the partition, a settlement is tried again for as long as its message's
lease lasts: afterwards it would be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from goqueue.client.errors import ClientError, InvalidArgument, SettleFailed
from goqueue.client.reconnect import PASSING, Outage, Reconnect
from goqueue.client.retry import MAY_PASS, NOTHING_WAS_DONE
from goqueue.client.types import QueueMessage, Settled

# As many as one request takes.
_BATCH_MAX = 1000

# A route, the fields that all receipts of one request share, and whether these are sent again because another node
# is about to lead their partitions: those of other partitions do not wait for them.
Kind = tuple[str, tuple[tuple[str, Any], ...], bool]


def one_name(error: str | None, reason: str | None) -> str | None:
    """The text of a failure, by whichever of its two names it was given."""
    if error is not None and reason is not None:
        raise InvalidArgument("error and reason are two names for one text", "give error alone")
    return error if reason is None else reason


# The status of a receipt that is no longer good.
_GONE = 410
# Those of a receipt whose partition is changing its leader, or whose broker has too much to do.
_PASSING = MAY_PASS | NOTHING_WAS_DONE
# What a settlement has done, by the last word of its path; an extension that failed has not been one.
_DONE = {"ack": "acked", "nack": "requeued", "reject": "rejected", "release": "released"}


class SettleWire(Protocol):
    """What brings receipts to the broker."""

    async def settle(
        self,
        path: str,
        receipts: Sequence[str],
        fields: Mapping[str, Any],
        *,
        durable: bool,
        on_lost: Callable[[], None],
    ) -> list[Settled]:
        """What became of each receipt."""
        ...


@dataclass(slots=True)
class _Waiting:
    """A receipt, the future of whoever settles it, and when its lease ends by the loop's clock."""

    receipt: str
    future: asyncio.Future[Settled]
    until_s: float


@dataclass(slots=True)
class _Lane:
    """One kind of settlement, and the receipts that wait for it."""

    reconnect: Reconnect
    waiting: list[_Waiting] = field(default_factory=list)
    sender: asyncio.Task[None] | None = None


class Settler:
    """Sends receipts in batches and resolves each one's future. `what` names their consumer in the log."""

    def __init__(
        self, wire: SettleWire, *, durable: bool, what: str = "a consumer", outage: Outage | None = None
    ) -> None:
        self._wire = wire
        self._durable = durable
        self._what = what
        self._lanes: dict[Kind, _Lane] = {}
        self._reconnect = Reconnect(what, outage=outage)
        # Partitions without a leader are logged once for all that meet them.
        self._moving = Outage()
        self._closing = False
        # Receipts that were sent and may be settled, although no answer says so; with the route that may have done it.
        self._unanswered: set[tuple[str, str]] = set()

    def put(self, path: str, receipt: str, *, until_s: float = 0.0, **fields: Any) -> asyncio.Future[Settled]:
        """Settle a receipt at the next opportunity; while the broker is away, until `until_s` of the loop's clock."""
        future: asyncio.Future[Settled] = asyncio.get_running_loop().create_future()
        self._enqueue((path, tuple(sorted(fields.items())), False), [_Waiting(receipt, future, until_s)])
        return future

    async def send(
        self, path: str, messages: Sequence[QueueMessage], *, until_s: float = 0.0, **fields: Any
    ) -> list[Settled]:
        """Settle messages now, in one request per thousand; raises `SettleFailed` if some were refused."""
        results: list[Settled] = []
        for first in range(0, len(messages), _BATCH_MAX):
            receipts = [one.receipt for one in messages[first : first + _BATCH_MAX]]
            results += await self._request_until(path, receipts, fields, until_s)
        if any(not one.success for one in results):
            raise SettleFailed(results)
        return results

    async def flush(self) -> None:
        """Wait until everything put so far has its answer."""
        while senders := [lane.sender for lane in self._lanes.values() if lane.sender is not None]:
            await asyncio.gather(*senders)

    def close(self) -> None:
        """Wait for a broker that is away no longer."""
        self._closing = True

    async def _request_until(
        self, path: str, receipts: list[str], fields: dict[str, Any], until_s: float
    ) -> list[Settled]:
        found: dict[str, Settled] = {}
        left = receipts
        moving = Reconnect(self._what, outage=self._moving)
        while True:
            is_last = self._closing or asyncio.get_running_loop().time() >= until_s
            try:
                results = await self._request(path, left, fields, until_s)
            except PASSING as problem:
                if is_last:
                    self._forget(path, left)
                    raise
                await self._reconnect.lost(problem)
                continue
            self._reconnect.works()
            found.update(zip(left, results, strict=True))
            passing = [one for one in results if _passes(one)]
            if is_last or not passing:
                moving.works()
                self._forget(path, left)
                return [found[one] for one in receipts]
            left = [receipt for receipt in left if _passes(found[receipt])]
            await moving.lost(SettleFailed(passing))

    def _enqueue(self, kind: Kind, waiting: Sequence[_Waiting]) -> None:
        lane = self._lanes.get(kind)
        if lane is None:
            is_again = kind[2]
            reconnect = Reconnect(self._what, outage=self._moving) if is_again else self._reconnect
            lane = self._lanes[kind] = _Lane(reconnect)
        lane.waiting += waiting
        if lane.sender is None:
            lane.sender = asyncio.create_task(self._drain(kind, lane))

    async def _drain(self, kind: Kind, lane: _Lane) -> None:
        path, fields, _ = kind
        try:
            # Whatever this turn of the loop still brings goes along.
            await asyncio.sleep(0)
            while lane.waiting:
                batch, lane.waiting = lane.waiting[:_BATCH_MAX], lane.waiting[_BATCH_MAX:]
                try:
                    until_s = min(one.until_s for one in batch)
                    results = await self._request(path, [one.receipt for one in batch], dict(fields), until_s)
                except PASSING as problem:
                    lane.waiting = self._still_leased(path, batch, problem) + lane.waiting
                    if lane.waiting:
                        await lane.reconnect.lost(problem)
                except ClientError as problem:
                    self._forget(path, [one.receipt for one in batch])
                    _fail(batch, problem)
                except asyncio.CancelledError:
                    _fail(batch, ClientError("the consumer was cancelled while a settlement was under way"))
                    raise
                else:
                    await self._answered(kind, lane, batch, results)
        finally:
            lane.sender = None
            _fail(lane.waiting, ClientError("the consumer was cancelled before a settlement could be sent"))
            # Reasons and delays make kinds of their own: those that are done are not kept.
            self._lanes.pop(kind, None)

    async def _answered(self, kind: Kind, lane: _Lane, batch: Sequence[_Waiting], results: Sequence[Settled]) -> None:
        """Tell each what became of it; those whose answer may be another one soon are sent again, by themselves."""
        path, fields, is_again = kind
        passing = [one for one, result in zip(batch, results, strict=True) if _passes(result)]
        again = self._leased(passing)
        for waiting, result in zip(batch, results, strict=True):
            if waiting not in again:
                self._forget(path, [waiting.receipt])
                _tell(waiting.future, result)
        if again and is_again:
            lane.waiting = again + lane.waiting
            await lane.reconnect.lost(SettleFailed([one for one in results if _passes(one)]))
            return
        lane.reconnect.works()
        if again:
            self._enqueue((path, fields, True), again)

    def _still_leased(self, path: str, batch: Sequence[_Waiting], problem: ClientError) -> list[_Waiting]:
        """Those that are worth another try; the others fail."""
        left = self._leased(batch)
        ended = [one for one in batch if one not in left]
        self._forget(path, [one.receipt for one in ended])
        _fail(ended, problem)
        return left

    def _forget(self, path: str, receipts: Sequence[str]) -> None:
        """They are not sent again: nobody asks any more what an attempt without an answer has done."""
        if self._unanswered:
            self._unanswered.difference_update([(path, one) for one in receipts])

    def _leased(self, batch: Sequence[_Waiting]) -> list[_Waiting]:
        now_s = asyncio.get_running_loop().time()
        return [] if self._closing else [one for one in batch if one.until_s > now_s]

    async def _request(self, path: str, receipts: list[str], fields: dict[str, Any], until_s: float) -> list[Settled]:
        def lost() -> None:
            self._unanswered.update((path, one) for one in receipts)

        results = await self._wire.settle(path, receipts, fields, durable=self._durable, on_lost=lost)
        if self._unanswered:
            is_leased = asyncio.get_running_loop().time() < until_s
            results = [self._known(path, one, is_leased=is_leased) for one in results]
            self._forget(path, receipts)
        # The leader that is going may have written it, and the next one finds it there.
        self._unanswered.update(
            (path, receipt) for receipt, one in zip(receipts, results, strict=True) if one.status in MAY_PASS
        )
        return results

    def _known(self, path: str, result: Settled, *, is_leased: bool) -> Settled:
        """What became of a receipt, given that an earlier request may have settled it without saying so.

        Within its lease nobody else can settle a message: a receipt that is no longer good was settled by the
        attempt that had no answer.
        """
        action = _DONE.get(path.rpartition("/")[2])
        if result.success or result.status != _GONE or not is_leased or action is None:
            return result
        return Settled(True, result.receipt, action) if (path, result.receipt) in self._unanswered else result


def _passes(result: Settled) -> bool:
    return not result.success and result.status in _PASSING


def _tell(future: asyncio.Future[Settled], result: Settled) -> None:
    # A future that fails and that nobody looks at is logged by the event loop.
    if future.done():
        return
    if result.success:
        future.set_result(result)
    else:
        future.set_exception(SettleFailed([result]))


def _fail(batch: Sequence[_Waiting], problem: ClientError) -> None:
    for one in batch:
        if not one.future.done():
            one.future.set_exception(problem)
