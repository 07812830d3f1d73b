"""Settling receipts of messages that several nodes gave out: each leader settles its own, results in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.anywhere.spread import Item, Result, Spread
from goqueue.caller import Caller
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.leases.receipts import split_place, split_receipt
from goqueue.delivery.service import DeliveryService
from goqueue.delivery.settlement.settler import LeasedOffsets, LeaseSettled
from goqueue.delivery.values import Action, Settlement, SettleResult
from goqueue.errors import GoQueueError, InvalidReceipt
from goqueue.records import TopicPartition


class _Settle(msgspec.Struct, frozen=True, array_like=True):
    settlements: list[Settlement]
    durable: bool


class LeasesToSettle(msgspec.Struct, frozen=True, array_like=True):
    """What is to be done with messages of several leases."""

    leases: list[LeasedOffsets]
    action: Action
    delay_ms: int | None
    reason: str
    visibility_ms: int | None
    durable: bool


class Promise(msgspec.Struct, frozen=True, array_like=True):
    """Receipts that a transaction settles, if it is committed."""

    receipts: list[str]
    transaction: Transaction
    rejected: bool
    reason: str


_SETTLE: PeerMethod[_Settle, list[SettleResult]] = PeerMethod("queue.settle", _Settle, list[SettleResult])
_SETTLE_LEASES: PeerMethod[LeasesToSettle, list[LeaseSettled]] = PeerMethod(
    "queue.settle_leases", LeasesToSettle, list[LeaseSettled]
)
_PROMISE: PeerMethod[Promise, None] = PeerMethod("queue.promise", Promise, None)


class SettleAnywhere:
    """Settles what any node of the cluster gave out."""

    def __init__(self, local: DeliveryService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_SETTLE, self._settle_here)
        asking.answer(_SETTLE_LEASES, self._settle_leases_here)
        asking.answer(_PROMISE, self._promise_here)

    async def settle(self, settlements: Sequence[Settlement], *, durable: bool, caller: Caller) -> list[SettleResult]:
        """See `DeliveryService.settle`."""

        async def ask(node: int, mine: Sequence[Settlement]) -> list[SettleResult]:
            return await self._asking.ask_or_answer(node, _SETTLE, _Settle(list(mine), durable), caller)

        def failed(one: Settlement, error: GoQueueError) -> SettleResult:
            return SettleResult(one.receipt, error=error)

        spread = Spread(self._asking, ask, failed, lambda one: one.error)
        return await _in_order(settlements, lambda one: _place_of(one.receipt), spread, failed)

    async def settle_leases(self, asked: LeasesToSettle, caller: Caller) -> list[LeaseSettled]:
        """See `DeliveryService.settle_leases`."""

        async def ask(node: int, mine: Sequence[LeasedOffsets]) -> list[LeaseSettled]:
            question = msgspec.structs.replace(asked, leases=list(mine))
            return await self._asking.ask_or_answer(node, _SETTLE_LEASES, question, caller)

        def failed(_: LeasedOffsets, error: GoQueueError) -> LeaseSettled:
            return LeaseSettled(error=error)

        spread = Spread(self._asking, ask, failed, lambda one: one.error)
        return await _in_order(asked.leases, lambda one: _split(one.place), spread, failed)

    async def promise(self, asked: Promise, caller: Caller) -> None:
        """See `DeliveryService.promise`: the first bad receipt raises; an abort takes back what others promised."""
        by_place: dict[TopicPartition, list[str]] = {}
        for receipt in asked.receipts:
            by_place.setdefault(_place_of(receipt), []).append(receipt)
        for place, receipts in by_place.items():
            question = msgspec.structs.replace(asked, receipts=receipts)

            async def ask(node: int, question: Promise = question) -> None:
                return await self._asking.ask_or_answer(node, _PROMISE, question, caller)

            await self._asking.at_home(lambda place=place: self._homes.leader_of(place), ask, is_repeatable=True)  # type: ignore[misc]

    async def _settle_here(self, asked: _Settle, caller: Caller) -> list[SettleResult]:
        return await self._local.settle(asked.settlements, durable=asked.durable, caller=caller)

    async def _settle_leases_here(self, asked: LeasesToSettle, caller: Caller) -> list[LeaseSettled]:
        return await self._local.settle_leases(
            asked.leases,
            asked.action,
            delay_ms=asked.delay_ms,
            reason=asked.reason,
            visibility_ms=asked.visibility_ms,
            durable=asked.durable,
            caller=caller,
        )

    async def _promise_here(self, asked: Promise, caller: Caller) -> None:
        await self._local.promise(
            asked.receipts, asked.transaction, rejected=asked.rejected, reason=asked.reason, caller=caller
        )


async def _in_order(
    items: Sequence[Item],
    place_of: Callable[[Item], TopicPartition],
    spread: Spread[Item, Result],
    failed: Callable[[Item, GoQueueError], Result],
) -> list[Result]:
    """One result per item, in their order; what is not a receipt at all is refused here."""
    results: dict[int, Result] = {}
    positions: dict[TopicPartition, list[int]] = {}
    for at, item in enumerate(items):
        try:
            positions.setdefault(place_of(item), []).append(at)
        except InvalidReceipt as error:
            results[at] = failed(item, error)
    found = await spread.of({place: [items[at] for at in mine] for place, mine in positions.items()})
    for place, mine in positions.items():
        results.update(zip(mine, found[place], strict=True))
    return [results[at] for at in range(len(items))]


def _place_of(receipt: str) -> TopicPartition:
    return TopicPartition(*split_place(split_receipt(receipt)[0], receipt))


def _split(place: str) -> TopicPartition:
    return TopicPartition(*split_place(place, place))
