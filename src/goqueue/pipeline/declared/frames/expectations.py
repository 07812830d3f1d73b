"""Rules that rows are expected to keep: counted per rule, and what becomes of a row that breaks one.

Counts are taken by `observe`, so they come with the progress of every batch and cost no second pass. A row counts for
every rule that it breaks; it is dropped or quarantined once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from goqueue.pipeline.declared.form.steps import ROWS, Expect
from goqueue.pipeline.declared.frames.parsing import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# The names of these metrics begin so; the step's name follows.
METRIC = "expect "


def expect(step: Expect, frame: DataFrame, where: str) -> tuple[DataFrame, DataFrame | None]:
    """The rows that go on, and those that are quarantined, if a rule does that."""
    broken = {name: ~sql.coalesce(sql.expr(rule.check), sql.lit(False)) for name, rule in step.rules_by_name().items()}
    counts = [sql.sum(one.cast("long")).alias(name) for name, one in broken.items()]
    seen = frame.observe(f"{METRIC}{step.name}", sql.count(sql.lit(1)).alias(ROWS), *counts)
    for name, rule in step.rules_by_name().items():
        if rule.then == "fail":
            told = sql.concat(
                sql.lit(f"step {step.name}: a row breaks the rule {name}: {rule.check}: "), _as_json(frame)
            )
            seen = seen.filter(sql.when(broken[name], sql.raise_error(told).cast("boolean")).otherwise(sql.lit(True)))
    removed = [one for name, one in broken.items() if step.rules_by_name()[name].then in ("drop", "quarantine")]
    good = seen.filter(~reduce(lambda left, right: left | right, removed)) if removed else seen
    quarantined = {name: broken[name] for name, rule in step.rules_by_name().items() if rule.then == "quarantine"}
    return good, _quarantined(step, seen, quarantined, where) if quarantined else None


def _quarantined(step: Expect, frame: DataFrame, broken: Mapping[str, Column], where: str) -> DataFrame:
    """Rows as the dead-letter topic takes them: as JSON, with all rules that they break."""
    rules = step.rules_by_name()
    told = [sql.when(one, sql.lit(f"breaks the rule {name}: {rules[name].check}")) for name, one in broken.items()]
    bad = frame.filter(reduce(lambda left, right: left | right, broken.values()))

    def of_message(name: str) -> Column:
        return sql.col(f"`{name}`") if name in frame.columns else sql.lit(None)

    return bad.select(
        of_message("key").cast("binary").alias("key"),
        _as_json(frame).cast("binary").alias("value"),
        sql.concat_ws("; ", *told).alias("error"),
        sql.lit(where).alias("step"),
        *[of_message(name).cast("string").alias(name) for name in ORIGIN],
    )


def _as_json(frame: DataFrame) -> Column:
    return sql.to_json(sql.struct(*[sql.col(f"`{name}`") for name in frame.columns]))
