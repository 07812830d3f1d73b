"""PostgreSQL as a sink on real Spark: rows of every type, merges, replays, and a topic of changes as a table."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from threading import Barrier, Thread, current_thread
from typing import Any

import pytest
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.e2e.spark.postgres_server import postgres_server
from tests.e2e.spark.test_lake_merge import PIPELINE, RULE, SCHEMA, events, send

from goqueue.pipeline.declared.load import load_text
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.errors import PipelineError, told_by_spark
from goqueue.pipeline.lake.merge import MergeRule
from goqueue.pipeline.lake.table import Batch, StaleBatch
from goqueue.pipeline.postgres import statements
from goqueue.pipeline.postgres.writer import PostgresTable, write_batch


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres_server() as address:
        yield address


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def do(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def stages(url: str, table: str, *queries: str) -> list[str]:
    """The staging tables of these queries; others may have failed and left theirs."""
    found = []
    for query in queries:
        prefix = statements.stage_prefix(statements.Target(None, table, {}), query)
        found += [name for (name,) in ask(url, f"SELECT relname FROM pg_class WHERE relname LIKE '{prefix}%'")]
    return found


def test_values_of_every_type_arrive_as_they_are(spark: Any, url: str) -> None:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    schema = (
        "id INT, flag BOOLEAN, big BIGINT, share DOUBLE, price DECIMAL(10,2), text STRING, raw BINARY, day DATE, "
        "at TIMESTAMP, tags ARRAY<STRING>, place STRUCT<city: STRING, n: INT>"
    )
    rows = [
        (
            1,
            True,
            2**62,
            0.1,
            Decimal("12.34"),
            'a "quoted", text\nof \\two lines',
            bytearray(b"\x00\xff"),
            at.date(),
            at,
            ["x", 'y"'],
            ("Köln", 1),
        ),
        (2, None, None, float("inf"), None, "", bytearray(b""), None, None, [], None),
        (3, False, -1, float("nan"), Decimal("-0.01"), "\\N", None, None, None, None, None),
    ]

    write_batch(PostgresTable(url, "public.values"), spark.createDataFrame(rows, schema), Batch("q", 0))

    one, two, three = ask(url, "SELECT * FROM values ORDER BY id".replace("values", '"values"'))
    assert one[:8] == (1, True, 2**62, 0.1, Decimal("12.34"), rows[0][5], b"\x00\xff", at.date())
    assert one[8] == at
    assert one[9:] == (["x", 'y"'], {"city": "Köln", "n": 1})
    assert two[5:7] == ("", b"")
    assert (two[1], two[3], two[9]) == (None, float("inf"), [])
    assert (three[5], three[6], str(three[3])) == ("\\N", None, "nan")


def test_a_value_that_postgres_refuses_is_told_with_its_place(spark: Any, url: str) -> None:
    with pytest.raises(Exception, match="PostgreSQL") as caught:
        write_batch(
            PostgresTable(url, "texts"), spark.createDataFrame([(1, "a\0b")], "id INT, t STRING"), Batch("q", 0)
        )

    told = told_by_spark(caught.value)
    assert told.startswith('PostgreSQL: invalid byte sequence for encoding "UTF8": 0x00 CONTEXT: COPY')
    assert "Traceback" not in told


def test_a_batch_that_runs_again_is_not_written_again_and_two_queries_share_a_table(spark: Any, url: str) -> None:
    table = PostgresTable(url, "twice")
    for query, number, value in [("a", 0, 1), ("b", 0, 2), ("a", 0, 1), ("a", 1, 3), ("b", 0, 2)]:
        write_batch(table, spark.createDataFrame([(value,)], "n INT"), Batch(query, number))

    assert ask(url, "SELECT n FROM twice ORDER BY n") == [(1,), (2,), (3,)]
    assert stages(url, "twice", "a", "b") == []


def test_rows_are_inserted_updated_and_deleted_and_old_ones_lose(spark: Any, url: str) -> None:
    table = PostgresTable(url, "people", RULE)

    def put(number: int, *rows: tuple[Any, ...]) -> None:
        write_batch(table, spark.createDataFrame(rows, SCHEMA), Batch("q", number))

    put(0, (1, "ada", 1, "c"), (2, "ben", 2, "c"), (3, "cyd", 3, "c"))
    put(1, (1, "Ada", 5, "u"), (1, "ada?", 4, "u"), (2, None, 6, "d"), (4, "dan", 7, "c"), (3, "old", 2, "u"))
    put(1, (1, "twice", 9, "u"))
    # Without a sequence it is the oldest.
    put(2, (1, "when?", None, "u"))

    assert ask(url, "SELECT id, name FROM people ORDER BY id") == [(1, "Ada"), (3, "cyd"), (4, "dan")]
    with pytest.raises(PipelineError, match="a row has no id, which is one of the keys"):
        put(3, (None, "nobody", 1, "c"))
    with pytest.raises(PipelineError, match="has no column 'more': add `add_columns: true`"):
        write_batch(table, spark.createDataFrame([(5, "eve", 9, "c", 1)], f"{SCHEMA}, more INT"), Batch("q", 3))
    with pytest.raises(PipelineError, match=r"column 'a\.b' has a dot in its name: rename it"):
        write_batch(table, spark.createDataFrame([(5, "eve", 9, "c", 1)], f"{SCHEMA}, `a.b` INT"), Batch("q", 3))
    wider = table._replace(add_columns=True)
    write_batch(wider, spark.createDataFrame([(5, "eve", 9, "c", 1)], f"{SCHEMA}, more INT"), Batch("q", 3))
    assert ask(url, "SELECT more FROM people WHERE id = 5") == [(1,)]


def test_a_checkpoint_that_is_older_than_the_table_is_refused(spark: Any, url: str) -> None:
    table = PostgresTable(url, "restored")
    for number in range(3):
        write_batch(table, spark.createDataFrame([(number,)], "n INT"), Batch("q", number))

    # Planned anew, batch 1 has other messages than the one of that number that is there.
    with pytest.raises(StaleBatch, match="batch 1 of query q: the table has batch 2"):
        write_batch(table, spark.createDataFrame([(99,)], "n INT"), Batch("q", 1))

    assert ask(url, "SELECT n FROM restored ORDER BY n") == [(0,), (1,), (2,)]


@pytest.mark.parametrize("rule", [None, MergeRule(("id",), "seq", None, ())])
def test_a_batch_does_not_count_without_the_rows_that_a_crash_took_from_the_staging_table(
    spark: Any, url: str, rule: MergeRule | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "crashed_merge" if rule else "crashed"
    table, rows = PostgresTable(url, name, rule), spark.createDataFrame([(1, 1), (2, 2)], "id INT, seq INT")
    crashes = iter([True])

    def reached(step: str, _batch: int) -> None:
        if step == "postgres-copied" and next(crashes, False):
            (stage,) = stages(url, name, "q")
            # What PostgreSQL does with a table that is not logged when it starts after a crash.
            do(url, f"TRUNCATE {stage}")

    monkeypatch.setattr("goqueue.pipeline.postgres.writer.reached", reached)
    with pytest.raises(PipelineError, match="has 0 of 2 rows: PostgreSQL was restarted"):
        write_batch(table, rows, Batch("q", 0))
    write_batch(table, rows, Batch("q", 0))

    assert ask(url, f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,)]


def test_a_row_that_another_writer_inserts_at_the_same_time_is_merged_into(
    spark: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    table = PostgresTable(url, "shared", RULE)
    write_batch(table, spark.createDataFrame([(1, "ada", 1, "c")], SCHEMA), Batch("q", 0))
    other = psycopg.connect(url)

    def commit_once_somebody_waits() -> None:
        deadline = time.monotonic() + 60
        while not ask(url, "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'transactionid'"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        other.commit()

    waiting = Thread(target=commit_once_somebody_waits)

    def reached(step: str, _batch: int) -> None:
        if step == "postgres-copied":
            other.execute("INSERT INTO shared (id, name, seq) VALUES (2, 'theirs', 0)")
            waiting.start()

    monkeypatch.setattr("goqueue.pipeline.postgres.writer.reached", reached)
    with other:
        write_batch(table, spark.createDataFrame([(2, "ours", 2, "c"), (3, "cyd", 3, "c")], SCHEMA), Batch("q", 1))
        waiting.join(60)

    assert ask(url, "SELECT id, name FROM shared ORDER BY id") == [(1, "ada"), (2, "ours"), (3, "cyd")]


def test_a_topic_of_changes_becomes_a_current_table(
    spark: Any, url: str, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    source = topic(2)
    with RawClient(broker.kafka) as raw:
        raw.create_topic(f"{source}.bad", 1)
    sent, table = events(150)
    send(broker, source, sent)
    sink = f"postgres: {{url: '{url}', table: customers, mode: cdc, keys: [id]}}"
    pipeline = load_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, topic=source, sink=sink))

    run_until_stopped(pipeline, spark, folder=tmp_path)

    found = [{"id": one[0], "name": one[1], "city": one[2]} for one in ask(url, "SELECT * FROM customers ORDER BY id")]
    assert found == [table[key] for key in sorted(table)]


def test_of_two_drivers_with_the_first_batch_one_writes_it(
    spark: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, rows = PostgresTable(url, "begun_twice"), spark.createDataFrame([(1,), (2,)], "n INT")
    both_look, both_sent = Barrier(2), Barrier(2)
    create_stage, set_number = statements.create_stage, statements.set_number
    first = iter([True])
    problems: list[BaseException] = []

    def made(target: Any, stage: str) -> list[str]:
        # Neither has made its staging table when the other looks for some that were left.
        both_look.wait(60)
        return create_stage(target, stage)

    def reached(step: str, _batch: int) -> None:
        if step == "postgres-copied":
            both_sent.wait(60)

    def numbered(target: Any) -> str:
        if next(first, False):
            # The rows are in, and the number is not: the other driver comes to the same place, or waits for us.
            deadline = time.monotonic() + 60
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'goqueue' AND wait_event_type = 'Lock'"
            )
            while other_is_at_work() and not ask(url, waits)[0][0]:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        return set_number(target)

    def work() -> None:
        try:
            write_batch(table, rows, Batch("q", 0))
        except BaseException as error:  # noqa: BLE001 - told by the test
            problems.append(error)

    drivers = [Thread(target=work) for _ in range(2)]

    def other_is_at_work() -> bool:
        return any(one.is_alive() for one in drivers if one is not current_thread())

    monkeypatch.setattr(statements, "create_stage", made)
    monkeypatch.setattr(statements, "set_number", numbered)
    monkeypatch.setattr("goqueue.pipeline.postgres.writer.reached", reached)
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(120)

    assert problems == []
    assert ask(url, "SELECT n FROM begun_twice ORDER BY n") == [(1,), (2,)]
    assert stages(url, "begun_twice", "q") == []
