"""Stateless reads of one partition by priority: the log's lane index says where each lane's messages lie.

Nothing is kept between two reads: the answer says for each lane where to go on. A read looks at a bounded part of
the index, opens a few batches at a time, and gives its turn away between them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from goqueue.broker.reading.answer_budget import AnswerBudget
from goqueue.broker.reading.record_reads import RecordReader, RecordsRead, size_of
from goqueue.broker.reading.unreadable import Unreadable
from goqueue.broker.replicas.partitions import Partition, Partitions
from goqueue.delivery.lanes.lane_order import LaneOrder, ReadTurns
from goqueue.delivery.lanes.lane_scheduler import LANES
from goqueue.delivery.lanes.lane_window import LOOK_RUNS_MAX
from goqueue.errors import OffsetOutOfRange
from goqueue.ports import ColdRead, Offload
from goqueue.records import Isolation, Record, TopicPartition

# Of each lane's index in one read: some 65,000 runs.
_LOOKS_MAX = 64
# Plans of one read. There is a second one only where messages of the first cannot be seen.
_PLANS_MAX = 16
# A long run is opened in parts of this size; of a short one only the batch that holds it.
_PART_BYTES = 64 * 1024
_LONG_RUN = 16
_PART_RECORDS = 10_000


class LaneRead(NamedTuple):
    """Records in the order of the read, where to go on in each lane, and what could not be read."""

    records: list[Record]
    next_offsets: list[int]
    high_watermark: int
    unreadable: list[Unreadable]


@dataclass(slots=True)
class _Lane:
    """One lane during a read: stretches that wait to be read, and how far the index was looked at."""

    number: int
    next_offset: int
    looked_to: int
    looks: int = 0
    size: int = 0
    stretches: deque[tuple[int, int]] = field(default_factory=deque)
    # The part of the log that was opened last for this lane.
    part: RecordsRead | None = None
    part_first: int = 0

    def add(self, first: int, end: int) -> None:
        """More of the lane was found."""
        self.stretches.append((first, end))
        self.size += end - first

    def take(self, count: int) -> tuple[int, int]:
        """The next offsets to read, up to `count` that follow each other."""
        first, end = self.stretches.popleft()
        stop = min(first + count, end)
        if stop < end:
            self.stretches.appendleft((stop, end))
        self.size -= stop - first
        return first, stop

    def put_back(self, first: int, end: int) -> None:
        """The answer is full: these offsets were taken and not read."""
        self.stretches.appendleft((first, end))
        self.size += end - first

    def pass_to(self, offset: int) -> None:
        """Everything up to the offset is read, and all that lies between it and the next stretch is of other lanes."""
        self.next_offset = self.stretches[0][0] if self.stretches else max(offset, self.looked_to)


@dataclass(slots=True)
class _Answer:
    """What a read has found so far, and how much more it may hold."""

    limit: int
    bytes_left: int
    isolation: Isolation
    records: list[Record] = field(default_factory=list)
    unreadable: dict[int, Unreadable] = field(default_factory=dict)
    # What `bytes_left` was when the budget of the node was last told.
    counted_left: int = 0

    def is_full(self) -> bool:
        """Whether no further record may come."""
        return len(self.records) >= self.limit or self.bytes_left <= 0


class LaneReader:
    """Reads one partition lane by lane."""

    def __init__(self, reads: RecordReader, partitions: Partitions, *, offload: Offload, answers: AnswerBudget) -> None:
        self._reads = reads
        self._partitions = partitions
        self._offload = offload
        self._answers = answers

    async def read(
        self,
        at: TopicPartition,
        offsets: Sequence[int],
        *,
        order: LaneOrder,
        limit: int,
        max_bytes: int,
        isolation: Isolation = Isolation.READ_COMMITTED,
    ) -> LaneRead:
        """Up to `limit` records, each lane from its own offset on; no further one once `max_bytes` are read.

        An answer whose `next_offsets` are those that were given is the end of what there is.
        """
        place = await self._partitions.open_leader(at.topic, at.partition)
        log = place.log
        for offset in offsets:
            if not log.start_offset <= offset <= log.end_offset:
                raise OffsetOutOfRange(offset, log.start_offset, log.end_offset)
        upper = log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark
        lanes = [_Lane(number, offset, offset) for number, offset in enumerate(offsets)]
        turns = ReadTurns(order, place.config.lane_weights)
        answer = _Answer(limit, max_bytes, isolation, counted_left=max_bytes)
        with ExitStack() as held:
            for _ in range(_PLANS_MAX):
                want = limit - len(answer.records)
                for lane in lanes:
                    await self._look(lane, place, upper, want)
                unsure = (one.number + 1 for one in lanes if one.looked_to < upper and one.size < want)
                picks = turns.pick([lane.size for lane in lanes], want, unsure_from=next(unsure, LANES))
                for number, count in picks:
                    await self._take(lanes[number], count, place, answer)
                    await self._hold(answer, held)
                if not picks or answer.is_full():
                    break
        self._count(place, answer.records)
        unreadable = sorted(answer.unreadable.values())
        return LaneRead(answer.records, [lane.next_offset for lane in lanes], log.high_watermark, unreadable)

    async def _hold(self, answer: _Answer, held: ExitStack) -> None:
        """Count what was read as it grows, and end the answer early where memory for answers is short."""
        grown = answer.counted_left - answer.bytes_left
        if grown >= _PART_BYTES:
            answer.counted_left = answer.bytes_left
            held.enter_context(self._answers.held(grown))
            if self._answers.is_full:
                # Perhaps only this turn of the loop has had its share.
                await asyncio.sleep(0)
                if self._answers.is_full:
                    answer.bytes_left = 0

    async def _look(self, lane: _Lane, place: Partition, upper: int, want: int) -> None:
        """Find where the next `want` messages of the lane lie, as far as the bound on looks allows."""
        while lane.size < want and lane.looked_to < upper and lane.looks < _LOOKS_MAX:
            lane.looks += 1
            ask = partial(place.log.lane_runs, lane.number, lane.looked_to, upper=upper, runs_max=LOOK_RUNS_MAX)
            try:
                found = ask(nowait=True)
            except ColdRead:
                found = await self._offload(ask)
            for run in found.runs:
                lane.add(run.first_offset, run.end_offset)
            lane.looked_to = found.scanned_to
            if lane.looks > 1:
                await asyncio.sleep(0)
        lane.pass_to(lane.next_offset)

    async def _take(self, lane: _Lane, count: int, place: Partition, answer: _Answer) -> None:
        while count > 0 and not answer.is_full():
            first, stop = lane.take(count)
            count -= stop - first
            while first < stop and not answer.is_full():
                part = await self._part(lane, first, stop, place, answer)
                end = min(stop, part.next_offset)
                for record in _between(part.records, first, end):
                    if answer.is_full():
                        end = record.offset
                        break
                    answer.records.append(record)
                    answer.bytes_left -= size_of([record])
                first = end
            if first < stop:
                lane.put_back(first, stop)
            lane.pass_to(first)

    async def _part(self, lane: _Lane, first: int, stop: int, place: Partition, answer: _Answer) -> RecordsRead:
        """What lies at `first`: opened already for the lane's last message, or read now."""
        part = lane.part
        if part is not None and lane.part_first <= first < part.next_offset:
            return part
        # A read that is there at once waits for nothing: others get their turn here.
        await asyncio.sleep(0)
        found = await self._reads.read(
            {place.key: first},
            limit=_PART_RECORDS,
            max_bytes=_PART_BYTES if stop - first >= _LONG_RUN else 1,
            isolation=answer.isolation,
            is_counted=False,
        )
        part = found[place.key]
        if part.error is not None:
            raise part.error
        if part.next_offset <= first:
            # Nothing lies there any more, up to the end.
            part = RecordsRead([], stop, part.high_watermark)
        for one in part.unreadable:
            answer.unreadable[one.first] = one
        lane.part, lane.part_first = part, first
        return part

    def _count(self, place: Partition, records: Sequence[Record]) -> None:
        place.traffic.messages_out += len(records)
        place.traffic.bytes_out += size_of(records)


def _between(records: list[Record], first: int, end: int) -> Sequence[Record]:
    """The records with offsets from `first` up to `end`: a slice where no offset is missing."""
    if records and records[-1].offset - records[0].offset == len(records) - 1:
        base = records[0].offset
        return records[max(first - base, 0) : max(end - base, 0)]
    return [record for record in records if first <= record.offset < end]
