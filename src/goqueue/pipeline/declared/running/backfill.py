"""Backfill: a range of the past goes through a pipeline's steps to its sinks, beside the stream that runs.

Nothing is written twice. A backfill ends where the stream of its sink began, whatever time is asked for. Its ranges of
offsets are kept before it begins, under one id: run again after a kill, it writes the same ranges under the same id,
and sinks that have them write nothing. A range that overlaps another backfill is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.checks.streams import before, keeps_state, plan_queries, takes_batches
from goqueue.pipeline.declared.form.sinks import ParquetSink, Sink, TableSink, TopicSink
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.frames.build import build, make_importable
from goqueue.pipeline.declared.running.batches import batch_writer, dead_letter_writer
from goqueue.pipeline.declared.running.sinks import DEAD_LETTERS
from goqueue.pipeline.declared.running.sources import read_source, topic_options
from goqueue.pipeline.declared.running.starts import Starts, first_offsets
from goqueue.pipeline.declared.running.state import Held, State, state_at
from goqueue.pipeline.lake.table import Batch
from goqueue.pipeline.source.stream_offset import StreamOffset
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE, _LOCK = "backfills.json", "backfill.lock"
# source -> topic -> partition -> [first offset, end]
Ranges = dict[str, dict[str, dict[str, list[int]]]]


def backfill(
    pipeline: Pipeline,
    spark: SparkSession | None,
    *,
    from_ms: int,
    to_ms: int,
    sinks: Sequence[str] = (),
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """Write a range of time to sinks, or say what would be written; one row per sink."""
    chosen = _chosen(pipeline, sinks)
    home = state_at(pipeline.checkpoint_path)
    if folder is not None:
        make_importable(folder)
    rows = []
    with _only_one(home):
        for name, query in chosen.items():
            entry = _entry(pipeline, name, query, from_ms, to_ms, home, keep=spark is not None)
            messages = sum(
                end - first
                for topics in entry["ranges"].values()
                for partitions in topics.values()
                for first, end in partitions.values()
            )
            if spark is not None and messages:
                _write(pipeline, spark, name, entry)
            rows.append({"sink": name, "id": entry["id"], "messages": messages, "ranges": entry["ranges"]})
    return rows


def _chosen(pipeline: Pipeline, sinks: Sequence[str]) -> dict[str, str]:
    """The sinks to write, each with the query that writes it; raises for one that cannot be filled."""
    queries = {sink: plan.name for plan in plan_queries(pipeline) for sink in plan.sinks}
    for name in sinks:
        if name not in queries:
            raise InvalidRequest(f"there is no sink {name!r}: there are {', '.join(queries)}", field="sink")
    chosen = {name: query for name, query in queries.items() if not sinks or name in sinks}
    for name in chosen:
        _check(pipeline, name, pipeline.sinks[name])
    if not sinks and pipeline.dead_letter_origins():
        chosen[DEAD_LETTERS] = DEAD_LETTERS
    return chosen


def _check(pipeline: Pipeline, name: str, sink: Sink) -> None:
    state = [one for one, step in before(pipeline, sink.reads()[0]).items() if keeps_state(pipeline, step)]
    if state:
        told = f"step {state[0]} would count rows at the edge of the range without those beyond it"
    elif isinstance(sink, ParquetSink):
        told = "files have no memory of what was written, and a second run would write it again: use delta"
    elif sink.is_written_by_spark():
        told = "Spark's own writer remembers batches of streams only: a second run would write it again"
    elif isinstance(sink, TopicSink) and not sink.exactly_once:
        told = "without exactly_once nothing remembers what was written, and a second run would write it again"
    elif takes_batches(sink):
        told = "an older result would take the place of a newer one"
    elif isinstance(sink, TableSink) and sink.mode == "cdc":
        told = "older changes would take the place of newer ones"
    elif isinstance(sink, TableSink) and sink.mode == "merge":
        # An older row loses against a newer one, but a table keeps nothing of a row that it has deleted.
        told = "rows that the stream has deleted since would be inserted again"
    else:
        return
    raise InvalidRequest(f"sink {name} cannot be filled: {told}", field="sink", hint="name other sinks with --sink")


def _entry(
    pipeline: Pipeline, name: str, query: str, from_ms: int, to_ms: int, home: State, *, keep: bool
) -> dict[str, Any]:
    """What is to be written: the ranges of an earlier run of the same backfill, or new ones."""
    known: list[dict[str, Any]] = json.loads(home.read(_FILE) or "[]")
    for one in known:
        if one["sink"] != name:
            continue
        if (one["from_ms"], one["to_ms"]) == (from_ms, to_ms):
            return one
        if one["from_ms"] < to_ms and from_ms < one["to_ms"]:
            raise InvalidRequest(
                f"sink {name}: the range overlaps backfill {one['id']}, of {one['from_ms']} to {one['to_ms']} "
                "(milliseconds)",
                field="from",
                hint="choose a range before or behind it, or exactly the same to finish it",
            )
    digest = hashlib.blake2s(f"{home.address} {name} {from_ms} {to_ms}".encode(), digest_size=8).hexdigest()
    entry = {"id": f"backfill-{digest}", "sink": name, "from_ms": from_ms, "to_ms": to_ms}
    entry["ranges"] = _ranges(pipeline, query, from_ms, to_ms)
    if keep:
        home.write(_FILE, json.dumps([*known, entry], indent=2))
    return entry


def _ranges(pipeline: Pipeline, query: str, from_ms: int, to_ms: int) -> Ranges:
    """For each stream: from the first time to the second, and never beyond where the stream of the sink began."""
    starts = Starts(pipeline, query)
    found: Ranges = {}
    for name, source in pipeline.sources.items():
        if not source.is_stream:
            continue
        began = starts.known(name)
        if began is None:
            raise InvalidRequest(
                f"it is not known where {query} began to read {name}",
                hint="run the pipeline first: what lies before its beginning is filled",
            )
        low, high = (_at(pipeline, source, time_ms) for time_ms in (from_ms, to_ms))
        for place, start in began.items():
            end = min(high.get(place, start), start)
            first = min(low.get(place, end), end)
            found.setdefault(name, {}).setdefault(place.topic, {})[str(place.partition)] = [first, end]
    return found


def _at(pipeline: Pipeline, source: Source, time_ms: int) -> Mapping[Any, int]:
    options = topic_options(pipeline, source, "")
    kept = {name: value for name, value in options.items() if not name.lower().startswith(("starting", "groupid"))}
    by_time = {"startingTimestamp": str(time_ms), "startingOffsetsByTimestampStrategy": "latest"}
    return first_offsets({**kept, **by_time})


def _write(pipeline: Pipeline, spark: SparkSession, name: str, entry: Mapping[str, Any]) -> None:
    def read(source_name: str, source: Source) -> DataFrame:
        if not source.is_stream:
            return read_source(spark, {}, pipeline, source)
        return spark.read.format("goqueue").options(**_options(pipeline, source, entry["ranges"][source_name])).load()

    built = build(pipeline, read)
    batch = Batch(f"{entry['id']}.{name}", 0)
    if name == DEAD_LETTERS:
        dead_letter_writer(pipeline)(built.all_bad(), batch)
    else:
        sink = pipeline.sinks[name]
        batch_writer(pipeline, name, sink)(built.frames[sink.reads()[0]], batch)
    reached("backfill-written", 0)


def _options(pipeline: Pipeline, source: Source, ranges: Mapping[str, Mapping[str, Sequence[int]]]) -> dict[str, str]:
    """A topic as a table, between offsets."""
    left_out = ("starting", "ending", "groupid", "maxoffsets", "minoffsets", "maxbytes", "maxtrigger")
    options = topic_options(pipeline, source, "")
    kept = {name: value for name, value in options.items() if not name.lower().startswith(left_out)}
    for at, word in enumerate(("startingOffsets", "endingOffsets")):
        places = {topic: {one: bounds[at] for one, bounds in parts.items()} for topic, parts in ranges.items()}
        kept[word] = json.dumps(StreamOffset.decode(places).encode())
    return kept


@contextmanager
def _only_one(state: State) -> Iterator[None]:
    try:
        with state.held(_LOCK):
            yield
    except Held:
        raise InvalidRequest("another backfill of this pipeline has not ended") from None
