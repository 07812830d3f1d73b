"""Reading records instead of batches, for front-ends whose clients cannot open a batch.

Bounds are the fetch path's. What is left out here is only what no reader may see: control
records, and with read_committed the records of aborted transactions. A stretch that nobody can
read is named in the answer, and the records behind it are read all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.broker.reading.fetch import FetchedPartition, FetchQuery, FetchService, PartitionRead
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partitions
from goqueue.caller import ANONYMOUS, Caller
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.errors import CorruptFrame, GoQueueError
from goqueue.ports import ColdRead, Offload
from goqueue.records import AbortedTransaction, Isolation, Record, TopicPartition

# Unpacked at once; then others get their turn.
TURN_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Records of one partition and the offset to read on from, or why there are none."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    error: GoQueueError | None = None
    # What lies among them and cannot be read: it is passed over.
    unreadable: Sequence[Unreadable] = ()


class ReadsRecords(Protocol):
    """Whoever reads records: of the partitions that this node leads, or of all."""

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
    ) -> dict[TopicPartition, RecordsRead]:
        """See `RecordReader.read`."""
        ...


class RecordReader:
    """Reads records from positions, waiting for the first if asked."""

    def __init__(self, fetch: FetchService, partitions: Partitions, *, offload: Offload, answers: AnswerBudget) -> None:
        self._fetch = fetch
        self._partitions = partitions
        self._offload = offload
        self._answers = answers

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
    ) -> dict[TopicPartition, RecordsRead]:
        """Up to `limit` records in all, taken in turn from the partitions that have some.

        No further batch is opened once `max_bytes` are unpacked: what is stored packed may be a thousand times
        larger in memory. What is read for no reader is not counted as given to one.
        """
        query = FetchQuery(
            reads=[PartitionRead(at.topic, at.partition, offset, max_bytes) for at, offset in positions.items()],
            max_bytes=max_bytes,
            min_bytes=1,
            max_wait_ms=wait_ms,
            isolation=isolation,
            is_counted=False,
        )
        fetched = self._fetch.fetch_now(query) or await self._fetch.fetch(query)
        left = _Room(limit, max_bytes)
        found = {}
        # The smallest first: what it leaves of its share goes to the others, and none waits for a long backlog to end.
        waiting = sorted(fetched, key=lambda one: sum(map(len, one.batches)))
        with self._answers.held(sum(len(batch) for one in waiting for batch in one.batches)):
            for number, one in enumerate(waiting):
                at = TopicPartition(one.topic, one.partition)
                share = -(-left.records // (len(waiting) - number))
                found[at] = opened = await self._open(one, positions[at], share, left, isolation)
                if is_counted and opened.records:
                    first, last = opened.records[0].offset, opened.records[-1].offset
                    self._fetch.count_given(at, len(opened.records), size_of(opened.records), first, last, caller)
        return {at: found[at] for at in positions}

    async def _open(
        self, fetched: FetchedPartition, offset: int, share: int, left: _Room, isolation: Isolation
    ) -> RecordsRead:
        if isinstance(fetched.error, CorruptFrame):
            return self._behind_damage(fetched, offset, fetched.error)
        if fetched.error is not None:
            return RecordsRead([], offset, fetched.high_watermark, fetched.error)
        hidden = fetched.aborted if isolation is Isolation.READ_COMMITTED else ()
        records: list[Record] = []
        unreadable: list[Unreadable] = []
        for batch in fetched.batches:
            if len(records) >= share or left.is_full:
                break
            if left.turn_bytes > TURN_BYTES:
                left.turn_bytes = 0
                await asyncio.sleep(0)
            header = parse_batch_header(batch)
            opened: list[Record] | Unreadable = []
            if not is_hidden(header, hidden):
                place = self._partitions.leader(fetched.topic, fetched.partition)
                try:
                    opened = place.unreadable.open(header, batch, nowait=True)
                except ColdRead:
                    opened = await self._offload(partial(place.unreadable.open, header, batch, nowait=False))
            if isinstance(opened, Unreadable):
                unreadable.append(opened)
                offset = max(offset, header.last_offset + 1)
                continue
            # The batch may hold records before the one asked for: it is stored whole and read whole.
            visible = [one for one in opened if one.offset >= offset] if header.base_offset < offset else opened
            taken = visible[: share - len(records)]
            records += taken
            left.take(taken)
            offset = max(offset, header.last_offset + 1) if len(taken) == len(visible) else taken[-1].offset + 1
        return RecordsRead(records, offset, fetched.high_watermark, unreadable=unreadable)

    def _behind_damage(self, fetched: FetchedPartition, offset: int, damage: CorruptFrame) -> RecordsRead:
        """Where to go on if the read began at a frame that fails its checksum."""
        place = self._partitions.leader(fetched.topic, fetched.partition)
        try:
            found = place.unreadable.note_damage(offset, place.log.high_watermark, damage)
        except CorruptFrame as endless:
            return RecordsRead([], offset, fetched.high_watermark, endless)
        return RecordsRead([], found.last + 1, place.log.high_watermark, unreadable=[found])


@dataclass(slots=True)
class _Room:
    """How much more an answer may hold."""

    records: int
    size_bytes: int
    # Unpacked since others had their turn.
    turn_bytes: int = 0

    @property
    def is_full(self) -> bool:
        return self.size_bytes <= 0

    def take(self, records: Sequence[Record]) -> None:
        self.records -= len(records)
        taken = size_of(records)
        self.size_bytes -= taken
        self.turn_bytes += taken


def size_of(records: Sequence[Record]) -> int:
    """Bytes of keys and values."""
    return sum(len(one.key or b"") + len(one.value or b"") for one in records)


def is_hidden(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    """Whether no reader may see a batch: it is a transaction's marker, or part of one that was aborted."""
    return header.is_control or (
        header.is_transactional
        and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
    )
