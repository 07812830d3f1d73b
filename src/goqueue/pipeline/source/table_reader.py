"""A topic as a table of its latest values: one row for each key, without those whose last value is none.

A task reads one partition twice: first keys and offsets, to know which record of each key is the last, then those
records. It holds the keys of one partition, never the values. If no end was asked for, a task reads its partition
as it is when the task begins: so a join reads what is there at each of its batches, although Spark plans it once.
Keys are compared within their partition: after partitions were added, a key may be in two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from goqueue.client.wire import WireClient
from goqueue.client.wire.offsets import EARLIEST as EARLIEST_TIME
from goqueue.client.wire.offsets import LATEST as LATEST_TIME
from goqueue.client.wire.offsets import list_offsets
from goqueue.pipeline.errors import BadOption, PipelineError, in_one_line
from goqueue.pipeline.source.batch_reader import BatchReader
from goqueue.pipeline.source.catalogue import Catalogue, open_client
from goqueue.pipeline.source.options import EARLIEST, LATEST, SourceOptions
from goqueue.pipeline.source.plan import Piece, Task, tasks_for
from goqueue.pipeline.source.reading import decoder, read_piece
from goqueue.pipeline.spark.worker_heap import settle

if TYPE_CHECKING:
    from goqueue.pipeline.typed.pinned import Pinned

# So many keys are collected before those that are met again are dropped.
_KEYS_MAX = 1_000_000
_ONE_TASK = 2**62


@dataclass
class TableTask(Task):
    """One partition; with `is_open`, to where it ends when the task begins."""

    is_open: bool = False


class TableReader(BatchReader):
    """Reads the latest values."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], pinned: Pinned | None = None) -> None:
        super().__init__(options, columns, pinned)
        if options.view != "records":
            raise BadOption("as", "a table has the view records")

    @in_one_line
    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        """The rows of one partition. A topic without partitions to read is planned as a task without a range."""
        if not isinstance(partition, TableTask):
            return
        settle()
        if not self.options.servers:
            for piece in partition.pieces:
                yield from self._latest(piece, None)
            return
        with open_client(self.options) as client:
            for piece in partition.pieces:
                yield from self._latest(
                    _as_it_is_now(piece, client, self.options) if partition.is_open else piece, client
                )

    def _plan(self, catalogue: Catalogue) -> list[Task]:
        ranges = self._ranges(catalogue)
        is_open = self.options.ending == LATEST and self.options.ending_ms is None and bool(self.options.servers)
        if is_open:
            # Also partitions that are empty now.
            pieces = [Piece(one.place, self.pushed.bounds._replace(start=one.start, end=one.end)) for one in ranges]
            return [TableTask((piece,), is_open=True) for piece in pieces]
        whole = replace(self.options, max_records=_ONE_TASK, min_partitions=None)
        found = tasks_for(whole, ranges, self.pushed.bounds, catalogue.topic_ids())
        return [TableTask(task.pieces) for task in found]

    def _latest(self, piece: Piece, client: WireClient | None) -> Iterator[pa.RecordBatch]:
        winners = self._winners(piece, client)
        if not len(winners):
            return
        decode, plain = (None, list(self.columns)) if self.pinned is None else decoder(self.pinned, self.columns)
        columns = tuple(dict.fromkeys([*plain, "offset", "value"]))
        rest = replace(piece, bounds=piece.bounds._replace(start=int(winners[0])))
        met = 0
        for batch in read_piece(self.options, rest, columns, client):
            offsets = batch["offset"].to_numpy(zero_copy_only=False)
            places = np.minimum(np.searchsorted(winners, offsets), len(winners) - 1)
            chosen = batch.filter(pa.array(winners[places] == offsets))
            met += chosen.num_rows
            chosen = chosen.filter(chosen["value"].is_valid())
            if chosen.num_rows:
                yield chosen.select(list(self.columns)) if decode is None else decode(chosen, str(piece.place))
        if met < len(winners):
            # Their keys would be missing, although they have a newer value behind the end of this task.
            raise PipelineError(
                f"{piece.place}: compaction removed {len(winners) - met} records while they were read: read it again, "
                "or give the topic a min.compaction.lag.ms that is longer than a read"
            )

    def _winners(self, piece: Piece, client: WireClient | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The offset of the last record of every key, in order."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        known: pa.Table | None = None
        for batch in read_piece(self.options, piece, ("key", "offset"), client):
            if batch["key"].null_count:
                at = batch["offset"][batch["key"].is_null().index(True).as_py()].as_py()
                raise PipelineError(f"{piece.place} has a record without a key at offset {at}: a table needs keys")
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _KEYS_MAX:
                known, waiting, rows = _last_of(known, waiting), [], 0
        known = _last_of(known, waiting)
        if known is None:
            return np.empty(0, np.int64)
        return np.sort(known["offset"].to_numpy())


def _last_of(known: pa.Table | None, waiting: Sequence[pa.RecordBatch]) -> pa.Table | None:
    if not waiting:
        return known
    fresh = pa.Table.from_batches(waiting)
    rows = fresh if known is None else pa.concat_tables([known, fresh])
    found = rows.group_by("key").aggregate([("offset", "max")])
    return found.rename_columns({"offset_max": "offset"}).select(["key", "offset"])


def _as_it_is_now(piece: Piece, client: WireClient, options: SourceOptions) -> Piece:
    start = piece.bounds.start
    if options.starting in (None, EARLIEST) and options.starting_ms is None:
        # Retention may have removed what was the earliest record when the query was planned, days ago.
        start = list_offsets(client, {piece.place: EARLIEST_TIME})[piece.place]
    end = list_offsets(client, {piece.place: LATEST_TIME}, isolation=options.isolation)[piece.place]
    return replace(piece, bounds=piece.bounds._replace(start=start, end=max(start, end)))
