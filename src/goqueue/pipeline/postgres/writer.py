"""A batch into a PostgreSQL table, exactly once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sql

from goqueue.errors import ConfigError
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.append import check_names
from goqueue.pipeline.lake.table import StaleBatch
from goqueue.pipeline.postgres import statements as text
from goqueue.pipeline.postgres.rows import RESULT, CopyTask, as_text, column_type
from goqueue.pipeline.postgres.statements import DELETED, SEQUENCE, Target
from goqueue.pipeline.steps import reached

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from pyspark.sql import DataFrame

    from goqueue.pipeline.lake.merge import MergeRule
    from goqueue.pipeline.lake.table import Batch

# MERGE is there from this version on.
_VERSION_MIN = 150000
# How often a merge meets rows that others insert at the same moment.
_MERGES_MAX = 5


class PostgresTable(NamedTuple):
    """Where rows go, and how. Without a rule they are appended."""

    url: str
    table: str
    rule: MergeRule | None = None
    add_columns: bool = False


def check_installed() -> None:
    """Raise unless the package that talks to PostgreSQL is there."""
    try:
        import psycopg  # noqa: F401 - is it there?
    except ImportError as error:
        raise ConfigError(["a postgres sink needs the package psycopg: pip install 'goqueue[postgres]'"]) from error


def write_batch(table: PostgresTable, frame: DataFrame, batch: Batch) -> int:
    """Write a batch unless it is there already; returns how many rows were sent."""
    with _connected(table.url) as connection:
        target = _prepared(connection, table, frame)
        last = _last(connection, target, batch.query)
        if last > batch.number:
            # Spark runs a batch again only while it is the last: this one was planned anew, from an older checkpoint.
            raise StaleBatch(batch, last)
        if last == batch.number:
            return 0
        stage = _fresh_stage(connection, target, batch.query)
        sent = _send(table, target, stage, frame, batch)
        reached("postgres-copied", batch.number)
        _apply(connection, table, target, stage, batch, sent)
        reached("postgres-committed", batch.number)
        with connection.transaction(), connection.cursor() as cursor:
            _run(cursor, f"DROP TABLE IF EXISTS {text.in_schema(target, stage)}")
    return sum(row.rows for row in sent)


def _send(table: PostgresTable, target: Target, stage: str, frame: DataFrame, batch: Batch) -> list[Any]:
    rule = table.rule
    columns = [as_text(frame, name) for name in target.columns]
    names = list(target.columns)
    if rule is not None:
        columns.append(sql.col(f"`{rule.sequence}`").alias(SEQUENCE))
        names.append(SEQUENCE)
        if rule.delete_when is not None:
            columns.append(sql.coalesce(sql.expr(rule.delete_when), sql.lit(False)).alias(DELETED))
            names.append(DELETED)
    task = CopyTask(table.url, target, stage, names, batch.number)
    return list(frame.select(*columns).mapInArrow(task, RESULT).collect())


def _apply(
    connection: Connection[Any], table: PostgresTable, target: Target, stage: str, batch: Batch, sent: list[Any]
) -> None:
    """The one transaction: rows and number together."""
    import psycopg

    for attempt in range(1, _MERGES_MAX + 1):
        try:
            with connection.transaction(), connection.cursor() as cursor:
                _run(cursor, f"ANALYZE {text.in_schema(target, stage)}")
                # A second driver of this query waits here, and then sees the number.
                if _locked_number(cursor, target, batch.query) >= batch.number:
                    return
                _write(cursor, table, target, stage, sent)
                _run(cursor, text.set_number(target), batch.number, text.writer_of(target, batch.query))
        except psycopg.errors.UniqueViolation:
            # MERGE does not see a row that another writer inserts at the same time. The next one does.
            if table.rule is None or attempt == _MERGES_MAX:
                raise
        else:
            return


def _write(cursor: Cursor[Any], table: PostgresTable, target: Target, stage: str, sent: list[Any]) -> None:
    tasks = [row.task for row in sent]
    _run(cursor, text.count_rows(target, stage, tasks))
    found, *known = cursor.fetchone() or (0,)
    if found != sum(row.rows for row in sent):
        # Behind a pool of connections a crash of the server goes unnoticed, and empties what is not logged.
        raise PipelineError(
            f"the staging table {stage} has {found} of {sum(row.rows for row in sent)} rows: PostgreSQL was restarted "
            "meanwhile, or somebody has changed it; nothing is written, and the batch is sent again by the next run"
        )
    if table.rule is None:
        _run(cursor, text.insert_rows(target, stage, tasks))
        return
    for name, count in zip(target.keys, known, strict=True):
        if count != found:
            raise PipelineError(f"a row has no {name}, which is one of the keys: filter such rows out before")
    _run(cursor, text.sort_in_memory())
    _run(cursor, text.merge_rows(target, stage, tasks))


def _prepared(connection: Connection[Any], table: PostgresTable, frame: DataFrame) -> Target:
    """The target as it is, made or widened if it must be."""
    rule = table.rule
    schema, _, name = table.table.rpartition(".")
    check_names(frame)
    stored = [one for one in frame.columns if rule is None or one not in rule.not_stored]
    kinds = {one: column_type(frame.schema[one].dataType) for one in stored}
    target = Target(schema or None, name, kinds)
    if rule is not None:
        for one in (*rule.keys, rule.sequence):
            if one not in frame.columns:
                raise PipelineError(
                    f"the rows have no column {one!r} to merge by; there are {', '.join(frame.columns)}"
                )
        target = target._replace(
            keys=rule.keys,
            sequence_type=column_type(frame.schema[rule.sequence].dataType),
            sequence_column=rule.sequence if rule.sequence in stored else None,
            deletes=rule.delete_when is not None,
        )
    with connection.transaction(), connection.cursor() as cursor:
        # Two queries that make the same table at once would be in each other's way.
        _run(cursor, "SELECT pg_advisory_xact_lock(hashtext('goqueue'))")
        _run(cursor, text.create_batches(target))
        _run(cursor, text.create_target(target))
        _run(cursor, f"SELECT * FROM {text.in_schema(target, name)} LIMIT 0")
        present = {column.name for column in cursor.description or ()}
        for one in [one for one in stored if one not in present]:
            if not table.add_columns:
                raise PipelineError(
                    f"table {table.table} has no column {one!r}: add `add_columns: true` to the sink, or select only "
                    f"{', '.join(sorted(present))}"
                )
            _run(cursor, f"ALTER TABLE {text.in_schema(target, name)} ADD COLUMN {text.quoted(one)} {kinds[one]}")
    return target


def _fresh_stage(connection: Connection[Any], target: Target, query: str) -> str:
    """A new staging table; those that killed runs of this query left are dropped."""
    prefix = text.stage_prefix(target, query)
    with connection.transaction(), connection.cursor() as cursor:
        _run(
            cursor,
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND starts_with(c.relname, %s) AND n.nspname = coalesce(%s, current_schema())",
            prefix,
            target.schema,
        )
        for (left,) in cursor.fetchall():
            _run(cursor, f"DROP TABLE {text.in_schema(target, left)}")
        stage = f"{prefix}{uuid.uuid4().hex[:12]}"
        for statement in text.create_stage(target, stage):
            _run(cursor, statement)
    return stage


def _last(connection: Connection[Any], target: Target, query: str) -> int:
    with connection.transaction(), connection.cursor() as cursor:
        _run(cursor, text.begin_number(target), text.writer_of(target, query))
        return _locked_number(cursor, target, query)


def _locked_number(cursor: Cursor[Any], target: Target, query: str) -> int:
    """The last batch of a query; whoever else asks waits until this transaction has ended."""
    _run(cursor, text.take_number(target), text.writer_of(target, query))
    found = cursor.fetchone()
    if found is None:
        raise PipelineError(f"somebody has removed the row of {text.writer_of(target, query)} from {text.BATCHES}")
    return int(found[0])


@contextmanager
def _connected(url: str) -> Iterator[Connection[Any]]:
    import psycopg

    try:
        with psycopg.connect(url, application_name="goqueue", autocommit=True) as connection:
            if connection.info.server_version < _VERSION_MIN:
                raise PipelineError(f"PostgreSQL {connection.info.server_version // 10000} has no MERGE: 15 is needed")
            yield connection
    except psycopg.Error as error:
        raise PipelineError(f"PostgreSQL: {' '.join(str(error).split())}") from None


def _run(cursor: Cursor[Any], statement: str, *values: object) -> None:
    # Names are quoted by `statements`; psycopg wants to be told that the text is not a user's.
    cursor.execute(statement.encode(), values or None)
