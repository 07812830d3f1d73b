"""Who is told of deliveries and settlements, and in whose name they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from goqueue.caller import Caller
    from goqueue.coordinator.shard import Transaction
    from goqueue.delivery.values import (
        AcquiredRange,
        Delivery,
        RangeSettlement,
        Receive,
        Settlement,
        SettleResult,
    )
    from goqueue.errors import GoQueueError
    from goqueue.records import TopicPartition


class DeliveryObserver(Protocol):
    """Called after the fact, on the event loop. A method must not raise and must not take long."""

    def delivered(self, caller: Caller, request: Receive, found: Sequence[Delivery], /) -> None:
        """These messages are leased, and about to be sent."""
        ...

    def acquired(
        self, caller: Caller, group: str, at: TopicPartition, consumer: str, ranges: Sequence[AcquiredRange], /
    ) -> None:
        """A consumer that reads by itself (a share group's) has leased these offsets."""
        ...

    def settled(self, caller: Caller, asked: Sequence[Settlement], results: Sequence[SettleResult], /) -> None:
        """Receipts came back; one result each, some perhaps refused."""
        ...

    def settled_ranges(
        self,
        caller: Caller,
        group: str,
        at: TopicPartition,
        consumer: str,
        asked: Sequence[RangeSettlement],
        results: Sequence[GoQueueError | None],
        /,
    ) -> None:
        """Offsets that a consumer held are settled; one result each, None for success."""
        ...

    def promised(self, caller: Caller, receipts: Sequence[str], transaction: Transaction, /) -> None:
        """These messages are settled when that transaction is committed."""
        ...
