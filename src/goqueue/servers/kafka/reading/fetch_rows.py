"""What all fetches have in common: a request's bounds, and one partition's row of the answer."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.reading.fetch import FetchedPartition, FetchQuery, PartitionRead
from goqueue.errors import GoQueueError
from goqueue.records import Isolation
from goqueue.servers.kafka.api import Message, error_code
from goqueue.servers.kafka.leader_hints import current_leader

TOPIC_IDS_FROM = 13

Row = dict[str, object]


def fetch_query(request: Message, reads: Sequence[PartitionRead], *, is_urgent: bool) -> FetchQuery:
    """What to read for a request. A topic that is not there is news: it is not held back until others have some."""
    return FetchQuery(
        reads=reads,
        max_bytes=max(request.max_bytes, 0),
        min_bytes=max(request.min_bytes, 0),
        max_wait_ms=0 if is_urgent else max(request.max_wait, 0),
        isolation=Isolation.READ_COMMITTED
        if request.isolation_level == Isolation.READ_COMMITTED
        else Isolation.READ_UNCOMMITTED,
    )


def fetch_row(part: FetchedPartition, isolation: Isolation) -> Row:
    """A partition that was read."""
    row: Row = {
        "partition_index": part.partition,
        "error_code": error_code(part.error),
        "high_watermark": part.high_watermark,
        "last_stable_offset": part.last_stable_offset,
        "log_start_offset": part.log_start_offset,
        "records": part.batches,
    }
    if part.error is not None:
        row |= current_leader(part.error)
    if isolation is Isolation.READ_COMMITTED:
        row["aborted_transactions"] = [
            {"producer_id": one.producer_id, "first_offset": one.first_offset} for one in part.aborted
        ]
    return row


def unknown_row(partition: int, error: GoQueueError | None) -> Row:
    """A partition of a topic that is not there."""
    return {"partition_index": partition, "error_code": error_code(error), "high_watermark": -1}
