"""What a task does: batches of its range, by network or from files, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa

from goqueue.client.wire import WireClient
from goqueue.client.wire.fetcher import Gone, fetch_range
from goqueue.errors import OffsetOutOfRange
from goqueue.pipeline.batches import Batches
from goqueue.pipeline.catalogue import open_client
from goqueue.pipeline.columns import frame_batch, record_batches
from goqueue.pipeline.committed import visible, without_aborted
from goqueue.pipeline.errors import DataLost
from goqueue.pipeline.options import SourceOptions
from goqueue.pipeline.plan import Bundle, Task
from goqueue.pipeline.segment_reader import read_segment
from goqueue.pipeline.worker_heap import settle
from goqueue.records import Isolation

_LOG = logging.getLogger("goqueue.pipeline")
# Batches, and the offset below which they hold nothing that is wanted.
Chunk = tuple[Batches, int]
_FILE_CHUNK_BYTES = 8 * 1024 * 1024


def read_bundle(options: SourceOptions, bundle: Bundle, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of several tasks, over the same connections."""
    with open_client(options) if options.servers else nullcontext() as client:
        for task in bundle.tasks:
            yield from read_task(options, task, columns, client)


def read_task(
    options: SourceOptions, task: Task, columns: Sequence[str], client: WireClient | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one task."""
    settle()
    for batches, first_offset in _chunks(options, task, client):
        bounds = task.bounds._replace(start=max(task.bounds.start, first_offset))
        if options.view == "frames":
            rows = frame_batch(task.place, batches, columns, bounds)
            if rows is not None:
                yield rows
        else:
            yield from record_batches(task.place, batches, columns, bounds)


def _chunks(options: SourceOptions, task: Task, client: WireClient | None) -> Iterator[Chunk]:
    if not task.segments:
        return _fetched(options, task, client)
    # `auto` with both: a worker that does not see the files asks the broker.
    if options.transport == "auto" and options.servers and not all(Path(one.path).exists() for one in task.segments):
        return _fetched(options, task, client)
    return _from_files(options, task)


def _from_files(options: SourceOptions, task: Task) -> Iterator[Chunk]:
    for segment in task.segments:
        try:
            for batches in read_segment(segment, task.bounds.start, task.bounds.end, _FILE_CHUNK_BYTES):
                kept = batches if options.view == "frames" else without_aborted(batches, task.aborted)
                yield kept, task.bounds.start
        except FileNotFoundError:
            end = task.bounds.end if segment.next_offset is None else min(task.bounds.end, segment.next_offset)
            gone = Gone(max(task.bounds.start, segment.base_offset), end)
            if options.fail_on_data_loss:
                raise DataLost(str(task.place), *gone) from None
            _LOG.warning("%s: offsets %d to %d are gone and passed over", task.place, gone[0], gone[1] - 1)


def _fetched(options: SourceOptions, task: Task, given: WireClient | None) -> Iterator[Chunk]:
    def pass_over(gone: Gone) -> None:
        _LOG.warning("%s: offsets %d to %d are gone and passed over", task.place, gone[0], gone[1] - 1)

    committed = options.isolation is Isolation.READ_COMMITTED
    with open_client(options) if given is None else nullcontext(given) as client:
        answers = fetch_range(
            client,
            task.place,
            task.bounds.start,
            task.bounds.end,
            isolation=options.isolation,
            answer_bytes=options.fetch_bytes,
            on_gone=None if options.fail_on_data_loss else pass_over,
        )
        try:
            for fetched in answers:
                batches = Batches(fetched.data, fetched.starts)
                if options.view != "frames":
                    batches = visible(batches, fetched.aborted if committed else ())
                if len(batches):
                    yield batches, fetched.first_offset
        except OffsetOutOfRange as error:
            raise DataLost(str(task.place), task.bounds.start, min(error.start, task.bounds.end)) from None
