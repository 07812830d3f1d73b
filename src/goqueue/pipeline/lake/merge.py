"""Merging a batch into a table by keys: files that hold one of its keys are written anew by the executors.

Copy on write: one commit removes the files that are affected and adds those that take their place, with the batch's
number. If another writer has changed the table meanwhile, the batch is merged again into what is there now. The
driver sees names of files and the lowest and highest key, never rows.
"""

from __future__ import annotations

import datetime as dt
import logging
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.types import TimestampType

from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.append import ATTEMPTS_MAX, commit, schema_of, sweep, was_written, write_files
from goqueue.pipeline.lake.table import Batch, Bounds, Conflict, DataFile, LakeTable
from goqueue.pipeline.spark.session import is_connected
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("goqueue.pipeline")
_DELETED, _FILE, _NEW, _OLD = "__goqueue_deleted", "__goqueue_file", "__goqueue_new", "__goqueue_old"
_BYTES_PER_TASK = 256 * 1024 * 1024
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BOUNDS = (int, float, Decimal, str, bytes, dt.date)


class MergeRule(NamedTuple):
    """How rows of a batch meet rows of the table."""

    keys: tuple[str, ...]
    # Of several rows with one key the highest wins. If the table has this column, older rows than it has lose too.
    sequence: str
    # A condition under which the row of this key is removed.
    delete_when: str | None = None
    # Columns of the batch that steer the merge and are not stored.
    not_stored: tuple[str, ...] = ()


def latest(frame: DataFrame, rule: MergeRule) -> DataFrame:
    """One row per key: the newest, its columns as they are to be stored, and whether it deletes."""
    for name in (*rule.keys, rule.sequence):
        if name not in frame.columns:
            raise PipelineError(f"the rows have no column {name!r} to merge by; there are {', '.join(frame.columns)}")
    stored = [name for name in frame.columns if name not in rule.not_stored]
    deleted = sql.lit(False) if rule.delete_when is None else sql.coalesce(sql.expr(rule.delete_when), sql.lit(False))
    rows = frame.select(
        *[sql.col(f"`{name}`") for name in rule.keys],
        sql.struct(*[sql.col(f"`{name}`") for name in stored], deleted.alias(_DELETED)).alias(_NEW),
        sql.col(f"`{rule.sequence}`").alias(_OLD),
    )
    # In a struct, a missing sequence is the lowest: by itself, `max_by` would pass over such rows.
    newest = rows.groupBy(*[f"`{name}`" for name in rule.keys]).agg(sql.max_by(_NEW, sql.struct(_OLD)).alias(_NEW))
    return newest.select(f"{_NEW}.*")


def merge(table: LakeTable, frame: DataFrame, batch: Batch, rule: MergeRule, *, add_columns: bool = False) -> int:
    """Merge a batch unless that was done already; returns the number of keys that it had."""
    if was_written(table, batch):
        return 0
    # Read several times below; it stays with the executors.
    changes = latest(frame, rule).persist()
    try:
        facts = changes.agg(*_facts(rule, changes.schema)).collect()[0].asDict()
        if not facts["rows"]:
            return 0
        bounds = _bounds(rule, changes.schema, facts)
        for _ in range(ATTEMPTS_MAX):
            try:
                _merge_once(table, changes, batch, rule, bounds, add_columns=add_columns)
            except Conflict as conflict:
                _LOG.info("batch %d is merged again: %s", batch.number, conflict)
            else:
                break
        else:
            raise PipelineError(
                f"other writers changed the table {ATTEMPTS_MAX} times in a row while a batch was merged"
            )
        return int(facts["rows"])
    finally:
        changes.unpersist()


def _facts(rule: MergeRule, schema: StructType) -> Iterator[Column]:
    yield sql.count(sql.lit(1)).alias("rows")
    for at, name in enumerate(rule.keys):
        key = sql.col(f"`{name}`")
        yield sql.count(key).alias(f"known_{at}")
        for word, bound in (("low", sql.min(key)), ("high", sql.max(key))):
            # As a number: Spark hands a time over in the zone of this machine, and does not say which that is.
            yield (sql.unix_micros(bound) if _is_time(schema, name) else bound).alias(f"{word}_{at}")


def _bounds(rule: MergeRule, schema: StructType, facts: Mapping[str, Any]) -> Bounds:
    """The lowest and highest value of each key; none of a key that some row lacks or that has no order in files.

    Nor of one that is NaN in some row: to Spark it is the highest, and statistics of files leave it out.
    """
    found: dict[str, tuple[Any, Any]] = {}
    for at, name in enumerate(rule.keys):
        if facts[f"known_{at}"] == facts["rows"]:
            low, high = (_value(facts[f"{word}_{at}"], is_time=_is_time(schema, name)) for word in ("low", "high"))
            if _can_bound(low) and _can_bound(high):
                found[name] = (low, high)
    return found


def _can_bound(value: Any) -> bool:
    """Whether statistics of files have such values: none of a nested one, and not a number above all numbers."""
    return isinstance(value, _BOUNDS) and value == value  # noqa: PLR0124 - NaN differs from itself


