"""Reading records instead of batches, for front-ends whose clients cannot open a batch.

Bounds are the fetch path's. What is left out here is only what no reader may see: control
records, and with read_committed the records of aborted transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from goqueue.broker.fetch import FetchedPartition, FetchQuery, FetchService, PartitionRead
from goqueue.codec.batch import BatchHeader, parse_batch_header
from goqueue.codec.batch_decode import decode_records
from goqueue.errors import GoQueueError
from goqueue.ports import Buffer
from goqueue.records import AbortedTransaction, Isolation, Record, TopicPartition


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """Records of one partition and the offset to read on from, or why there are none."""

    records: list[Record]
    next_offset: int
    high_watermark: int
    error: GoQueueError | None = None


class RecordReader:
    """Reads records from positions, waiting for the first if asked."""

    def __init__(self, fetch: FetchService) -> None:
        self._fetch = fetch

    async def read(
        self,
        positions: Mapping[TopicPartition, int],
        *,
        limit: int,
        max_bytes: int,
        wait_ms: int = 0,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, RecordsRead]:
        """Up to `limit` records in all, taken in turn from the partitions that have some.

        No further batch is opened once `max_bytes` are unpacked: what is stored packed may be a thousand times
        larger in memory.
        """
        query = FetchQuery(
            reads=[PartitionRead(at.topic, at.partition, offset, max_bytes) for at, offset in positions.items()],
            max_bytes=max_bytes,
            min_bytes=1,
            max_wait_ms=wait_ms,
            isolation=isolation,
        )
        fetched = self._fetch.fetch_now(query) or await self._fetch.fetch(query)
        left = _Room(limit, max_bytes)
        found = {}
        # The smallest first: what it leaves of its share goes to the others, and none waits for a long backlog to end.
        waiting = sorted(fetched, key=lambda one: sum(map(len, one.batches)))
        for number, one in enumerate(waiting):
            at = TopicPartition(one.topic, one.partition)
            share = -(-left.records // (len(waiting) - number))
            found[at] = _open(one, positions[at], share, left, isolation)
        return {at: found[at] for at in positions}


@dataclass(slots=True)
class _Room:
    """How much more an answer may hold."""

    records: int
    size_bytes: int

    @property
    def is_full(self) -> bool:
        return self.size_bytes <= 0

    def take(self, records: Sequence[Record]) -> None:
        self.records -= len(records)
        self.size_bytes -= sum(len(one.key or b"") + len(one.value or b"") for one in records)


def _open(fetched: FetchedPartition, offset: int, share: int, left: _Room, isolation: Isolation) -> RecordsRead:
    if fetched.error is not None:
        return RecordsRead([], offset, fetched.high_watermark, fetched.error)
    hidden = fetched.aborted if isolation is Isolation.READ_COMMITTED else ()
    records: list[Record] = []
    for batch in fetched.batches:
        if len(records) >= share or left.is_full:
            break
        header = parse_batch_header(batch)
        visible = _visible(batch, header, offset, hidden)
        taken = visible[: share - len(records)]
        records += taken
        left.take(taken)
        offset = max(offset, header.last_offset + 1) if len(taken) == len(visible) else taken[-1].offset + 1
    return RecordsRead(records, offset, fetched.high_watermark)


def is_hidden(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    """Whether no reader may see a batch: it is a transaction's marker, or part of one that was aborted."""
    return header.is_control or (
        header.is_transactional
        and any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
            for one in aborted
        )
    )


def _visible(batch: Buffer, header: BatchHeader, offset: int, hidden: Sequence[AbortedTransaction]) -> list[Record]:
    if is_hidden(header, hidden):
        return []
    records = decode_records(batch)
    if records and records[0].offset < offset:
        # The batch holds records before the one asked for: it is stored whole and read whole.
        records = [record for record in records if record.offset >= offset]
    return records
