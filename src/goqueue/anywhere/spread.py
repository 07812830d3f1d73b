"""Items of several partitions, shared out over their leaders: one question per node, one result per item, in order.

What a node refuses as not its own (any more) is followed, partition by partition, to whoever leads it now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from goqueue.anywhere.asking import Asking, is_elsewhere
from goqueue.errors import GoQueueError, NotFound

if TYPE_CHECKING:
    from goqueue.records import TopicPartition

Item = TypeVar("Item")
Result = TypeVar("Result")


class Spread(Generic[Item, Result]):
    """How a question about items is put to one node, and what a failure means for an item."""

    def __init__(
        self,
        asking: Asking,
        ask: Callable[[int, Sequence[Item]], Awaitable[Sequence[Result]]],
        failed: Callable[[Item, GoQueueError], Result],
        error_of: Callable[[Result], GoQueueError | None],
    ) -> None:
        self._asking = asking
        self._homes = asking.homes
        self._ask = ask
        self._failed = failed
        self._error_of = error_of

    async def of(self, items: Mapping[TopicPartition, Sequence[Item]]) -> dict[TopicPartition, Sequence[Result]]:
        """The results for each partition's items."""
        groups = self._homes.by_leader(items)
        parts = await asyncio.gather(
            # What nobody leads, or is not there, this node has an answer for.
            *(
                self._of_node(self._homes.node_id if node < 0 else node, {place: items[place] for place in places})
                for node, places in groups.items()
            )
        )
        return {place: results for part in parts for place, results in part.items()}

    async def _of_node(
        self, node: int, items: Mapping[TopicPartition, Sequence[Item]]
    ) -> dict[TopicPartition, Sequence[Result]]:
        flat = [one for mine in items.values() for one in mine]
        try:
            answered: Sequence[Result] = await self._ask(node, flat)
        except GoQueueError as error:
            answered = [self._failed(one, error) for one in flat]
        results: dict[TopicPartition, Sequence[Result]] = {}
        at = 0
        for place, mine in items.items():
            results[place] = answered[at : at + len(mine)]
            at += len(mine)
        moved = [place for place, found in results.items() if self._moved(found) is not None]
        followed = await asyncio.gather(*(self._followed(place, items[place]) for place in moved))
        return results | dict(zip(moved, followed, strict=True))

    async def _followed(self, place: TopicPartition, items: Sequence[Item]) -> Sequence[Result]:
        async def ask(node: int) -> Sequence[Result]:
            found = await self._ask(node, items)
            if (moved := self._moved(found)) is not None:
                raise moved
            return found

        try:
            return await self._asking.at_home(lambda: self._leader_of(place), ask)
        except GoQueueError as error:
            return [self._failed(one, error) for one in items]

    def _moved(self, results: Sequence[Result]) -> GoQueueError | None:
        """The refusal that says to ask another node; None also if anything was done, which must not be done again.

        Some may be refused for what they are, whoever is asked.
        """
        errors = [error for one in results if (error := self._error_of(one)) is not None]
        if len(errors) < len(results):
            return None
        return next(filter(is_elsewhere, errors), None)

    def _leader_of(self, place: TopicPartition) -> int:
        try:
            return self._homes.leader_of(place)
        except NotFound:
            return self._homes.node_id
