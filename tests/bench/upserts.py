"""Upserts into PostgreSQL against a bare COPY and MERGE of the same rows, prepared as text before the clock starts."""

from __future__ import annotations

from itertools import count
from statistics import median
from typing import Any

from tests.bench.measure import Bar, alternate, at_least, seconds_of, speed_ratio, told
from tests.e2e.spark.postgres_server import postgres_server

from goqueue.pipeline.lake.merge import MergeRule
from goqueue.pipeline.lake.table import Batch
from goqueue.pipeline.postgres.writer import PostgresTable, write_batch

UPSERT_RATIO_MIN = 0.5
TASKS = 2
_MERGE = """
MERGE INTO bare t USING (SELECT DISTINCT ON (id) * FROM stage ORDER BY id, version DESC) s ON t.id = s.id
WHEN MATCHED AND s.version < t.version THEN DO NOTHING
WHEN MATCHED THEN UPDATE SET version = s.version, name = s.name, note = s.note
WHEN NOT MATCHED THEN INSERT (id, version, name, note) VALUES (s.id, s.version, s.name, s.note)
"""
_numbers = count()


def bench_postgres(spark: Any, rows: int, rounds: int) -> list[Bar]:
    """Half of the rows are there already, in an older version."""
    import psycopg

    frame = spark.range(0, rows, 1, TASKS).selectExpr(
        "id", "2L AS version", "concat('customer ', id) AS name", "repeat(cast(id % 10 AS string), 80) AS note"
    )
    text = "".join(f"{one},2,customer {one},{str(one % 10) * 80}\n" for one in range(rows)).encode()
    rule = MergeRule(("id",), "version", None, ())
    with postgres_server() as url, psycopg.connect(url, autocommit=True) as connection:

        def prepare(table: str) -> None:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, version bigint, name text, note text)")
            connection.execute(
                f"INSERT INTO {table} SELECT n * 2, 1, 'old', 'old' FROM generate_series(0, {rows // 2 - 1}) n"
            )
            connection.execute(f"ANALYZE {table}")

        def check(table: str) -> None:
            found = connection.execute(f"SELECT count(*), sum(version) FROM {table}").fetchone()
            if found != (rows, rows * 2):
                raise RuntimeError(f"{table}: {rows} rows of version 2 were expected, {found} were found")

        def ours() -> float:
            prepare("ours")
            batch = Batch(f"bench-{next(_numbers)}", 0)
            seconds = seconds_of(lambda: write_batch(PostgresTable(url, "ours", rule), frame, batch))
            check("ours")
            return seconds

        def bare() -> float:
            prepare("bare")

            def work() -> None:
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.execute("CREATE TEMP TABLE stage (LIKE bare) ON COMMIT DROP")
                    with cursor.copy("COPY stage FROM STDIN (FORMAT csv)") as copy:
                        copy.write(text)
                    cursor.execute("ANALYZE stage")
                    cursor.execute(_MERGE)

            seconds = seconds_of(work)
            check("bare")
            return seconds

        ours()
        written, plain = alternate(rounds, ours, bare)
    return [
        at_least(
            "upsert into PostgreSQL, share of a bare COPY and MERGE", speed_ratio(written, plain), UPSERT_RATIO_MIN
        ),
        told("upsert into PostgreSQL, rows/s", rows / median(written), digits=0),
        told("bare COPY and MERGE, rows/s", rows / median(plain), digits=0),
    ]
