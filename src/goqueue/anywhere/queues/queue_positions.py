"""Where queue groups stand, for the coordinators of groups: each partition's leader knows it of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod
from goqueue.caller import INTERNAL, Caller
from goqueue.errors import NotFound, NotLeader
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.delivery.positions import QueuePositions
    from goqueue.delivery.service import DeliveryService

_Offsets = list[tuple[TopicPartition, int]]


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    group: str
    # None: wherever the group was.
    places: list[TopicPartition] | None


class _Reset(msgspec.Struct, frozen=True, array_like=True):
    group: str
    offsets: _Offsets
    incarnation: int = 0


class _OfGroup(msgspec.Struct, frozen=True, array_like=True):
    group: str
    name: str


_COMMITTED: PeerMethod[_Asked, _Offsets] = PeerMethod("queue.committed", _Asked, _Offsets)
_UNSETTLED: PeerMethod[_Asked, _Offsets] = PeerMethod("queue.unsettled", _Asked, _Offsets)
_RESET: PeerMethod[_Reset, None] = PeerMethod("queue.reset", _Reset, None)
_FORGET: PeerMethod[str, None] = PeerMethod("queue.forget", str, None)
_FORGET_TOPIC: PeerMethod[_OfGroup, bool] = PeerMethod("queue.forget_topic", _OfGroup, bool)
_RELEASE: PeerMethod[_OfGroup, None] = PeerMethod("queue.release_consumer", _OfGroup, None)


class PositionsAnywhere:
    """`QueuePositions` of all partitions of the cluster."""

    def __init__(self, local: QueuePositions, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_COMMITTED, self._committed_here)
        asking.answer(_UNSETTLED, self._unsettled_here)
        asking.answer(_RESET, lambda asked, _: local.reset(asked.group, dict(asked.offsets), asked.incarnation))
        asking.answer(_FORGET, lambda group, _: local.forget(group))
        asking.answer(_FORGET_TOPIC, lambda asked, _: local.forget_topic(asked.group, asked.name))

    async def committed(self, group: str, places: Sequence[TopicPartition] | None) -> Mapping[TopicPartition, int]:
        """The lowest unsettled offset of these partitions, or of all that the group has received from."""
        if places is None:
            parts = await self._asking.everywhere(lambda node: self._ask(node, _COMMITTED, _Asked(group, None)))
            return {at: offset for part in parts for at, offset in part}
        return await self._of_each(group, places, _COMMITTED)

    async def unsettled(self, group: str, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """How many messages of these partitions are not settled, where the group has received from them."""
        return await self._of_each(group, places, _UNSETTLED)

    async def reset(self, group: str, offsets: Mapping[TopicPartition, int], incarnation: int = 0) -> None:
        """Begin again at these offsets; refused while anything is in flight."""
        for place, offset in offsets.items():
            asked = _Reset(group, [(place, offset)], incarnation)
            ask = partial(self._asking.ask_or_answer, method=_RESET, question=asked, caller=INTERNAL)
            await self._asking.at_home(self._leader(place), ask, is_repeatable=True)

    async def forget(self, group: str) -> None:
        """The group is being deleted. A node that cannot be reached drops its queues by their incarnation."""
        await self._asking.everywhere(lambda node: self._asking.ask_or_answer(node, _FORGET, group, INTERNAL))

    async def forget_topic(self, group: str, topic: str) -> bool:
        """Let the group begin the topic anew; whether it ever read it."""
        asked, was_read = _OfGroup(group, topic), False

        async def forget(_node: int) -> None:
            nonlocal was_read
            terms = self._homes.terms(topic)
            # Not whoever is alive: a leader that cannot be reached has a successor soon, which reads what it wrote.
            for leader in sorted({self._leader(TopicPartition(topic, at))() for at in range(len(terms) or 1)}):
                was_read |= await self._asking.ask_or_answer(leader, _FORGET_TOPIC, asked, INTERNAL)
            await self._asking.know_all()
            if self._homes.terms(topic) != terms:
                raise NotLeader(f"leaders of topic {topic!r} changed while the group began it anew")

        await self._asking.at_home(lambda: self._homes.node_id, forget, is_repeatable=True)
        return was_read

    async def _of_each(
        self, group: str, places: Sequence[TopicPartition], method: PeerMethod[_Asked, _Offsets]
    ) -> dict[TopicPartition, int]:
        async def of(place: TopicPartition) -> _Offsets:
            try:
                return await self._asking.at_home(
                    self._leader(place), lambda node: self._ask(node, method, _Asked(group, [place]))
                )
            except NotFound:
                # The topic has gone since; what the group knew of it follows.
                return []

        found = await asyncio.gather(*(of(place) for place in places))
        return {at: offset for part in found for at, offset in part}

    def _leader(self, place: TopicPartition) -> Callable[[], int]:
        return lambda: self._homes.leader_of(place)

    def _ask(self, node: int, method: PeerMethod[_Asked, _Offsets], asked: _Asked) -> Awaitable[_Offsets]:
        if node != self._homes.node_id:
            return self._asking.ask(node, method, asked, INTERNAL)
        here = self._committed_here if method is _COMMITTED else self._unsettled_here
        return here(asked, INTERNAL)

    async def _committed_here(self, asked: _Asked, _caller: Caller) -> _Offsets:
        return list((await self._local.committed(asked.group, asked.places)).items())

    async def _unsettled_here(self, asked: _Asked, _caller: Caller) -> _Offsets:
        return list((await self._local.unsettled(asked.group, asked.places or [])).items())


class ReleasesAnywhere:
    """Gives back what a consumer holds, on every node."""

    def __init__(self, local: DeliveryService, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        asking.answer(_RELEASE, lambda asked, _: local.release_consumer(asked.group, asked.name))

    async def release_consumer(self, group: str, consumer: str) -> None:
        """A member is gone: what it holds can be given to others at once."""
        asked = _OfGroup(group, consumer)
        await self._asking.everywhere(lambda node: self._asking.ask_or_answer(node, _RELEASE, asked, INTERNAL))
