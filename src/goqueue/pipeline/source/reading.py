"""What a task does: batches of its ranges, by network or from files, as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from goqueue.client.wire import WireClient
from goqueue.client.wire.fetcher import Gone, fetch_range
from goqueue.errors import OffsetOutOfRange
from goqueue.pipeline.decoding.batches import Batches
from goqueue.pipeline.decoding.columns import frame_batch, record_batches
from goqueue.pipeline.errors import DataLost, TopicRecreated
from goqueue.pipeline.source.catalogue import open_client
from goqueue.pipeline.source.committed import visible, without_aborted
from goqueue.pipeline.source.options import OF_SCHEMA, SourceOptions
from goqueue.pipeline.source.plan import Piece, Task
from goqueue.pipeline.source.segment_reader import read_segment
from goqueue.pipeline.source.segments import Aborted, DataDirectory
from goqueue.pipeline.spark.worker_heap import settle
from goqueue.records import Isolation

if TYPE_CHECKING:
    from goqueue.pipeline.typed.pinned import Pinned

_LOG = logging.getLogger("goqueue.pipeline")
# Batches, and the offset below which they hold nothing that is wanted.
Chunk = tuple[Batches, int]
_FILE_CHUNK_BYTES = 8 * 1024 * 1024


def read_task(
    options: SourceOptions, task: Task, columns: Sequence[str], pinned: Pinned | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, its pieces over the same connections."""
    settle()
    with open_client(options) if options.servers else nullcontext() as client:
        if pinned is not None and not OF_SCHEMA.isdisjoint(columns):
            decode, plain = decoder(pinned, columns)
            for piece in task.pieces:
                for rows in read_piece(options, piece, plain, client):
                    yield decode(rows, str(piece.place))
            return
        for piece in task.pieces:
            yield from read_piece(options, piece, columns, client)


def decoder(
    pinned: Pinned, columns: Sequence[str]
) -> tuple[Callable[[pa.RecordBatch, str], pa.RecordBatch], list[str]]:
    """What decodes values of a place by their schemas, and the columns that it needs for it."""
    from goqueue.pipeline.typed.registry import Registry
    from goqueue.pipeline.typed.values import TypedValues, with_typed_value

    typed = TypedValues(Registry(pinned.url, pinned.kafka), pinned.schema_id, pinned.kind)
    plain = [*dict.fromkeys([*(name for name in columns if name not in OF_SCHEMA), "value", "offset"])]

    def decode(rows: pa.RecordBatch, place: str) -> pa.RecordBatch:
        return with_typed_value(rows, typed, columns, place, keeps_errors=pinned.keeps_errors)

    return decode, plain


def read_piece(
    options: SourceOptions, piece: Piece, columns: Sequence[str], client: WireClient | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition between two offsets."""
    for batches, first_offset in _chunks(options, piece, client):
        bounds = piece.bounds._replace(start=max(piece.bounds.start, first_offset))
        if options.view == "frames":
            rows = frame_batch(piece.place, batches, columns, bounds)
            if rows is not None:
                yield rows
        else:
            yield from record_batches(piece.place, batches, columns, bounds)


def _chunks(options: SourceOptions, piece: Piece, client: WireClient | None) -> Iterator[Chunk]:
    if not piece.segments:
        return _fetched(options, piece, client)
    # `auto` with both: a worker that does not see the files asks the broker.
    if options.transport == "auto" and options.servers and not all(Path(one.path).exists() for one in piece.segments):
        return _fetched(options, piece, client)
    return _from_files(options, piece)


def _from_files(options: SourceOptions, piece: Piece) -> Iterator[Chunk]:
    aborted: Sequence[Aborted] | None = None if options.isolation is Isolation.READ_COMMITTED else ()
    if _is_recreated(options, piece, DataDirectory(options.path or "").topic_id(piece.place)):
        return
    for segment in piece.segments:
        try:
            for batches in read_segment(segment, piece.bounds.start, piece.bounds.end, _FILE_CHUNK_BYTES):
                if options.view == "frames":
                    yield batches, piece.bounds.start
                    continue
                if aborted is None and batches.is_transactional.any():
                    # Not before: it takes a look at all frames, and most topics know no transactions.
                    aborted = DataDirectory(options.path or "").look(piece.place).aborted
                yield without_aborted(batches, aborted or ()), piece.bounds.start
        except FileNotFoundError:
            end = piece.bounds.end if segment.next_offset is None else min(piece.bounds.end, segment.next_offset)
            gone = Gone(max(piece.bounds.start, segment.base_offset), end)
            if options.fail_on_data_loss:
                raise DataLost(str(piece.place), *gone) from None
            _LOG.warning("%s: offsets %d to %d are gone and passed over", piece.place, gone[0], gone[1] - 1)


def _fetched(options: SourceOptions, piece: Piece, given: WireClient | None) -> Iterator[Chunk]:
    def pass_over(gone: Gone) -> None:
        _LOG.warning("%s: offsets %d to %d are gone and passed over", piece.place, gone[0], gone[1] - 1)

    committed = options.isolation is Isolation.READ_COMMITTED
    with open_client(options) if given is None else nullcontext(given) as client:
        # Asked for anyway, to know the partition's leader.
        topic_id = client.topic(piece.place.topic).topic_id
        if _is_recreated(options, piece, str(topic_id) if topic_id else None):
            return
        answers = fetch_range(
            client,
            piece.place,
            piece.bounds.start,
            piece.bounds.end,
            isolation=options.isolation,
            answer_bytes=options.fetch_bytes,
            on_gone=None if options.fail_on_data_loss else pass_over,
            stall_s=options.poll_timeout_ms / 1000,
        )
        try:
            for fetched in answers:
                batches = Batches(fetched.data, fetched.starts)
                if options.view != "frames":
                    batches = visible(batches, fetched.aborted if committed else ())
                if len(batches):
                    yield batches, fetched.first_offset
        except OffsetOutOfRange as error:
            if error.start > error.offset:
                raise DataLost(str(piece.place), piece.bounds.start, min(error.start, piece.bounds.end)) from None
            raise DataLost(str(piece.place), error.offset, piece.bounds.end) from None


def _is_recreated(options: SourceOptions, piece: Piece, topic_id: str | None) -> bool:
    """Whether another topic has the name now, and its records take the place of those that were planned."""
    if piece.topic_id is None or topic_id is None or piece.topic_id == topic_id:
        return False
    if options.fail_on_data_loss:
        raise TopicRecreated(piece.place.topic)
    _LOG.warning(
        "%s: offsets %d to %d are gone with their topic, and passed over",
        *(piece.place, piece.bounds.start, piece.bounds.end - 1),
    )
    return True
