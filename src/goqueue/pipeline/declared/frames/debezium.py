"""Changes as Debezium writes them: the row after the change, or before it if it was deleted, and what was done.

Its own columns steer a table sink of mode `cdc`: `_op` is c, u, r or d, `_sequence` grows with
every change of a key (the offset: all changes of a key lie in one partition), `_changed_ms` is the time of the change.
Tombstones, which Debezium sends behind a delete for compaction, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StringType, StructType

from goqueue.pipeline.declared.form.sql import columns_of
from goqueue.pipeline.declared.form.steps import Debezium
from goqueue.pipeline.declared.frames.parsing import ERROR, RAW, dead_letters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT, _EVENT, _ROW, _OP, _AT = "__corrupt", "__event", "__row", "__op", "__at"


def changes(step: Debezium, frame: DataFrame, where: str) -> tuple[DataFrame, DataFrame]:
    """The changes, and the messages that are none."""
    columns = columns_of(step.schema)
    row = StructType.fromDDL(step.schema)
    body = StructType().add("before", row).add("after", row).add("op", StringType()).add("ts_ms", LongType())
    # With and without the envelope that names a schema (`schemas.enable` of Kafka Connect's converter).
    event = StructType([*body.fields]).add("payload", body).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = sql.col(step.column).cast("string")
    opened = frame.filter(sql.col(step.column).isNotNull()).withColumn(_EVENT, sql.from_json(text, event, options))

    def part(name: str) -> Column:
        return sql.coalesce(sql.col(f"{_EVENT}.payload.{name}"), sql.col(f"{_EVENT}.{name}"))

    opened = opened.withColumn(_OP, part("op")).withColumn(_AT, part("ts_ms"))
    opened = opened.withColumn(_ROW, sql.when(sql.col(_OP) == "d", part("before")).otherwise(part("after")))
    unfit = sql.col(_EVENT).isNull() | sql.col(f"{_EVENT}.{_CORRUPT}").isNotNull()
    error = (
        sql.when(unfit, sql.lit(f"not a change event of the schema {step.schema}"))
        .when(sql.col(_OP).isNull(), sql.lit("not a change event: there is no op"))
        .when(~sql.col(_OP).isin("c", "u", "r", "d"), sql.concat(sql.lit("op is not c, u, r or d: "), sql.col(_OP)))
        .when(
            sql.col(_ROW).isNull(),
            sql.concat(sql.lit("the event has no row: "), sql.when(sql.col(_OP) == "d", "before").otherwise("after")),
        )
    )
    raw = sql.struct(*[sql.col(f"`{name}`") for name in frame.columns])
    flat = opened.select(
        raw.alias(RAW),
        error.alias(ERROR),
        *[sql.col(f"{_ROW}.`{name}`") for name in columns],
        sql.col(_OP),
        sql.col(_AT),
    )
    kept = [sql.col(f"{RAW}.`{name}`") for name in step.keep]
    good = flat.filter(sql.col(ERROR).isNull()).select(
        *[sql.col(f"`{name}`") for name in columns],
        *kept,
        sql.col(_OP).alias("_op"),
        sql.col(f"{RAW}.offset").alias("_sequence"),
        sql.col(_AT).alias("_changed_ms"),
    )
    return good, dead_letters(flat.filter(sql.col(ERROR).isNotNull()), frame.columns, step.column, where)
