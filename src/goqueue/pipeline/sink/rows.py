"""Rows to batches: each row finds its partition, unfit rows are told, and the rest is encoded and sent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.client.wire import WireClient
from goqueue.client.wire.producer import BatchProducer
from goqueue.codec.batch_encode import encode_section_parts
from goqueue.pipeline.decoding.header_columns import LANES, NORMAL, PRIORITY_HEADER
from goqueue.pipeline.errors import RowRefused
from goqueue.pipeline.sink.encoder import encode_sections, header_block
from goqueue.pipeline.sink.sink_options import SinkOptions
from goqueue.pipeline.sink.targets import Target, Targets
from goqueue.records import TopicPartition

if TYPE_CHECKING:
    from goqueue.pipeline.typed.encoding import ValueEncoder

Headers = list[tuple[str, bytes | None]]
_DELAY_HEADER, _DELIVER_AT_HEADER = "goqueue-delay-ms", "goqueue-deliver-at"
_ERROR_HEADER, _TOPIC_HEADER = "goqueue-error", "goqueue-topic"


class RowWriter:
    """Writes the rows of one task."""

    def __init__(self, options: SinkOptions, client: WireClient, producer: BatchProducer, turn: int) -> None:
        self._options = options
        self._producer = producer
        self._targets = Targets(client, turn)
        self._encoder = _encoder(options)
        self.rows = 0
        self.dead_letters = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode and send one Arrow batch."""
        if not batch.num_rows:
            return
        self.rows += batch.num_rows
        columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        unfit: dict[int, str] = {}
        if self._encoder is not None:
            columns["value"], unfit = self._encoder.encode(columns["value"])
        for name in ("key", "value"):
            if name in columns:
                columns[name] = columns[name].cast(pa.binary())
        columns.setdefault("key", pa.nulls(batch.num_rows, pa.binary()))
        if unfit:
            self._refuse(unfit, self._options.topic, columns)
            keep = pa.array([number for number in range(batch.num_rows) if number not in unfit], pa.int64())
            columns = {name: one.take(keep) for name, one in columns.items()}
        for topic, rows in _by_topic(columns.get("topic"), self._options.topic):
            part = columns if rows is None else {name: one.take(rows) for name, one in columns.items()}
            self._write_topic(topic, part)

    def _write_topic(self, topic: str | None, columns: dict[str, pa.Array]) -> None:
        count = len(columns["value"])
        try:
            if topic is None:
                raise RowRefused("a row has no topic, and the option topic is not given")
            target = self._targets.get(topic)
        except RowRefused as error:
            self._refuse_all(error, topic, columns)
            return
        headers = _header_lists(columns, count)
        partitions = target.choose(columns["key"], columns.get("partition"))
        problems = _problems(target, columns, headers, partitions)
        if problems:
            self._refuse(problems, topic, columns)
            keep = np.array([number for number in range(count) if number not in problems], np.int64)
            columns = {name: one.take(pa.array(keep)) for name, one in columns.items()}
            headers = None if headers is None else [headers[number] for number in keep.tolist()]
            partitions = partitions[keep]
        blocks = None if headers is None else pa.array([header_block(one) for one in headers], pa.binary())
        stamps = _stamps(columns)
        for partition in np.unique(partitions).tolist():
            rows = np.nonzero(partitions == partition)[0]
            self._send(target, int(partition), columns, stamps, blocks, rows)

    def _send(
        self,
        target: Target,
        partition: int,
        columns: dict[str, pa.Array],
        stamps: np.ndarray,
        blocks: pa.Array | None,
        rows: np.ndarray,
    ) -> None:
        place = TopicPartition(target.topic, partition)
        key, value = columns["key"], columns["value"]
        if len(rows) < len(value):
            chosen = pa.array(rows)
            key, value, stamps = key.take(chosen), value.take(chosen), stamps[rows]
            blocks = None if blocks is None else blocks.take(chosen)
        identity = self._producer.identity
        batch_bytes = min(self._options.batch_bytes, target.batch_bytes_max)
        for section in encode_sections(key, value, stamps, blocks, batch_bytes):
            batch = encode_section_parts(
                section.records,
                section.count,
                base_timestamp_ms=section.base_timestamp_ms,
                max_timestamp_ms=section.max_timestamp_ms,
                codec=self._options.codec,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=self._producer.next_sequence(place),
                transactional=identity.transactional_id is not None,
            )
            self._producer.send(place, batch, section.count)

    def _refuse_all(self, error: RowRefused, topic: str | None, columns: dict[str, pa.Array]) -> None:
        self._refuse(dict.fromkeys(range(len(columns["value"])), str(error)), topic, columns)

    def _refuse(self, problems: dict[int, str], topic: str | None, columns: dict[str, pa.Array]) -> None:
        """Fail with the first problem, or put the rows where somebody will look at them."""
        dead_letters = self._options.dead_letter_topic
        if dead_letters is None:
            raise RowRefused(
                f"{next(iter(problems.values()))} (to set such rows aside, give the option deadLetterTopic)"
            )
        target = self._targets.get(dead_letters)
        self.dead_letters += len(problems)
        rows = pa.array(list(problems))
        value = columns["value"].take(rows)
        too_large = pc.fill_null(pc.greater(pc.binary_length(value), target.record_bytes_max // 2), False)
        value = pc.if_else(too_large, pa.scalar(None, pa.binary()), value)
        key = columns["key"].take(rows)
        key = pc.if_else(
            pc.fill_null(pc.greater(pc.binary_length(key), target.record_bytes_max // 4), False),
            pa.scalar(None, pa.binary()),
            key,
        )
        blocks = [
            header_block([(_ERROR_HEADER, reason.encode()), (_TOPIC_HEADER, (topic or "").encode())])
            for reason in problems.values()
        ]
        partitions = target.choose(key, None)
        moved = {"key": key, "value": value}
        stamps = np.full(len(rows), int(time.time() * 1000), np.int64)
        for partition in np.unique(partitions).tolist():
            rows_there = np.nonzero(partitions == partition)[0]
            self._send(target, int(partition), moved, stamps, pa.array(blocks, pa.binary()), rows_there)


def _encoder(options: SinkOptions) -> ValueEncoder | None:
    if options.schema_id is None:
        return None
    from goqueue.pipeline.typed.encoding import ValueEncoder

    return ValueEncoder(options.schema_registry_url or "", options.kafka, options.schema_id)


def _by_topic(column: pa.Array | None, option: str | None) -> Iterable[tuple[str | None, pa.Array | None]]:
    """Each topic with its rows; None for all rows. The option goes before the column, as in Kafka's connector."""
    if column is None or option is not None:
        return [(option, None)]
    topics = column.unique().to_pylist()
    if len(topics) == 1:
        return [(topics[0], None)]
    found: list[tuple[str | None, pa.Array | None]] = []
    for topic in topics:
        rows = pc.is_null(column) if topic is None else pc.fill_null(pc.equal(column, topic), False)
        found.append((topic, pc.indices_nonzero(rows)))
    return found


def _header_lists(columns: dict[str, pa.Array], count: int) -> list[Headers] | None:
    """The headers of each row: its own, and those that say its priority and delay. None: no row has any."""
    names = [name for name in ("headers", "priority", "delay", "deliverAt") if name in columns]
    if all(columns[name].null_count == count for name in names):
        return None
    lists: list[Headers] = [[] for _ in range(count)]
    if "headers" in columns:
        for number, pairs in enumerate(columns["headers"].to_pylist()):
            lists[number] += [(one["key"] or "", one["value"]) for one in pairs or ()]
    moments = columns.get("deliverAt")
    if moments is not None:
        moments = moments.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    _set_priorities(lists, columns.get("priority"))
    _add_header(lists, columns.get("delay"), _DELAY_HEADER)
    _add_header(lists, moments, _DELIVER_AT_HEADER)
    return lists


def _add_header(lists: list[Headers], column: pa.Array | None, name: str) -> None:
    if column is None:
        return
    for number, value in enumerate(column.to_pylist()):
        if value is not None:
            lists[number].append((name, str(value).encode()))


def _set_priorities(lists: list[Headers], column: pa.Array | None) -> None:
    """A row that was read has its priority in a column, and in a header if it has headers: the column counts."""
    if column is None:
        return
    name = PRIORITY_HEADER.decode()
    for number, value in enumerate(column.to_pylist()):
        text = str(value).lower().encode()
        said = next((own or b"" for one, own in reversed(lists[number]) if one == name), b"")
        if value is None or LANES.get(said.lower(), NORMAL) == LANES.get(text):
            continue
        lists[number] = [one for one in lists[number] if one[0] != name]
        if LANES.get(text) != NORMAL:
            lists[number].append((name, text))


def _problems(
    target: Target, columns: dict[str, pa.Array], headers: Sequence[Headers] | None, partitions: np.ndarray
) -> dict[int, str]:
    """Rows that do not fit, each with what is wrong."""
    found: dict[int, str] = {}
    sizes = np.asarray(pc.fill_null(pc.binary_length(columns["key"]), 0), np.int64) + np.asarray(
        pc.fill_null(pc.binary_length(columns["value"]), 0), np.int64
    )
    if headers is not None:
        sizes = sizes + np.array([sum(len(n) * 4 + len(v or b"") + 10 for n, v in one) for one in headers], np.int64)
    for number in np.nonzero(sizes > target.record_bytes_max)[0].tolist():
        found[number] = (
            f"a row of {sizes[number]} bytes is larger than topic {target.topic!r} takes ({target.record_bytes_max})"
        )
    for number in np.nonzero((partitions < 0) | (partitions >= target.partitions))[0].tolist():
        found[number] = f"topic {target.topic!r} has no partition {partitions[number]}, it has {target.partitions}"
    _check_priorities(columns.get("priority"), found)
    for name in ("delay", "deliverAt"):
        column = columns.get(name)
        if column is None or column.null_count == len(column):
            continue
        for number, value in enumerate(column.to_pylist()):
            if value is not None and not target.holds_delayed:
                found[number] = (
                    f"topic {target.topic!r} does not hold rows back: set its goqueue.delay.headers to true, "
                    f"or leave out the column {name}"
                )
            elif name == "delay" and value is not None and value < 0:
                found[number] = f"a delay of {value} ms is negative"
    return dict(sorted(found.items()))


def _check_priorities(column: Any, found: dict[int, str]) -> None:
    if column is None:
        return
    for number, lane in enumerate(column.to_pylist()):
        if lane is not None and str(lane).lower().encode() not in LANES:
            found[number] = f"priority {lane!r} is none of 0 to 4, critical, high, normal, low, background"


def _stamps(columns: dict[str, pa.Array]) -> np.ndarray:
    now_ms = int(time.time() * 1000)
    column = columns.get("timestamp")
    if column is None:
        return np.full(len(columns["value"]), now_ms, np.int64)
    in_ms = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).fill_null(now_ms)
    return np.asarray(in_ms, np.int64)
