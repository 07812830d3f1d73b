"""Reading records of partitions that several nodes lead: each is asked for its own, the first ends the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from goqueue.anywhere.asking import ANSWER_MS, Asking, PeerMethod, is_elsewhere
from goqueue.anywhere.reading.first_answer import first_answers
from goqueue.broker.reading.record_reads import RecordReader, RecordsRead
from goqueue.caller import ANONYMOUS, Caller
from goqueue.errors import GoQueueError
from goqueue.records import Isolation, TopicPartition

_Found = dict[TopicPartition, RecordsRead]


class _Read(msgspec.Struct, frozen=True, array_like=True):
    positions: list[tuple[TopicPartition, int]]
    limit: int
    max_bytes: int
    wait_ms: int
    isolation: Isolation
    is_counted: bool


_READ: PeerMethod[_Read, list[RecordsRead]] = PeerMethod("records.read", _Read, list[RecordsRead])


class ReadsAnywhere:
    """`RecordReader` for all partitions of the cluster."""

    def __init__(self, local: RecordReader, asking: Asking) -> None:
        self._local = local
        self._asking = asking
        self._homes = asking.homes
        asking.answer(_READ, self._read_here)

    async def read(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        limit: int,
        max_bytes: int,
        wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        is_counted: bool = True,
        caller: Caller = ANONYMOUS,
    ) -> _Found:
        """See `RecordReader.read`. Of several nodes that have records in the same moment, all give some."""
        asked = _Read([], limit, max_bytes, wait_ms, isolation, is_counted)
        groups = self._homes.by_leader(positions)
        if set(groups) <= {self._homes.node_id}:
            return await self._ask(self._homes.node_id, asked, positions, caller)
        if len(groups) == 1:
            (node,) = groups
            return await self._followed(node, asked, positions, caller)
        found = await self._of_all(groups, msgspec.structs.replace(asked, wait_ms=0), positions, caller)
        if wait_ms and not any(one.records or one.unreadable or one.error for one in found.values()):
            found |= await self._of_first(groups, asked, positions, caller)
        return _within({at: found[at] for at in positions}, limit)

    async def _of_all(
        self,
        groups: Mapping[int, Sequence[TopicPartition]],
        asked: _Read,
        positions: Mapping[TopicPartition, int],
        caller: Caller,
    ) -> _Found:
        parts = await asyncio.gather(
            *(
                self._followed(node, asked, {at: positions[at] for at in places}, caller)
                for node, places in groups.items()
            )
        )
        return {at: one for part in parts for at, one in part.items()}

    async def _of_first(
        self,
        groups: Mapping[int, Sequence[TopicPartition]],
        asked: _Read,
        positions: Mapping[TopicPartition, int],
        caller: Caller,
    ) -> _Found:
        """Every leader waits for a record; when one has some, the others need not wait on. A read takes nothing."""
        parts = await first_answers(
            [
                self._followed(node, asked, {at: positions[at] for at in places}, caller)
                for node, places in groups.items()
            ],
            lambda part: any(one.records or one.unreadable or one.error for one in part.values()),
        )
        return {at: one for part in parts for at, one in part.items()}

    async def _followed(
        self, node: int, asked: _Read, positions: Mapping[TopicPartition, int], caller: Caller
    ) -> _Found:
        """Ask the leader, and once more whoever leads a partition now that the first one does not lead any more."""
        try:
            found = await self._ask(node, asked, positions, caller)
        except GoQueueError as refusal:
            if not is_elsewhere(refusal):
                raise
            found = {at: RecordsRead([], offset, -1, refusal) for at, offset in positions.items()}
        for at, one in found.items():
            if one.error is not None and is_elsewhere(one.error):
                found[at] = await self._at_leader(at, asked, positions[at], caller)
        return found

    async def _at_leader(self, place: TopicPartition, asked: _Read, offset: int, caller: Caller) -> RecordsRead:
        async def ask(node: int) -> RecordsRead:
            found = (await self._ask(node, asked, {place: offset}, caller))[place]
            if found.error is not None and is_elsewhere(found.error):
                raise found.error
            return found

        try:
            return await self._asking.at_home(lambda: self._homes.leader_of(place), ask)
        except GoQueueError as error:
            return RecordsRead([], offset, -1, error)

    async def _ask(self, node: int, asked: _Read, positions: Mapping[TopicPartition, int], caller: Caller) -> _Found:
        question = msgspec.structs.replace(asked, positions=list(positions.items()))
        if node == self._homes.node_id:
            answers = await self._read_here(question, caller)
        else:
            timeout_ms = asked.wait_ms + ANSWER_MS
            answers = await self._asking.ask(node, _READ, question, caller, timeout_ms=timeout_ms)
        return dict(zip(positions, answers, strict=True))

    async def _read_here(self, asked: _Read, caller: Caller) -> list[RecordsRead]:
        found = await self._local.read(
            dict(asked.positions),
            limit=asked.limit,
            max_bytes=asked.max_bytes,
            wait_ms=asked.wait_ms,
            isolation=asked.isolation,
            is_counted=asked.is_counted,
            caller=caller,
        )
        return list(found.values())


def _within(found: _Found, limit: int) -> _Found:
    """No more than `limit` records in all: what is cut off is read again, from where its partition was cut."""
    left = limit
    for at, one in found.items():
        if len(one.records) > left:
            cut = one.records[left]
            found[at] = replace(one, records=one.records[:left], next_offset=cut.offset)
        left -= len(found[at].records)
    return found
