"""The steps of a pipeline: each has a name and reads the one before it unless it says `from`."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.pipeline.declared.form.words import Form, Interval, Name, text_of

Then: TypeAlias = Literal["warn", "drop", "quarantine", "fail"]


class Step(Form, kw_only=True):
    """What all steps have: a name of their own, and what they read."""

    name: Name | UnsetType = UNSET
    from_: Name | UnsetType = msgspec.field(name="from", default=UNSET)

    def reads(self) -> list[str]:
        """The names it reads; empty means the step before it."""
        return [] if self.from_ is UNSET else [self.from_]

    def makes_dead_letters(self) -> bool:
        """Whether rows of this step may go to the dead-letter topic."""
        return False


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

    def makes_dead_letters(self) -> bool:
        """Whether rows of this step may go to the dead-letter topic."""
        return True


class Parse(Opening, kw_only=True):
    """Open a JSON value; rows that do not fit the schema, or break a rule, are dead letters."""

    schema: str
    column: str = "value"
    # rule -> condition that a good row fulfils
    expect: dict[str, str] = {}
    keep: list[str] = []


# What the step `debezium` puts beside the columns of the table: it steers a sink of mode cdc and is not stored.
STEERING = ("_op", "_sequence", "_changed_ms")


class Debezium(Opening, kw_only=True):
    """Open change events as Debezium writes them in JSON, for a table sink of mode cdc. Others are dead letters."""

    # the columns of the table that changes
    schema: str
    column: str = "value"
    keep: list[str] = []


# Beside the counts of rules: how many rows there were.
ROWS = "rows"


class Rule(Form, kw_only=True):
    """A condition that good rows fulfil, and what becomes of the others.

    With `fail_above`, the run ends after a batch in which a greater share of the rows breaks the rule.
    """

    check: str
    then: Then | UnsetType = UNSET
    fail_above: Annotated[float, Meta(ge=0, lt=1)] | UnsetType = UNSET


class Expect(Step, kw_only=True):
    """Rules that rows are expected to keep; how many break each is counted. `then` is for rules that say nothing."""

    rules: Annotated[dict[Name, str | Rule], Meta(min_length=1)]
    then: Then = "warn"

    def rules_by_name(self) -> dict[str, Rule]:
        """Every rule, with what becomes of rows that break it."""
        whole = {name: Rule(check=rule) if isinstance(rule, str) else rule for name, rule in self.rules.items()}
        return {
            name: Rule(check=one.check, then=self.then if one.then is UNSET else one.then, fail_above=one.fail_above)
            for name, one in whole.items()
        }

    def makes_dead_letters(self) -> bool:
        """Whether rows of this step may go to the dead-letter topic."""
        return any(rule.then == "quarantine" for rule in self.rules_by_name().values())


class Watermark(Step, kw_only=True):
    """How late rows may come, by a column of time: steps behind this one forget what is older."""

    time: str
    delay: Interval


class Window(Step, kw_only=True):
    """Aggregate over windows of event time; rows later than the watermark are dropped.

    The watermark is this step's own, or that of an earlier step.
    """

    time: str
    size: Interval
    slide: Interval | UnsetType = UNSET
    session_gap: bool = False
    watermark: Interval | UnsetType = UNSET
    by: list[str] = []
    aggregate: Annotated[dict[str, str], Meta(min_length=1)]


class Deduplicate(Step, kw_only=True):
    """One row per key, within the watermark."""

    keys: Annotated[list[str], Meta(min_length=1)]
    time: str | UnsetType = UNSET
    watermark: Interval | UnsetType = UNSET


class Join(Step, kw_only=True):
    """Look rows up in a table, or join two streams whose rows belong together within a length of time.

    Two streams need `time`, a column of time of each side, and `within`: both have a watermark on that column, so that
    a row is forgotten once nothing can match it any more.
    """

    with_: Name = msgspec.field(name="with")
    on: Annotated[list[str], Meta(min_length=1)]
    how: Literal["inner", "left", "right", "full"] = "inner"
    time: Annotated[list[str], Meta(min_length=2, max_length=2)] | UnsetType = UNSET
    within: Interval | UnsetType = UNSET

    def reads(self) -> list[str]:
        """The stream, if it is named, and what it is joined with."""
        return [*super().reads(), self.with_]


class ForeachBatch(Step, kw_only=True):
    """A function that gets every batch as a table and its number, and returns the table that goes on.

    It may do what a stream cannot: sort, look up elsewhere, call Spark again. A batch that is replayed calls it again.
    """

    function: Annotated[str, text_of(r"^[\w.]+:\w+$", "write module:function")]


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
    "expect": Expect,
    "watermark": Watermark,
    "window": Window,
    "deduplicate": Deduplicate,
    "join": Join,
    "python": Python,
    "foreach_batch": ForeachBatch,
}
