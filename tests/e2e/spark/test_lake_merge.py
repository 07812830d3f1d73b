"""Merging batches into lake tables on real Spark: updates, deletes, late rows, other writers, replays."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess
from tests.unit.pipeline.lake.test_lake_append import notes
from tests.unit.pipeline.lake.test_lost_answers import lose_one_answer

from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.load import load_text
from goqueue.pipeline.declared.main import run_until_stopped
from goqueue.pipeline.declared.running.maintain import maintain
from goqueue.pipeline.declared.running.state import state_at
from goqueue.pipeline.errors import PipelineError
from goqueue.pipeline.lake.append import append
from goqueue.pipeline.lake.delta import delta_table
from goqueue.pipeline.lake.iceberg import iceberg_table
from goqueue.pipeline.lake.merge import MergeRule, merge
from goqueue.pipeline.lake.table import Batch

RULE = MergeRule(("id",), "seq", "op = 'd'", ("op",))
SCHEMA = "id BIGINT, name STRING, seq BIGINT, op STRING"


def catalog_of(folder: Path) -> dict[str, str]:
    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/house"
    return {"name": "test", "type": "sql", "uri": uri, "warehouse": warehouse}


def opened(kind: str, folder: Path) -> Any:
    if kind == "delta":
        return delta_table(str(folder / "lake"))
    return iceberg_table("lake.rows", catalog_of(folder))


def rows_of(kind: str, folder: Path) -> list[dict[str, Any]]:
    if kind == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(folder / "lake")).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        found = load_catalog(**catalog_of(folder)).load_table("lake.rows").scan().to_arrow()
    rows = found.to_pylist()
    return rows if any(isinstance(row["id"], dict) for row in rows) else sorted(rows, key=lambda row: row["id"])


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_rows_are_inserted_updated_and_deleted_and_old_ones_lose(spark: Any, kind: str, tmp_path: Path) -> None:
    def put(number: int, *rows: tuple[Any, ...]) -> None:
        merge(opened(kind, tmp_path), spark.createDataFrame(rows, SCHEMA), Batch("q", number), RULE)

    put(0, (1, "ada", 1, "c"), (2, "ben", 2, "c"), (3, "cyd", 3, "c"))
    # Two changes of one key in a batch, a delete, a new row, and a row that is older than what the table has.
    put(1, (1, "Ada", 5, "u"), (1, "ada?", 4, "u"), (2, None, 6, "d"), (4, "dan", 7, "c"), (3, "old", 2, "u"))
    assert [(row["id"], row["name"]) for row in rows_of(kind, tmp_path)] == [(1, "Ada"), (3, "cyd"), (4, "dan")]

    put(1, (1, "twice", 9, "u"))
    # Deletes of what is not there, and of all that is.
    put(2, (9, None, 9, "d"))
    put(3, (1, None, 10, "d"), (3, None, 10, "d"), (4, None, 10, "d"))

    assert rows_of(kind, tmp_path) == []
    put(4, (None, "no key", 1, "c"))
    put(5, (None, "still one", 2, "c"))
    assert [row["name"] for row in rows_of(kind, tmp_path)] == ["still one"]


def test_a_row_without_a_sequence_is_older_than_the_stored_one(spark: Any, kind: str, tmp_path: Path) -> None:
    for number, row in enumerate([(1, "ada", 5, "c"), (1, "when?", None, "u"), (2, "ben", None, "c")]):
        merge(opened(kind, tmp_path), spark.createDataFrame([row], SCHEMA), Batch("q", number), RULE)

    assert [row["name"] for row in rows_of(kind, tmp_path)] == ["ada", "ben"]


PLACED = "place STRUCT<city: STRING, tags: ARRAY<STRUCT<word: STRING>>>, by_name MAP<STRING, ARRAY<DECIMAL(5,1)>>"
PLACE = ("Bonn", [("old",), None]), {"a": [Decimal("1.5")]}


@pytest.mark.parametrize(
    ("kind_of_key", "keys"),
    [
        ("BIGINT", [1, 2]),
        ("DOUBLE", [1.5, float("nan")]),
        ("STRUCT<a: INT>", [(1,), (2,)]),
        ("ARRAY<INT>", [[1], []]),
    ],
)
def test_nested_columns_and_keys_of_every_type_are_merged(
    spark: Any, kind: str, kind_of_key: str, keys: list[Any], tmp_path: Path
) -> None:
    schema = f"id {kind_of_key}, {PLACED}, seq BIGINT"
    for number, chosen in enumerate([keys, keys[1:]]):
        frame = spark.createDataFrame([(key, *PLACE, number) for key in chosen], schema)
        merge(opened(kind, tmp_path), frame, Batch("q", number), MergeRule(("id",), "seq"))

    found = {repr(row["id"]): (row["seq"], row["place"]) for row in rows_of(kind, tmp_path)}
    place = {"city": "Bonn", "tags": [{"word": "old"}, None]}
    assert sorted(found.values(), key=str) == [(0, place), (1, place)]


def test_a_column_with_a_dot_in_its_name_is_refused_before_the_table_is_changed(
    spark: Any, kind: str, tmp_path: Path
) -> None:
    merge(opened(kind, tmp_path), spark.createDataFrame([(1, "ada", 1, "c")], SCHEMA), Batch("q", 0), RULE)
    wider = spark.createDataFrame([(1, "ada", 1, "c", 7)], f"{SCHEMA}, `a.b` INT")

    with pytest.raises(PipelineError, match=r"column 'a\.b' has a dot in its name: rename it"):
        merge(opened(kind, tmp_path), wider, Batch("q", 1), RULE, add_columns=True)

    assert opened(kind, tmp_path).schema.names == ["id", "name", "seq"]


def test_only_files_that_hold_a_key_are_written_anew(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table = opened("delta", tmp_path)
    for number in range(3):
        rows = [(number * 10 + at, "x", 1) for at in range(10)]
        append(table, spark.createDataFrame(rows, "id BIGINT, name STRING, seq BIGINT").coalesce(1), Batch("a", number))
        table.refresh()
    before = set(DeltaTable(str(tmp_path / "lake")).file_uris())

    merge(
        table,
        spark.createDataFrame([(12, "y", 2)], "id BIGINT, name STRING, seq BIGINT"),
        Batch("m", 0),
        RULE._replace(delete_when=None),
    )

    after = set(DeltaTable(str(tmp_path / "lake")).file_uris())
    assert len(before - after) == 1
    assert [row["name"] for row in rows_of("delta", tmp_path)] == ["x"] * 12 + ["y"] + ["x"] * 17


def test_another_writer_in_between_forces_the_merge_to_look_again(
    spark: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(opened(kind, tmp_path), spark.createDataFrame([(1, "ada", 1, "c")], SCHEMA), Batch("q", 0), RULE)
    others = iter([(2, "from the other", 5, "c")])

    def step(name: str, _batch: int) -> None:
        for row in others if name == "lake-files" else ():
            # Its commit comes between what this merge read and its commit, with a key that both have.
            merge(opened(kind, tmp_path), spark.createDataFrame([row], SCHEMA), Batch("other", 0), RULE)

    monkeypatch.setattr("goqueue.pipeline.lake.merge.reached", step)
    rows = [(1, "Ada", 2, "u"), (2, "older than that", 3, "c")]
    merge(opened(kind, tmp_path), spark.createDataFrame(rows, SCHEMA), Batch("q", 1), RULE)

    assert [(row["id"], row["name"]) for row in rows_of(kind, tmp_path)] == [(1, "Ada"), (2, "from the other")]
    assert len(list(tmp_path.rglob("*.parquet"))) <= 4


PIPELINE = """
name: customers
broker: {broker}
checkpoint: {home}/checkpoint
trigger: available-now
dead_letters: {topic}.bad
sources:
  changes: {{topic: {topic}, max_per_batch: 40}}
