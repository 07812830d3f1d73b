"""What is wrong with sinks: where they write, and how rows meet the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import UNSET

from goqueue.pipeline.declared.checks.parts import (
    options_problem,
    place_problem,
    reads_nothing,
    sql_problem,
    topic_problem,
)
from goqueue.pipeline.declared.form.problems import Problem
from goqueue.pipeline.declared.form.sinks import (
    DeltaSink,
    IcebergSink,
    LakeSink,
    ParquetSink,
    PostgresSink,
    TableSink,
    TopicSink,
)
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.sql import check_expression
from goqueue.pipeline.lake.transforms import BadTransform, partition_field
from goqueue.pipeline.paths import DELTA_SCHEMES, SPARK_SCHEMES

# User, password and host of a url, in which only what separates them stands for itself.
_AUTHORITY = re.compile(r"\w+://([^/?]*)")
_UNFINISHED = re.compile(r"%(?![0-9A-Fa-f]{2})")


def sink_problems(pipeline: Pipeline, known: set[str], places: Mapping[str, str]) -> Iterator[Problem]:
    """What is wrong with each of the sinks."""
    for name, sink in pipeline.sinks.items():
        path = places[f"sinks.{name}"]
        yield from _taken_name(pipeline, name, path)
        for read in sink.reads():
            if read not in known:
                yield reads_nothing(path, read, known)
        if isinstance(sink, ParquetSink | DeltaSink):
            known_schemes, settings = (
                (SPARK_SCHEMES, pipeline.settings) if sink.is_written_by_spark() else (DELTA_SCHEMES, {})
            )
            yield from place_problem(f"{path}.path", sink.path, known_schemes, settings)
            yield from _plain_columns(path, sink)
        if isinstance(sink, LakeSink) and sink.is_written_by_spark():
            yield from _of_spark(path, sink)
        if isinstance(sink, IcebergSink):
            yield from _transforms(path, sink)
        if isinstance(sink, PostgresSink):
            yield from _url(path, sink)
        if isinstance(sink, TableSink):
            yield from _mode(path, sink)
        if isinstance(sink, TopicSink):
            yield from topic_problem(f"{path}.topic", sink.topic)
            if sink.delete_when is not UNSET:
                yield from sql_problem(f"{path}.delete_when", check_expression, sink.delete_when)
            if sink.options:
                yield from options_problem(f"{path}.options", sink.options, is_sink=True)


def _taken_name(pipeline: Pipeline, name: str, path: str) -> Iterator[Problem]:
    """A sink's checkpoint is a folder of its name, beside those of other queries and the files of the run."""
    taken = None
    if name == "stop":
        taken = "the file by which a run is asked to end"
    elif name == "dead_letters" and pipeline.dead_letter_origins():
        taken = "the query that writes the dead letters"
    elif pipeline.shared_reads and name.startswith("shared_") and name[7:] in {*pipeline.sources, *pipeline.steps}:
        taken = f"a read that sinks of {name[7:]!r} share"
    if taken is not None:
        yield Problem(f"{path}.name", f"{name!r} is the name of {taken}", "give the sink another name")


def _mode(path: str, sink: TableSink) -> Iterator[Problem]:
    if sink.mode == "append":
        for word in ("keys", "sequence", "delete_when"):
            if getattr(sink, word) not in (UNSET, []):
                yield Problem(f"{path}.{word}", "appended rows are not merged", "add mode: upsert, merge or cdc")
        return
    if not sink.keys:
        yield Problem(f"{path}.keys", f"mode {sink.mode} needs the columns that name a row", "as in keys: [id]")
    if sink.sequence is UNSET and sink.mode != "cdc":
        yield Problem(
            f"{path}.sequence", "which of two rows with one key is newer?", "name a column that grows, as in offset"
        )
    if sink.mode == "merge" and sink.delete_when is UNSET:
        yield Problem(f"{path}.delete_when", "mode merge needs a rule for deletes", "without one, use mode: upsert")
    if sink.delete_when is not UNSET:
        if sink.mode == "upsert":
            yield Problem(f"{path}.delete_when", "mode upsert deletes nothing", "use mode: merge")
        yield from sql_problem(f"{path}.delete_when", check_expression, sink.delete_when)


def _of_spark(path: str, sink: LakeSink) -> Iterator[Problem]:
    """What Spark's own writers do not do here."""
    if sink.mode != "append":
        yield Problem(f"{path}.mode", f"mode {sink.mode} is not one of Spark's own writer", "drop writer: spark")
    if not isinstance(sink, IcebergSink):
        return
    if sink.catalog:
        yield Problem(
            f"{path}.catalog",
            "Spark's own writer takes the catalog from the session",
            "write settings: {spark.sql.catalog.NAME: ...} and table: NAME.namespace.table",
        )
    if sink.add_columns:
        yield Problem(f"{path}.add_columns", "Spark's own writer adds none to an Iceberg table", "ALTER TABLE before")
    if any("(" in text for text in sink.partition_by):
        yield Problem(
            f"{path}.partition_by", "Spark's own writer makes tables by plain columns only", "make the table before"
        )


def _plain_columns(path: str, sink: ParquetSink | DeltaSink) -> Iterator[Problem]:
    for at, text in enumerate(sink.partition_by):
        # A column may have brackets in its name.
        with suppress(BadTransform):
            if partition_field(text)[1] == "identity":
                continue
            yield Problem(
                f"{path}.partition_by[{at}]",
                f"{text!r} is no column: only Iceberg tables are divided by transforms",
                "compute a column in a select step, and name that",
            )


def _url(path: str, sink: PostgresSink) -> Iterator[Problem]:
    """A url that libpq reads otherwise than it is meant; its error would show the password, or a part of it."""
    found = _AUTHORITY.match(sink.url)
    if _UNFINISHED.search(sink.url) or (found and found[1].count("@") > 1):
        told = "a name or password in it has a character that separates parts of a url"
        yield Problem(f"{path}.url", told, "write %25 for %, %40 for @, %3A for : and %2F for /")


def _transforms(path: str, sink: IcebergSink) -> Iterator[Problem]:
    for at, text in enumerate(sink.partition_by):
        try:
            partition_field(text)
        except BadTransform as error:
            yield Problem(f"{path}.partition_by[{at}]", str(error), "write a column, day(at) or bucket(16, id)")
