"""Dead letters that go back to their group: what they were is found, and reopened, at the leader of its partition.

What earlier jobs hold is given back at the leaders of the letters, and every node is told that letters are sent back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.coordinator.shard import Transaction
from goqueue.delivery.dead_letters.letters import Letter
from goqueue.delivery.dead_letters.originals import Original
from goqueue.delivery.state.commands import FreshShare
from goqueue.delivery.state.records import QueueId
from goqueue.errors import NotFound, NotLeader
from goqueue.ids import REDRIVE_GROUP
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


class _Letters(msgspec.Struct, frozen=True, array_like=True):
    topics: list[str]


class _OfGroup(msgspec.Struct, frozen=True, array_like=True):
    group: str
    places: list[TopicPartition]


_FIND: PeerMethod[_Find, Original | None] = PeerMethod("queue.original", _Find, Original | None)
_REOPEN: PeerMethod[_Reopen, None] = PeerMethod("queue.reopen", _Reopen, None)
_RELEASE_ALL: PeerMethod[_OfGroup, None] = PeerMethod("queue.release_all", _OfGroup, None)
_NOTE: PeerMethod[_Letters, None] = PeerMethod("queue.note_redriven", _Letters, None)
_REDRIVEN: PeerMethod[_OfGroup, bool] = PeerMethod("queue.redriven", _OfGroup, bool)

# A share consumer waits for this answer; without it every record is looked at before it is given out.
_REDRIVEN_MS = 1_000


class RedriveAnywhere:
    """`Originals` for partitions of all nodes, and `DeliveryService.reopen`."""

    def __init__(self, local: DeliveryService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_FIND, self._find_here)
        asking.answer(_REOPEN, self._reopen_here)
        asking.answer(_RELEASE_ALL, lambda asked, _caller: local.release_all(asked.group, asked.places))
        asking.answer(_NOTE, lambda asked, _caller: local.note_redriven(asked.topics))
        asking.answer(_REDRIVEN, lambda asked, _caller: local.redriven.here(asked.places))
        local.redriven.ask_leaders = self._are_redriven

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

    async def release_all(self, group: str, places: Sequence[TopicPartition]) -> None:
        """See `DeliveryService.release_all`."""
        homes = self._asking.homes
        for place in places:
            asked = _OfGroup(group, [place])
            await self._asking.at_home(
                lambda place=place: homes.leader_of(place),  # type: ignore[misc]
                lambda node, asked=asked: self._asking.ask_or_answer(node, _RELEASE_ALL, asked, INTERNAL),  # type: ignore[misc]
                is_repeatable=True,
            )

    async def note_redriven(self, letters: Collection[str]) -> None:
        """Tell every node that answers; the others ask before long."""
        asked = _Letters(sorted(letters))
        await self._asking.everywhere(lambda node: self._asking.ask_or_answer(node, _NOTE, asked, INTERNAL))

    async def _are_redriven(self, places: Sequence[TopicPartition]) -> bool:
        """Whether any leader of these knows of a redrive; raises if one of them cannot say."""

        async def ask(node: int, mine: Sequence[TopicPartition]) -> bool:
            if node < 0:
                raise NotLeader(f"no node leads {mine[0]} at present")
            asked = _OfGroup(REDRIVE_GROUP, list(mine))
            return await self._asking.ask_or_answer(node, _REDRIVEN, asked, INTERNAL, timeout_ms=_REDRIVEN_MS)

        return any(await asyncio.gather(*(ask(*one) for one in self._asking.homes.by_leader(places).items())))

    async def _find_here(self, asked: _Find, _caller: Caller) -> Original | None:
        return await self._local.originals.find(asked.letter, asked.group, asked.reopened)

    async def _reopen_here(self, asked: _Reopen, _caller: Caller) -> None:
        await self._local.reopen(asked.queue, asked.shares, asked.transaction)
