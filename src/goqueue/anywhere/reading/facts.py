"""Facts about partitions, asked of their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from goqueue.anywhere.asking import Asking, PeerMethod, is_elsewhere
from goqueue.broker.reading.queries import OffsetSpec, PartitionOffsets
from goqueue.broker.replicas.partition_facts import LocalFacts
from goqueue.caller import INTERNAL, Caller
from goqueue.errors import GoQueueError
from goqueue.log.timestamps import TimestampOffset
from goqueue.records import Isolation, TopicPartition

_Q = TypeVar("_Q")
_R = TypeVar("_R")


class _OffsetAt(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    spec: OffsetSpec
    isolation: Isolation


class _At(msgspec.Struct, frozen=True, array_like=True):
    place: TopicPartition
    offset: int


_BOUNDS: PeerMethod[list[TopicPartition], list[PartitionOffsets]] = PeerMethod(
    "facts.bounds", list[TopicPartition], list[PartitionOffsets]
)
_SIZES: PeerMethod[list[TopicPartition], list[int]] = PeerMethod("facts.sizes", list[TopicPartition], list[int])
_OFFSET_AT: PeerMethod[_OffsetAt, TimestampOffset | None] = PeerMethod(
    "facts.offset_at", _OffsetAt, TimestampOffset | None
)
_APPEND_TIME: PeerMethod[_At, int] = PeerMethod("facts.append_time", _At, int)
_DELETE_RECORDS: PeerMethod[_At, int] = PeerMethod("facts.delete_records", _At, int)


class FactsAnywhere:
    """`PartitionFacts` of all partitions of the cluster."""

    def __init__(self, local: LocalFacts, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_BOUNDS, self._bounds_here)
        asking.answer(_SIZES, self._sizes_here)
        asking.answer(_OFFSET_AT, lambda asked, _: local.offset_at(asked.place, asked.spec, asked.isolation))
        asking.answer(_APPEND_TIME, lambda asked, _: local.append_time_ms(asked.place, asked.offset))
        asking.answer(
            _DELETE_RECORDS,
            lambda asked, _: local.delete_records(asked.place.topic, asked.place.partition, asked.offset),
        )

    async def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """See `PartitionFacts.bounds`."""
        return await self._of_each(list(places), _BOUNDS)

    async def sizes(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """See `PartitionFacts.sizes`."""
        return await self._of_each(list(places), _SIZES)

    async def offset_at(self, place: TopicPartition, spec: OffsetSpec, isolation: Isolation) -> TimestampOffset | None:
        """See `PartitionFacts.offset_at`."""
        if self._homes.is_here(place):
            return await self._local.offset_at(place, spec, isolation)
        return await self._at_leader(place, _OFFSET_AT, _OffsetAt(place, spec, isolation))

    async def append_time_ms(self, place: TopicPartition, offset: int) -> int:
        """See `PartitionFacts.append_time_ms`."""
        if self._homes.is_here(place):
            return await self._local.append_time_ms(place, offset)
        return await self._at_leader(place, _APPEND_TIME, _At(place, offset))

    async def delete_records(self, topic: str, partition: int, offset: int) -> int:
        """See `PartitionFacts.delete_records`."""
        place = TopicPartition(topic, partition)
        return await self._at_leader(place, _DELETE_RECORDS, _At(place, offset))

    async def _at_leader(self, place: TopicPartition, method: PeerMethod[_Q, _R], question: _Q) -> _R:
        return await self._asking.at_home(
            lambda: self._homes.leader_of(place), lambda node: self._asking.ask(node, method, question, INTERNAL)
        )

    async def _of_each(
        self, places: Sequence[TopicPartition], method: PeerMethod[list[TopicPartition], list[_R]]
    ) -> dict[TopicPartition, _R]:
        """One answer for each place, each leader asked once; what has moved meanwhile is asked by itself."""
        groups = self._homes.by_leader(places)

        async def of(node: int, wanted: Sequence[TopicPartition]) -> list[_R]:
            if node < 0 or len(groups) == len(places):
                return [(await self._at_leader(at, method, [at]))[0] for at in wanted]
            try:
                return await self._asking.ask(node, method, list(wanted), INTERNAL)
            except GoQueueError as refusal:
                if not is_elsewhere(refusal):
                    raise
                return [(await self._at_leader(at, method, [at]))[0] for at in wanted]

        outcomes = await asyncio.gather(*(of(node, wanted) for node, wanted in groups.items()))
        found = {
            at: one
            for wanted, answers in zip(groups.values(), outcomes, strict=True)
            for at, one in zip(wanted, answers, strict=True)
        }
        return {at: found[at] for at in places}

    async def _bounds_here(self, places: list[TopicPartition], _caller: Caller) -> list[PartitionOffsets]:
        return list((await self._local.bounds(places)).values())

    async def _sizes_here(self, places: list[TopicPartition], _caller: Caller) -> list[int]:
        return list((await self._local.sizes(places)).values())
