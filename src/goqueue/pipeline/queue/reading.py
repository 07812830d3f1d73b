"""What a task of a queue batch does: read the records that were leased, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from goqueue.pipeline.decoding.columns import RECORD_COLUMNS, Bounds
from goqueue.pipeline.errors import DataLost
from goqueue.pipeline.queue.leases import Lease, runs
from goqueue.pipeline.queue.options import QueueOptions
from goqueue.pipeline.source.catalogue import open_client
from goqueue.pipeline.source.plan import Piece
from goqueue.pipeline.source.reading import read_piece
from goqueue.pipeline.spark.worker_heap import settle
from goqueue.records import TopicPartition

# Records between two leased ones that are read and dropped rather than asked for apart.
_GAP_MAX = 1000


@dataclass
class QueueTask(InputPartition):
    """What one Spark task reads."""

    leases: tuple[Lease, ...]


def read_leases(options: QueueOptions, task: QueueTask) -> Iterator[pa.RecordBatch]:
    """The rows of one task."""
    settle()
    stored = [name for name in options.columns if name in RECORD_COLUMNS]
    columns = stored if "offset" in stored else [*stored, "offset"]
    with open_client(options.records) as client:
        for run in runs(task.leases, _GAP_MAX):
            by_offset = {one.offset: one for one in run}
            place = TopicPartition(options.topic, run[0].partition)
            piece = Piece(place, Bounds(start=run[0].offset, end=run[-1].offset + 1))
            missing = set(by_offset)
            for batch in read_piece(options.records, piece, columns, client):
                wanted = batch.filter(pc.is_in(batch["offset"], value_set=pa.array(list(by_offset), pa.int64())))
                offsets = wanted["offset"].to_pylist()
                missing.difference_update(offsets)
                if offsets:
                    yield _shown(wanted, [by_offset[one] for one in offsets], options.columns)
            if missing and options.records.fail_on_data_loss:
                raise DataLost(str(place), min(missing), max(missing) + 1)


def _shown(rows: pa.RecordBatch, leases: Sequence[Lease], columns: Sequence[str]) -> pa.RecordBatch:
    own = {
        "deliveryCount": lambda: pa.array([one.delivery_count for one in leases], pa.int32()),
        "receipt": lambda: pa.array([one.receipt for one in leases], pa.string()),
    }
    return pa.RecordBatch.from_arrays([own[name]() if name in own else rows[name] for name in columns], list(columns))
