"""Elsewhere: what a node asks of the transaction coordinators on other nodes. A node of its own has none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import Protocol

from goqueue.records import TopicPartition
from goqueue.transactions.commands import Producer
from goqueue.transactions.names import Name


class Elsewhere(Protocol):
    """Asks the coordinators on other nodes."""

    def admit(
        self, transactional_id: str, producer: Producer, places: Collection[TopicPartition], /, *, implicit: bool
    ) -> asyncio.Future[None] | None:
        """What batches wait for until it is known here that partitions are part of a transaction; None if nothing."""
        ...

    def join(self, producer: Producer, place: TopicPartition, number: int | None, /) -> Awaitable[None]:
        """See `TransactionService.join`."""
        ...

    def enlist(self, producer: Producer, place: TopicPartition, number: int, /) -> Awaitable[None]:
        """See `TransactionService.enlist`."""
        ...

    def name_of(self, producer_id: int, /) -> Awaitable[Name | None]:
        """Whose transactions a producer writes; None if it writes none."""
        ...

    def known_name(self, producer_id: int, /) -> Name | None:
        """As `name_of`, as far as this node has asked."""
        ...