steps:
  - debezium: {{schema: "id BIGINT, name STRING, city STRING"}}
sinks:
  - {sink}
"""


def events(count: int) -> tuple[list[tuple[str, str | None]], dict[int, dict[str, Any]]]:
    """Changes as Debezium sends them, with tombstones and with one that is none; and the table that they make."""
    sent: list[tuple[str, str | None]] = []
    table: dict[int, dict[str, Any]] = {}
    for number in range(count):
        key = number * 7 % 23
        old = table.get(key)
        if number % 5 == 4 and old is not None:
            sent.append((str(key), json.dumps({"before": {"id": key}, "after": None, "op": "d", "ts_ms": number})))
            sent.append((str(key), None))
            del table[key]
            continue
        row = {"id": key, "name": f"name {number}", "city": None if number % 3 else "Köln"}
        body: Mapping[str, Any] = {"before": old, "after": row, "op": "c" if old is None else "u", "ts_ms": number}
        sent.append((str(key), json.dumps({"schema": {}, "payload": body} if number % 2 else body)))
        table[key] = row
    sent.append(("x", '{"op": "t"}'))
    return sent, table


def send(broker: BrokerProcess, topic: str, sent: Sequence[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for key, value in sent:
        producer.produce(topic, key=key, value=value)
    assert producer.flush(20) == 0


def test_a_topic_of_changes_becomes_a_current_table(
    spark: Any, kind: str, broker: BrokerProcess, topic: Callable[..., str], read: Callable[..., Any], tmp_path: Path
) -> None:
    source = topic(2)
    from tests.e2e.kafka_raw import RawClient

    with RawClient(broker.kafka) as raw:
        raw.create_topic(f"{source}.bad", 1)
    sent, table = events(150)
    send(broker, source, sent)
    place = (
        f"path: {tmp_path}/lake"
        if kind == "delta"
        else f"table: lake.rows, catalog: {json.dumps(catalog_of(tmp_path))}"
    )
    sink = f"{kind}: {{{place}, mode: cdc, keys: [id]}}"
    pipeline = load_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, topic=source, sink=sink))

    run_until_stopped(pipeline, spark, folder=tmp_path)

    assert rows_of(kind, tmp_path) == [table[key] for key in sorted(table)]
    (letter,) = read(f"{source}.bad", includeHeaders="true").collect()
    assert bytes(letter.value) == b'{"op": "t"}'
    assert b"op is not c, u, r or d: t" in [bytes(one.value) for one in letter.headers]


def test_small_files_are_put_together_while_others_write_and_no_row_changes(
    spark: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goqueue.pipeline.lake.compact import compact

    schema = "id BIGINT, name STRING, seq BIGINT"

    def put(number: int, query: str = "a") -> None:
        rows = [(number * 10 + at, "x", 1) for at in range(10)]
        append(opened(kind, tmp_path), spark.createDataFrame(rows, schema).coalesce(1), Batch(query, number))

    for number in range(4):
        put(number)
    before = rows_of(kind, tmp_path)
    # Another writer appends between what is read and the commit.
    others = iter([90])

    def step(name: str, _batch: int) -> None:
        for number in others if name == "lake-files" else ():
            put(number, "other")

    monkeypatch.setattr("goqueue.pipeline.lake.compact.reached", step)

    done = compact(spark, opened(kind, tmp_path), "maintain")

    assert (done.files_before, done.files_after, done.rewritten) == (4, 2, 4)
    assert rows_of(kind, tmp_path) == before + [{"id": 900 + at, "name": "x", "seq": 1} for at in range(10)]
    # A second run has two files to put together, and a third nothing to do.
    assert compact(spark, opened(kind, tmp_path), "maintain").files_after == 1
    assert compact(spark, opened(kind, tmp_path), "maintain").rewritten == 0


def test_the_tables_of_a_pipeline_are_maintained_and_others_are_left_alone(spark: Any, tmp_path: Path) -> None:
    text = f"""
        name: upkeep
        checkpoint: {tmp_path}/checkpoint
        dead_letters: bad
        sources:
          rows: {{topic: rows}}
        sinks:
          - delta: {{name: first, path: {tmp_path}/lake}}
          - iceberg: {{name: second, table: lake.rows, catalog: {json.dumps(catalog_of(tmp_path))}}}
          - delta: {{name: unwritten, path: {tmp_path}/nothing}}
          - parquet: {{name: plain, path: {tmp_path}/plain}}
    """
    pipeline = load_text(text)
    for number in range(3):
        for kind in ("delta", "iceberg"):
            rows = spark.createDataFrame([(number, "x")], "id BIGINT, name STRING").coalesce(1)
            append(opened(kind, tmp_path), rows, Batch("q", number))

    first = maintain(pipeline, spark)
    again = maintain(pipeline, spark, keep_ms=1)

    counts = ("sink", "files_before", "files_after", "rewritten")
    assert [tuple(one[name] for name in counts) for one in first] == [
        ("first", 3, 1, 3),
        ("second", 3, 1, 3),
        ("unwritten", 0, 0, 0),
    ]
    assert [one["rewritten"] for one in again] == [0, 0, 0]
    for kind in ("delta", "iceberg"):
        assert [row["id"] for row in rows_of(kind, tmp_path)] == [0, 1, 2]
    held, refused = state_at(pipeline.checkpoint_path).held("maintain.lock"), pytest.raises(InvalidRequest)
    with held, refused as caught:
        maintain(pipeline, spark)
    assert "another maintenance of this pipeline has not ended" in str(caught.value)


def test_any_table_is_compacted_by_a_job_and_one_that_is_not_there_is_refused(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable, write_deltalake

    from goqueue.pipeline.jobs.compact_lake import compact_lake

    folder = tmp_path / "others"
    for number in range(3):
        # Written by somebody else, without a word of ours in its log.
        write_deltalake(str(folder), pa.table({"id": [number], "name": ["x"]}), mode="append")

    planned = compact_lake(None, delta_table(str(folder)), "others")
    done = compact_lake(spark, delta_table(str(folder)), "others")

    assert (planned.facts["files_before"], planned.facts["small_files"], planned.is_dry_run) == (3, 3, True)
    assert (done.facts["files_after"], done.facts["rewritten"]) == (1, 3)
    assert sorted(DeltaTable(str(folder)).to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2]
    with pytest.raises(InvalidRequest, match="there is no table nowhere"):
        compact_lake(None, delta_table(str(tmp_path / "nowhere")), "nowhere")


def files_in_use(kind: str, folder: Path) -> set[str]:
    return {Path(path).name for path in opened(kind, folder).paths()}


def test_of_two_drivers_that_merge_one_batch_the_second_leaves_no_files(
    spark: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge(opened(kind, tmp_path), spark.createDataFrame([(1, "ada", 1, "c")], SCHEMA), Batch("q", 0), RULE)
    before = {path.name for path in tmp_path.rglob("*.parquet")}
    rows = spark.createDataFrame([(1, "Ada", 2, "u"), (2, "ben", 3, "c")], SCHEMA)
    first = iter([opened(kind, tmp_path)])

    def step(name: str, _batch: int) -> None:
        for table in first if name == "lake-files" else ():
            merge(table, rows, Batch("q", 1), RULE)

    monkeypatch.setattr("goqueue.pipeline.lake.merge.reached", step)
    merge(opened(kind, tmp_path), rows, Batch("q", 1), RULE)

    assert [(row["id"], row["name"]) for row in rows_of(kind, tmp_path)] == [(1, "Ada"), (2, "ben")]
    # Those of the version before stay for whoever reads it.
    assert {path.name for path in tmp_path.rglob("*.parquet")} == before | files_in_use(kind, tmp_path)
    assert notes(tmp_path) == []


def test_a_merge_and_a_compaction_whose_answers_were_lost_are_in_the_table(
    spark: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goqueue.pipeline.lake.compact import compact

    for number in range(3):
        rows = spark.createDataFrame([(number, "x", 1)], "id BIGINT, name STRING, seq BIGINT").coalesce(1)
        append(opened(kind, tmp_path), rows, Batch("a", number))
    lose_one_answer(kind, monkeypatch)
    merge(opened(kind, tmp_path), spark.createDataFrame([(1, "y", 2, "u")], SCHEMA), Batch("q", 0), RULE)
    lose_one_answer(kind, monkeypatch)
    done = compact(spark, opened(kind, tmp_path), "maintain")

    assert (done.files_after, done.rewritten) == (1, 3)
    assert [(row["id"], row["name"]) for row in rows_of(kind, tmp_path)] == [(0, "x"), (1, "y"), (2, "x")]
    assert notes(tmp_path) == []
