"""JSON values as columns: the rows that fit, and those that do not, as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from goqueue.pipeline.declared.form.sql import columns_of
from goqueue.pipeline.declared.form.steps import Parse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR, RAW = "__error", "__raw"
_CORRUPT, _ROW = "__corrupt", "__row"
# What a dead letter must know of the message that it was.
ORIGIN = ("topic", "partition", "offset", "timestamp")


def parse(step: Parse, frame: DataFrame, where: str) -> tuple[DataFrame, DataFrame]:
    """The rows that fit, opened, and those that do not, as they came."""
    columns = columns_of(step.schema)
    text = sql.col(step.column).cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    opened = frame.withColumn(_ROW, sql.from_json(text, f"{step.schema}, {_CORRUPT} STRING", options))
    unfit = sql.col(_ROW).isNull() | sql.col(f"{_ROW}.{_CORRUPT}").isNotNull()
    error = sql.when(sql.col(step.column).isNull(), sql.lit("there is no value")).when(
        unfit, sql.lit(f"not JSON of the schema {step.schema}")
    )
    # The message goes into one column, so that its parts and those of the value may have the same names.
    raw = sql.struct(*[sql.col(f"`{name}`") for name in frame.columns])
    flat = opened.select(raw.alias(RAW), error.alias(ERROR), *[sql.col(f"{_ROW}.`{name}`") for name in columns])
    for rule, condition in step.expect.items():
        holds = sql.coalesce(sql.expr(condition), sql.lit(False))
        broken = sql.when(~holds, sql.lit(f"breaks the rule {rule}: {condition}"))
        flat = flat.withColumn(ERROR, sql.coalesce(sql.col(ERROR), broken))
    kept = [sql.col(f"{RAW}.`{name}`") for name in step.keep]
    good = flat.filter(sql.col(ERROR).isNull()).select(*[sql.col(f"`{name}`") for name in columns], *kept)
    return good, dead_letters(flat.filter(sql.col(ERROR).isNotNull()), frame.columns, step.column, where)


def dead_letters(bad: DataFrame, columns: Sequence[str], value: str, where: str) -> DataFrame:
    """Rows whose message is in one column and whose error is in another, as the dead-letter topic takes them."""

    def of_message(name: str) -> Column:
        return sql.col(f"{RAW}.`{name}`") if name in columns else sql.lit(None)

    # It may be a field of a column, as in event.body.
    body = of_message(value) if value in columns else sql.col(f"{RAW}.{value}")
    return bad.select(
        of_message("key").cast("binary").alias("key"),
        body.cast("binary").alias("value"),
        sql.col(ERROR).alias("error"),
        sql.lit(where).alias("step"),
        *[of_message(name).cast("string").alias(name) for name in ORIGIN],
    )
