"""Dead letters that go back to their group: what they were is found, and reopened, at the leader of its partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.dead_letters.letters import Letter
from goqueue.delivery.dead_letters.originals import Original
from goqueue.delivery.state.commands import FreshShare
from goqueue.delivery.state.records import QueueId
from goqueue.errors import NotFound
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.delivery.service import DeliveryService


class _Find(msgspec.Struct, frozen=True, array_like=True):
    letter: Letter
    group: str
    # So many of the queue are on their way already.
    reopened: int


class _Reopen(msgspec.Struct, frozen=True, array_like=True):
    queue: QueueId
    shares: list[FreshShare]
    transaction: Transaction


_FIND: PeerMethod[_Find, Original | None] = PeerMethod("queue.original", _Find, Original | None)
_REOPEN: PeerMethod[_Reopen, None] = PeerMethod("queue.reopen", _Reopen, None)


class RedriveAnywhere:
    """`Originals` for partitions of all nodes, and `DeliveryService.reopen`."""

    def __init__(self, local: DeliveryService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_FIND, self._find_here)
        asking.answer(_REOPEN, self._reopen_here)

    async def find(self, letter: Letter, group: str, reopened: int) -> Original | None:
        """See `Originals.find`."""
        asked, homes = _Find(letter, group, reopened), self._asking.homes
        place = TopicPartition(letter.history.get("topic", ""), letter.number("partition") or 0)

        try:
            return await self._asking.at_home(
                lambda: homes.leader_of(place),
                lambda node: self._asking.ask_or_answer(node, _FIND, asked, INTERNAL),
                is_repeatable=True,
            )
        except NotFound:
            # The topic is gone, or has fewer partitions: it must be sent anew.
            return None

    async def reopen(self, queue_id: QueueId, shares: Sequence[FreshShare], transaction: Transaction) -> None:
        """See `DeliveryService.reopen`."""
        asked, homes = _Reopen(queue_id, list(shares), transaction), self._asking.homes
        place = TopicPartition(self._local.topic_of(queue_id), queue_id.partition)
        await self._asking.at_home(
            lambda: homes.leader_of(place),
            lambda node: self._asking.ask_or_answer(node, _REOPEN, asked, INTERNAL),
            is_repeatable=True,
        )

    async def _find_here(self, asked: _Find, _caller: Caller) -> Original | None:
        return await self._local.originals.find(asked.letter, asked.group, asked.reopened)

    async def _reopen_here(self, asked: _Reopen, _caller: Caller) -> None:
        await self._local.reopen(asked.queue, asked.shares, asked.transaction)
