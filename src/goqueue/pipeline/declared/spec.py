"""The vocabulary of a pipeline: what may stand in its file, and what Python code may build.

A pipeline reads sources, takes steps, writes sinks. Every source and step has a name; a step
reads the one before it unless it says `from`. The same types serve the YAML file, the Python
interface and the JSON Schema that editors complete from, so the three cannot differ.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.places import local_path


def _text(pattern: str, hint: str) -> Meta:
    """Text of a form; the hint is for editors and for whoever wrote something else."""
    return Meta(pattern=pattern, description=hint, extra={"hint": hint})


Name = Annotated[str, _text(r"^[A-Za-z_][A-Za-z0-9_]*$", "use letters, digits and underscores")]
Interval = Annotated[
    str,
    _text(
        r"^\d+ ?(ms|s|m|h|d|milliseconds?|seconds?|minutes?|hours?|days?)$",
        "write a length of time, as in 500ms, 10s, 5m, 1h or 2d",
    ),
]
SourceFormat = Literal["parquet", "json", "csv", "orc", "text"]


class Form(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Anything in the file: a name that is not known is a mistake, never ignored."""


# --- sources --------------------------------------------------------------------------------


class Source(Form, kw_only=True):
    """A topic, read as a stream, or files, read as a table. Exactly one of `topic` and `files`."""

    topic: str | UnsetType = UNSET
    files: str | UnsetType = UNSET
    format: SourceFormat = "parquet"
    schema: str | UnsetType = UNSET
    start: str = "earliest"
    max_per_batch: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    fail_on_data_loss: bool = True
    options: dict[str, str] = {}

    @property
    def is_stream(self) -> bool:
        """Whether it never ends."""
        return self.topic is not UNSET


# --- steps ----------------------------------------------------------------------------------


class Step(Form, kw_only=True):
    """What all steps have: a name of their own, and what they read."""

    name: Name | UnsetType = UNSET
    from_: Name | UnsetType = msgspec.field(name="from", default=UNSET)

    def reads(self) -> list[str]:
        """The names it reads; empty means the step before it."""
        return [] if self.from_ is UNSET else [self.from_]


class Sql(Step, kw_only=True):
    """A query over sources and earlier steps, which are its tables."""

    query: str


class Select(Step, kw_only=True):
    """Columns: names or SQL expressions, optionally renamed."""

    columns: Annotated[list[str], Meta(min_length=1)] | dict[str, str]


class Filter(Step, kw_only=True):
    """Keep the rows for which the condition is true."""

    where: str


class Parse(Step, kw_only=True):
    """Open a JSON value; rows that do not fit the schema, or break a rule, are dead letters."""

    schema: str
    column: str = "value"
    # rule -> condition that a good row fulfils
    expect: dict[str, str] = {}
    keep: list[str] = []


class Window(Step, kw_only=True):
    """Aggregate over windows of event time; rows later than the watermark are dropped."""

    time: str
    size: Interval
    slide: Interval | UnsetType = UNSET
    session_gap: bool = False
    watermark: Interval
    by: list[str] = []
    aggregate: Annotated[dict[str, str], Meta(min_length=1)]


class Deduplicate(Step, kw_only=True):
    """One row per key, within the watermark."""

    keys: Annotated[list[str], Meta(min_length=1)]
    time: str | UnsetType = UNSET
    watermark: Interval | UnsetType = UNSET


class Join(Step, kw_only=True):
    """Look rows up in a table of files."""

    with_: Name = msgspec.field(name="with")
    on: Annotated[list[str], Meta(min_length=1)]
    how: Literal["inner", "left"] = "inner"

    def reads(self) -> list[str]:
        """The stream, if it is named, and the table."""
        return [*super().reads(), self.with_]


class Python(Step, kw_only=True):
    """A function over Arrow: it gets an iterator of RecordBatch and yields RecordBatch."""

    function: Annotated[str, _text(r"^[\w.]+:\w+$", "write module:function")]
    schema: str


STEPS: dict[str, type[Step]] = {
    "sql": Sql,
    "select": Select,
    "filter": Filter,
    "parse": Parse,
    "window": Window,
    "deduplicate": Deduplicate,
    "join": Join,
    "python": Python,
}


# --- sinks ----------------------------------------------------------------------------------


class Sink(Form, kw_only=True):
    """What all sinks have."""

    name: Name | UnsetType = UNSET
    from_: Name | UnsetType = msgspec.field(name="from", default=UNSET)

    def reads(self) -> list[str]:
        """The name it reads; empty means the last step."""
        return [] if self.from_ is UNSET else [self.from_]


class TopicSink(Sink, kw_only=True):
    """A topic, exactly once unless told otherwise. Rows become JSON unless they have a `value` column."""

    topic: str
    key: str | UnsetType = UNSET
    value: str | UnsetType = UNSET
    exactly_once: bool = True
    options: dict[str, str] = {}


class ParquetSink(Sink, kw_only=True):
    """A folder of Parquet files with Spark's own commit log."""

    path: str
    partition_by: list[str] = []


class DeltaSink(Sink, kw_only=True):
    """A Delta table; a batch that is replayed writes nothing."""

    path: str
    partition_by: list[str] = []


class IcebergSink(Sink, kw_only=True):
    """An Iceberg table in a catalog that pyiceberg knows: by its `name`, or by `type`, `uri` and so on."""

    table: Annotated[str, _text(r"^[^.]+(\.[^.]+)+$", "write namespace.table, as in lake.events")]
    catalog: dict[str, str] = {}


class ConsoleSink(Sink, kw_only=True):
    """Shows the first rows of every batch, to look at while one writes the pipeline."""

    rows: Annotated[int, Meta(ge=1, le=1000)] = 20


SINKS: dict[str, type[Sink]] = {
    "topic": TopicSink,
    "parquet": ParquetSink,
    "delta": DeltaSink,
    "iceberg": IcebergSink,
    "console": ConsoleSink,
}


# --- the whole ------------------------------------------------------------------------------

Rows: TypeAlias = list[dict[str, Any]]


class Case(Form, kw_only=True):
    """A test: rows given to sources, rows expected in sinks (or in steps)."""

    name: str
    given: Annotated[dict[str, Rows], Meta(min_length=1)]
    expect: Annotated[dict[str, Rows], Meta(min_length=1)]


class Head(Form, kw_only=True):
    """What stands at the top of the file."""

    name: Annotated[
        str,
        _text(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", "use letters, digits, dots, underscores and dashes, 100 at most"),
    ]
    broker: str = "127.0.0.1:9092"
    # ./checkpoints/{name} unless said otherwise
    checkpoint: str | UnsetType = UNSET
    # how often, or `available-now`: take what is there and end
    trigger: str = "1s"
    # the topic for rows that cannot be parsed or break a rule
    dead_letters: str | UnsetType = UNSET
    # for the Spark session
    settings: dict[str, str] = {}


class Pipeline(Head, kw_only=True):
    """One pipeline, names resolved: every step and sink says what it reads."""

    sources: dict[str, Source]
    steps: dict[str, Step] = {}
    sinks: dict[str, Sink]
    tests: list[Case] = []

    @property
    def checkpoint_path(self) -> str:
        """Where progress is kept: a folder of this machine."""
        given = f"./checkpoints/{self.name}" if self.checkpoint is UNSET else self.checkpoint
        return str(local_path(given, "checkpoint"))
