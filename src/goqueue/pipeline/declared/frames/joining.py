"""Joins: rows of a stream with a table, and rows of two streams that belong together within a length of time."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from msgspec import UNSET
from pyspark.sql import functions as sql

from goqueue.pipeline.declared.form.intervals import spark_interval
from goqueue.pipeline.declared.form.steps import Join
from goqueue.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def join(step: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows that belong together; the columns that they are joined on are there once."""
    if step.within is UNSET or step.time is UNSET:
        return left.join(right, on=step.on, how=step.how)
    doubled = sorted(set(left.columns).intersection(right.columns) - set(step.on))
    if doubled:
        raise PipelineError(
            f"step {step.name}: both sides have a column {doubled[0]!r}: rename one of them in a select step"
        )
    for side, time in zip((left, right), step.time, strict=True):
        if time not in side.columns:
            raise PipelineError(f"step {step.name}: there is no column {time!r} among {', '.join(side.columns)}")
    one, other = left.alias("l"), right.alias("r")
    here, there = sql.col(f"l.`{step.time[0]}`"), sql.col(f"r.`{step.time[1]}`")
    bound = sql.expr(f"INTERVAL {spark_interval(step.within)}")
    near = (there >= here - bound) & (there <= here + bound)
    same: Column = reduce(
        lambda so_far, name: so_far & (sql.col(f"l.`{name}`") == sql.col(f"r.`{name}`")), step.on, near
    )
    joined = one.join(other, same, {"full": "full_outer"}.get(step.how, step.how))
    keys = [sql.coalesce(sql.col(f"l.`{name}`"), sql.col(f"r.`{name}`")).alias(name) for name in step.on]
    rest = [sql.col(f"l.`{name}`") for name in left.columns if name not in step.on]
    rest += [sql.col(f"r.`{name}`") for name in right.columns if name not in step.on]
    return joined.select(*keys, *rest)