def _value(value: Any, *, is_time: bool) -> Any:
    if is_time:
        return _EPOCH + dt.timedelta(microseconds=value)
    return bytes(value) if isinstance(value, bytearray) else value


def _is_time(schema: StructType, name: str) -> bool:
    return isinstance(schema[name].dataType, TimestampType)


def _merge_once(
    table: LakeTable, changes: DataFrame, batch: Batch, rule: MergeRule, bounds: Bounds, *, add_columns: bool
) -> None:
    fresh = changes.filter(~sql.col(_DELETED)).drop(_DELETED)
    table.prepare(schema_of(fresh), add_columns=add_columns)
    sweep(table, batch.query)
    affected = _affected(table, changes, rule, bounds)
    result = fresh if not affected else _merged(table, changes, affected, rule)
    attempt = table.write_log().begin(batch)
    added = write_files(result, table.file_writer(attempt), batch)
    reached("lake-files", batch.number)
    if added or affected:
        commit(table, batch, attempt, added, affected, is_still_right=lambda: False, is_strict=True)


def _affected(table: LakeTable, changes: DataFrame, rule: MergeRule, bounds: Bounds) -> list[DataFile]:
    """The files that hold one of the keys."""
    candidates = list(table.files(bounds))
    if not candidates:
        return []
    keys = read_files(changes.sparkSession, table, candidates, rule.keys, with_file=True)
    wanted = changes.select(*[f"`{name}`" for name in rule.keys])
    held = keys.join(wanted, _same_key(keys, wanted, rule.keys), "left_semi").select(_FILE).distinct().collect()
    numbers = {row[0] for row in held}
    return [file for number, file in enumerate(candidates) if number in numbers]


def _merged(table: LakeTable, changes: DataFrame, affected: Sequence[DataFile], rule: MergeRule) -> DataFrame:
    """All rows of the affected files, with the changes made to them."""
    old = read_files(changes.sparkSession, table, affected, None)
    columns = old.columns
    left = old.select(*[old[f"`{name}`"].alias(name) for name in columns], sql.lit(True).alias(_OLD)).alias("o")
    right = changes.withColumn(_NEW, sql.lit(True)).alias("n")
    both = left.join(right, _same_key_by_alias(rule.keys), "full_outer")
    wins = sql.col(f"n.{_NEW}").isNotNull()
    if rule.sequence in columns:
        new, stored = sql.col(f"n.`{rule.sequence}`"), sql.col(f"o.`{rule.sequence}`")
        # As between two rows of a batch, one without a sequence is older than one that has one.
        wins = wins & ~sql.coalesce(new < stored, new.isNull() & stored.isNotNull())
    stays = ~wins | ~sql.col(f"n.{_DELETED}")
    kept = both.filter(sql.coalesce(stays, sql.lit(True)))
    return kept.select(
        *[
            sql.when(wins, sql.col(f"n.`{name}`")).otherwise(sql.col(f"o.`{name}`")).alias(name)
            if name in changes.columns
            else sql.col(f"o.`{name}`").alias(name)
            for name in columns
        ]
    )


def read_files(
    spark: SparkSession,
    table: LakeTable,
    files: Sequence[DataFile],
    columns: Sequence[str] | None,
    *,
    with_file: bool = False,
) -> DataFrame:
    """Rows of files of the table, read by the executors; with the number of the file if that is wanted."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = table.schema
    if schema is None:
        raise PipelineError("the table is gone")
    plain = table.plain_schema(columns)
    shown = plain.append(pa.field(_FILE, pa.int32())) if with_file else plain
    tasks = max(1, min(len(files), -(-sum(file.bytes for file in files) // _BYTES_PER_TASK) + _parallelism(spark)))
    listed = [(number, bytearray(pickle.dumps(file))) for number, file in enumerate(files)]
    frame = spark.createDataFrame(listed, "number int, file binary").repartition(tasks)
    return frame.mapInArrow(_Reading(table.file_reader(columns), with_file=with_file), from_arrow_schema(shown))


def _parallelism(spark: SparkSession) -> int:
    """How many tasks the executors run at once, or a guess where nothing is known of them."""
    if is_connected(spark):
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return spark.sparkContext.defaultParallelism


class _Reading:
    """What a Spark task does with files that it is to read."""

    def __init__(self, reader: Callable[[DataFile], Iterator[pa.RecordBatch]], *, with_file: bool) -> None:
        self._reader, self._with_file = reader, with_file

    def __call__(self, listed: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in listed:
            for number, file in zip(batch["number"].to_pylist(), batch["file"].to_pylist(), strict=True):
                for rows in self._reader(pickle.loads(file)):  # noqa: S301 - from our own driver
                    if self._with_file:
                        which = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
                        yield rows.append_column(_FILE, which)
                    else:
                        yield rows


def _same_key(one: DataFrame, other: DataFrame, keys: Sequence[str]) -> Any:
    condition = sql.lit(True)
    for name in keys:
        condition = condition & one[f"`{name}`"].eqNullSafe(other[f"`{name}`"])
    return condition


def _same_key_by_alias(keys: Sequence[str]) -> Any:
    condition = sql.lit(True)
    for name in keys:
        condition = condition & sql.col(f"o.`{name}`").eqNullSafe(sql.col(f"n.`{name}`"))
    return condition
