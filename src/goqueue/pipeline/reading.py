"""What a task does: batches of its range, by network or from files, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa

from goqueue.client.wire import WireClient
from goqueue.client.wire.fetcher import Gone, fetch_range
from goqueue.codec.batch import BatchHeader
from goqueue.codec.markers import marker_is_commit
from goqueue.errors import OffsetOutOfRange
from goqueue.pipeline.catalogue import open_client
from goqueue.pipeline.columns import frame_batch, record_batch
from goqueue.pipeline.errors import DataLost
from goqueue.pipeline.layout import Span
from goqueue.pipeline.options import SourceOptions
from goqueue.pipeline.plan import Bundle, Task
from goqueue.pipeline.segments import read_segment, without_aborted
from goqueue.pipeline.worker_heap import settle
from goqueue.records import Isolation

_LOG = logging.getLogger("goqueue.pipeline")
# Bytes, the batches in them, and the offset below which they hold nothing that is wanted.
Chunk = tuple[memoryview, Sequence[Span], int]
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
    for view, spans, first_offset in _chunks(options, task, client):
        bounds = task.bounds._replace(start=max(task.bounds.start, first_offset))
        if options.view == "frames":
            batch = frame_batch(task.place, spans, columns, bounds)
        else:
            batch = record_batch(task.place, view, spans, columns, bounds)
        if batch is not None:
            yield batch


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
            for view, spans in read_segment(segment, task.bounds.start, task.bounds.end, _FILE_CHUNK_BYTES):
                kept = spans if options.view == "frames" else without_aborted(spans, task.aborted)
                yield view, kept, task.bounds.start
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
                spans = [Span(*one) for one in fetched.batches]
                if options.view != "frames":
                    spans = visible(fetched.data, spans, fetched.aborted if committed else ())
                if spans:
                    yield fetched.data, spans, fetched.first_offset
        except OffsetOutOfRange as error:
            raise DataLost(str(task.place), task.bounds.start, min(error.start, task.bounds.end)) from None


def visible(view: memoryview, spans: Sequence[Span], aborted: Sequence[tuple[int, int]]) -> list[Span]:
    """Batches without markers and without what was aborted, as every committed reader of Kafka's tells them apart."""
    waiting = sorted(aborted, key=lambda one: one[1], reverse=True)
    ended: set[int] = set()
    kept = []
    for span in spans:
        header: BatchHeader = span.header
        while waiting and waiting[-1][1] <= header.last_offset:
            ended.add(waiting.pop()[0])
        if header.is_control:
            if header.producer_id in ended and not marker_is_commit(view[span.start : span.start + header.size]):
                ended.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in ended):
            kept.append(span)
    return kept
