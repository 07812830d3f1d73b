"""The SQL of a batch, as text: names are quoted here and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

BATCHES = "goqueue_batches"
TASK, DELETED, SEQUENCE = "__goqueue_task", "__goqueue_deleted", "__goqueue_sequence"

# What one batch may take of the server's memory while it is sorted and joined.
_SORT_KIB = 64 * 1024


class Target(NamedTuple):
    """The table, and the columns that are written, each with the type that it gets if the table is made here."""

    schema: str | None
    name: str
    columns: Mapping[str, str]
    keys: tuple[str, ...] = ()
    # The type of the sequence; None if rows are appended.
    sequence_type: str | None = None
    # The column of the table that holds the sequence, if one does.
    sequence_column: str | None = None
    # Whether rows can tell that theirs is to be deleted.
    deletes: bool = False


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def in_schema(target: Target, name: str) -> str:
    """The full name of a table that lies beside the target."""
    return quoted(name) if target.schema is None else f"{quoted(target.schema)}.{quoted(name)}"


def stage_prefix(target: Target, query: str) -> str:
    """What the names of all staging tables of a query begin with."""
    return f"goqueue_stage_{hashlib.sha256(f'{target.schema}.{target.name}/{query}'.encode()).hexdigest()[:16]}_"


def create_batches(target: Target) -> str:
    """The table that holds the last batch of every query."""
    return (
        f"CREATE TABLE IF NOT EXISTS {in_schema(target, BATCHES)} "
        "(writer text PRIMARY KEY, batch bigint NOT NULL, at timestamptz NOT NULL DEFAULT now())"
    )


def create_target(target: Target) -> str:
    """The table itself, by the types of the rows."""
    columns = [f"{quoted(name)} {kind}" for name, kind in target.columns.items()]
    keys = ", ".join(map(quoted, target.keys))
    if keys:
        columns.append(f"PRIMARY KEY ({keys})")
    return f"CREATE TABLE IF NOT EXISTS {in_schema(target, target.name)} ({', '.join(columns)})"


def create_stage(target: Target, stage: str) -> list[str]:
    """A staging table with the types of the target: text is read as they want it."""
    columns = ", ".join(map(quoted, target.columns))
    made = (
        f"CREATE UNLOGGED TABLE {in_schema(target, stage)} AS "
        f"SELECT {columns} FROM {in_schema(target, target.name)} WITH NO DATA"
    )
    steering = [f"ADD COLUMN {quoted(TASK)} bigint"]
    if target.sequence_type is not None:
        steering.append(f"ADD COLUMN {quoted(SEQUENCE)} {target.sequence_type}")
    if target.deletes:
        steering.append(f"ADD COLUMN {quoted(DELETED)} boolean")
    return [made, f"ALTER TABLE {in_schema(target, stage)} {', '.join(steering)}"]


def copy_rows(target: Target, stage: str, columns: Sequence[str]) -> str:
    """How an executor sends rows."""
    return f"COPY {in_schema(target, stage)} ({', '.join(map(quoted, columns))}) FROM STDIN (FORMAT csv)"


def count_rows(target: Target, stage: str, tasks: Sequence[int]) -> str:
    """How many rows these tasks have staged, and how many of them have each key."""
    counts = ", ".join(["count(*)", *(f"count({quoted(name)})" for name in target.keys)])
    return f"SELECT {counts} FROM {in_schema(target, stage)} WHERE {_sent_by(tasks)}"


def insert_rows(target: Target, stage: str, tasks: Sequence[int]) -> str:
    """Staged rows of these tasks, appended."""
    columns = ", ".join(map(quoted, target.columns))
    return (
        f"INSERT INTO {in_schema(target, target.name)} ({columns}) "
        f"SELECT {columns} FROM {in_schema(target, stage)} WHERE {_sent_by(tasks)}"
    )


def merge_rows(target: Target, stage: str, tasks: Sequence[int]) -> str:
    """Staged rows of these tasks, merged: of each key the newest."""
    keys = ", ".join(map(quoted, target.keys))
    names = list(target.columns)
    source = (
        f"SELECT DISTINCT ON ({keys}) * FROM {in_schema(target, stage)} WHERE {_sent_by(tasks)} "
        f"ORDER BY {keys}, {quoted(SEQUENCE)} DESC NULLS LAST"
    )
    same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in target.keys)
    clauses = [f"MERGE INTO {in_schema(target, target.name)} t USING ({source}) s ON {same}"]
    if target.sequence_column is not None:
        new, stored = f"s.{quoted(SEQUENCE)}", f"t.{quoted(target.sequence_column)}"
        # As between two rows of a batch, one without a sequence is older than one that has one.
        is_older = f"({new} < {stored} OR ({new} IS NULL AND {stored} IS NOT NULL))"
        clauses.append(f"WHEN MATCHED AND {is_older} THEN DO NOTHING")
    if target.deletes:
        clauses.append(f"WHEN MATCHED AND s.{quoted(DELETED)} THEN DELETE")
    changed = [f"{quoted(name)} = s.{quoted(name)}" for name in names if name not in target.keys]
    if changed:
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(changed)}")
    is_there = f" AND NOT s.{quoted(DELETED)}" if target.deletes else ""
    clauses.append(
        f"WHEN NOT MATCHED{is_there} THEN INSERT ({', '.join(map(quoted, names))}) "
        f"VALUES ({', '.join(f's.{quoted(name)}' for name in names)})"
    )
    return " ".join(clauses)


def _sent_by(tasks: Sequence[int]) -> str:
    # As literals: with parameters, a percent sign in a name would count as one.
    return f"{quoted(TASK)} = ANY('{{{','.join(map(str, tasks))}}}')"


def sort_in_memory() -> str:
    """Let this transaction sort a batch of usual size without files, unless the server allows more anyway."""
    return (
        f"SELECT set_config('work_mem', '{_SORT_KIB}kB', true) "
        f"WHERE pg_size_bytes(current_setting('work_mem')) < {_SORT_KIB * 1024}"
    )


def writer_of(target: Target, query: str) -> str:
    """Under which name a query's batches of this table are remembered."""
    return f"{target.name}/{query}"


def begin_number(target: Target) -> str:
    """Make the row of a query that has written nothing: what is not there cannot be locked."""
    return f"INSERT INTO {in_schema(target, BATCHES)} (writer, batch) VALUES (%s, -1) ON CONFLICT (writer) DO NOTHING"


def take_number(target: Target) -> str:
    """The last batch of a query, locked until the transaction ends."""
    return f"SELECT batch FROM {in_schema(target, BATCHES)} WHERE writer = %s FOR UPDATE"


def set_number(target: Target) -> str:
    """Remember a batch of a query, whose row is locked."""
    return f"UPDATE {in_schema(target, BATCHES)} SET batch = %s, at = now() WHERE writer = %s"
