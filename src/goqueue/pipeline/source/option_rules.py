"""Options that are well written and still make no sense: together, or for this kind of read.

What Spark's Kafka connector refuses is refused here too: a job that was ported must not read nothing without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from goqueue.pipeline.errors import BadOption

if TYPE_CHECKING:
    from goqueue.pipeline.source.catalogue import Offsets
    from goqueue.pipeline.source.options import SourceOptions

_LATEST = -1
_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "auto.offset.reset": "where a query starts is said by startingOffsets (earliest or latest), "
        "and a checkpoint goes before it",
        "enable.auto.commit": "Spark keeps the offsets in its checkpoint, and writes them to the group for its lag",
        "interceptor.classes": "no code of Kafka's consumer runs here",
        "key.deserializer": "keys are bytes: cast the column, as in CAST(key AS STRING)",
        "value.deserializer": "values are bytes: cast the column, as in CAST(value AS STRING)",
    }
)


def check_kafka_options(kafka: Mapping[str, str]) -> None:
    """Refuse settings of Kafka's consumer that would be expected to do something, and cannot."""
    for name, reason in _REFUSED.items():
        if name in kafka:
            raise BadOption(f"kafka.{name}", f"is not supported: {reason}")


def check_batch(options: SourceOptions) -> None:
    """For a read that ends: `latest` as its start is a mistake, for there is nothing between latest and latest."""
    starting = options.starting
    if options.starting_ms is None and (
        starting == _LATEST if isinstance(starting, int) else starting and _LATEST in starting.values()
    ):
        raise BadOption("startingOffsets", "a batch read cannot start at latest (-1): use earliest or offsets in JSON")
    start_ms, end_ms = options.starting_ms, options.ending_ms
    if isinstance(start_ms, int) and isinstance(end_ms, int) and start_ms > end_ms:
        raise BadOption("startingTimestamp", f"{start_ms} is after endingTimestamp {end_ms}")


def check_stream(options: SourceOptions) -> None:
    """For a stream: it has no end, and cannot wait for more than it may take."""
    if options.as_table:
        raise BadOption("as", "a table is read by spark.read; the stream of its changes is the topic itself")
    if options.ending != _LATEST:
        raise BadOption("endingOffsets", "a stream has no end: use spark.read, or trigger(availableNow=True)")
    if options.ending_ms is not None:
        raise BadOption("endingTimestamp", "a stream has no end: use spark.read, or trigger(availableNow=True)")
    least, most = options.min_offsets, options.max_offsets
    if least is not None and most is not None and least > most:
        raise BadOption("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger {most}")


def check_order(options: SourceOptions, starts: Offsets, ends: Offsets) -> None:
    """Refuse a range that was asked for and ends before it starts."""
    if options.ending == _LATEST and options.ending_ms is None:
        return
    given = options.starting if isinstance(options.starting, Mapping) else {}
    for place, start in starts.items():
        is_given = options.starting_ms is not None or given.get(place, _LATEST) >= 0
        if is_given and start > ends[place]:
            raise BadOption("startingOffsets", f"{place} would be read from {start} to {ends[place]}, which is before")
