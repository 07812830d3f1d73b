"""Values that were decoded by their subject: the schema's columns, and what becomes of values that do not decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StringType, StructField, StructType

from goqueue.pipeline.declared.checks.subjects import ERROR, UNDECODED
from goqueue.pipeline.declared.form.sources import Source
from goqueue.pipeline.declared.frames.parsing import ERROR as TOLD
from goqueue.pipeline.declared.frames.parsing import RAW, dead_letters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT, _ROW = "__corrupt", "__row"


def opened(source: Source, frame: DataFrame, where: str) -> tuple[DataFrame, DataFrame | None]:
    """The columns of the schema and those that are kept, and the messages that are dead letters.

    The frame has values as the source with the option `schema` gives them: decoded, with `error` and `undecoded` beside
    them unless a value that does not decode is an error of the source.
    """
    kept = [sql.col(name) for name in source.keep]
    missing = sql.when(sql.col("value").isNull(), sql.lit("there is no value"))
    if source.table is not UNSET:
        return frame.select(*_fields(frame, "value"), *kept), None
    if source.undecodable == "fail":
        told = sql.concat(sql.lit(f"{where}: "), missing, sql.lit(" at offset "), sql.col("offset").cast("string"))
        # In a filter, since a column that nobody reads is not computed.
        whole = frame.filter(sql.when(sql.col("value").isNull(), sql.raise_error(told).cast("boolean")).otherwise(True))
        return whole.select(*_fields(frame, "value"), *kept), None
    error = sql.coalesce(sql.col("error"), missing)
    if source.undecodable == "column":
        return frame.select(
            *_fields(frame, "value"), *kept, error.alias(ERROR), sql.col("undecoded").alias(UNDECODED)
        ), None
    raw = sql.struct(*[sql.col(name) for name in frame.columns])
    flat = frame.select(raw.alias(RAW), error.alias(TOLD))
    kept = [sql.col(f"{RAW}.{name}") for name in source.keep]
    good = flat.filter(sql.col(TOLD).isNull()).select(*_fields(frame, f"{RAW}.value"), *kept)
    return good, dead_letters(flat.filter(sql.col(TOLD).isNotNull()), frame.columns, "undecoded", where)


def decoded_json(frame: DataFrame, kind: DataType) -> DataFrame:
    """Messages with JSON values, as the source gives messages of the subject: for tests, which have no broker."""
    text = sql.col("value").cast("string")
    whole = StructType([StructField("row", kind), StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    # In an object of its own: Spark opens objects, and a schema may be that of a number.
    row = sql.from_json(sql.concat(sql.lit('{"row":'), text, sql.lit("}")), whole, options)
    is_unfit = sql.col("value").isNotNull() & sql.col(f"{_ROW}.{_CORRUPT}").isNotNull()
    others = [sql.col(name) for name in frame.columns if name != "value"]
    return frame.withColumn(_ROW, row).select(
        *others,
        sql.when(~is_unfit, sql.col(f"{_ROW}.row")).alias("value"),
        sql.when(is_unfit, sql.lit("not JSON of the schema")).alias("error"),
        sql.when(is_unfit, sql.col("value")).alias("undecoded"),
    )


def _fields(frame: DataFrame, value: str) -> list[Column]:
    """The columns of a value; one that is no record is a column itself."""
    kind = frame.schema["value"].dataType
    if not isinstance(kind, StructType):
        return [sql.col(value).alias("value")]
    return [sql.col(f"{value}.`{name}`").alias(name) for name in kind.names]
