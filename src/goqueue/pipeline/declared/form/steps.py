"""The steps of a pipeline: each has a name and reads the one before it unless it says `from`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, Interval, Name, text_of


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


class Opening(Step, kw_only=True):
    """A step that opens messages: those that it cannot open are dead letters."""


class Parse(Opening, kw_only=True):
    """Open a JSON value; rows that do not fit the schema, or break a rule, are dead letters."""

    schema: str
    column: str = "value"
    # rule -> condition that a good row fulfils
    expect: dict[str, str] = {}
    keep: list[str] = []


class Debezium(Opening, kw_only=True):
    """Open change events as Debezium writes them in JSON, for a table sink of mode cdc. Others are dead letters."""

    # the columns of the table that changes
    schema: str
    column: str = "value"
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

    function: Annotated[str, text_of(r"^[\w.]+:\w+$", "write module:function")]
    schema: str


STEPS: dict[str, type[Step]] = {
    "sql": Sql,
    "select": Select,
    "filter": Filter,
    "parse": Parse,
    "debezium": Debezium,
    "window": Window,
    "deduplicate": Deduplicate,
    "join": Join,
    "python": Python,
}
