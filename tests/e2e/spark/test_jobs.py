"""Bulk jobs on real data: export, import, replay, audit and the report on dead letters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from tests.e2e.process import BrokerProcess

from goqueue.errors import InvalidRequest
from goqueue.pipeline.errors import SparkFailed, spark_in_one_line
from goqueue.pipeline.jobs.audit import audit
from goqueue.pipeline.jobs.dead_letters import dlq_report
from goqueue.pipeline.jobs.export import LakeFormat, export
from goqueue.pipeline.jobs.import_files import FileFormat, import_files
from goqueue.pipeline.jobs.replay import replay
from goqueue.pipeline.jobs.tasks import run_tasks

Read = Callable[..., Any]
DAY_MS = 86_400_000
START_MS = 1_767_225_600_000  # 2026-01-01


def silent(_done: int, _total: int) -> None:
    """No progress bar in a test."""


@pytest.fixture
def filled(broker: BrokerProcess, topic: Callable[..., str]) -> str:
    """Two partitions, two days, 100 messages; key 0 is the most frequent."""
    name = topic(2, **{"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": broker.kafka, "enable.idempotence": True})
    for number in range(100):
        producer.produce(
            name,
            key=str(number % 7 and number % 5),
            value=f"value {number}",
            partition=number % 2,
            timestamp=START_MS + (number // 50) * DAY_MS + number * 1000,
        )
    assert producer.flush(20) == 0
    return name


def options(broker: BrokerProcess) -> dict[str, str]:
    return {"kafka.bootstrap.servers": broker.kafka}


def places(rows: list[Any]) -> list[tuple[int, int, bytes]]:
    return sorted((row.partition, row.offset, bytes(row.value)) for row in rows)


def test_progress_is_that_of_this_run_and_results_come_in_the_order_of_the_pieces(spark: Any) -> None:
    """The work takes so long that somebody looks at it meanwhile."""

    def work(number: int) -> int:
        import time

        time.sleep(0.1)
        return number * 2

    def run(shown: list[tuple[int, int]]) -> list[int]:
        return run_tasks(spark, "doubling", work, list(range(8)), lambda *one: shown.append(one), size=lambda _: 1)

    for _ in range(2):
        shown: list[tuple[int, int]] = []
        assert run(shown) == list(range(0, 16, 2))
        assert shown[0] == (0, 4)
        assert shown[-1] == (4, 4)
        assert [done for done, _ in shown] == sorted(done for done, _ in shown)


def test_a_task_is_told_of_each_piece_before_it_comes_to_it(spark: Any, tmp_path: Path) -> None:
    def announce(number: int) -> None:
        (tmp_path / str(number)).touch()

    def work(number: int) -> bool:
        return (tmp_path / str(number)).exists()

    told = run_tasks(spark, "telling", work, list(range(8)), silent, size=lambda _: 1, announce=announce)

    assert told == [False] * 4 + [True] * 4


@pytest.mark.parametrize("lake", list(LakeFormat))
def test_an_export_has_every_message_with_its_place_by_day(
    spark: Any, broker: BrokerProcess, read: Read, filled: str, tmp_path: Path, lake: LakeFormat
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}

    report = export(
        spark, {**options(broker), "subscribe": filled}, tmp_path / "out", lake=lake, catalog=catalog, show=silent
    )

    assert report.facts["rows"] == 100
    found = []
    for file in report.tables["Files"]:
        partition = int(file["path"].split("/")[1].removeprefix("partition="))
        rows = pq.ParquetFile(tmp_path / "out" / file["path"]).read().to_pylist()
        found += [(partition, row["offset"], row["value"]) for row in rows]
    assert sorted(found) == places(read(filled).collect())
    assert {file["path"].split("/")[2] for file in report.tables["Files"]} == {"day=2026-01-01", "day=2026-01-02"}
    assert [path.name for path in tmp_path.glob("out*")] == ["out"]
    with pytest.raises(InvalidRequest, match="not empty: export to a new folder"):
        export(spark, {**options(broker), "subscribe": filled}, tmp_path / "out", catalog=catalog, show=silent)
    if lake is LakeFormat.DELTA:
        from deltalake import DeltaTable

        assert DeltaTable(str(tmp_path / "out")).to_pyarrow_table().num_rows == 100
    if lake is LakeFormat.ICEBERG:
        from pyiceberg.catalog import load_catalog

        assert load_catalog(**catalog).load_table("goqueue.export").scan().to_arrow().num_rows == 100


def test_an_export_is_planned_without_spark(broker: BrokerProcess, filled: str, tmp_path: Path) -> None:
    report = export(None, {**options(broker), "subscribe": filled}, tmp_path / "out", show=silent)

    assert report.is_dry_run
    assert [row["to"] for row in report.tables["Ranges"]] == [50, 50]
    assert not (tmp_path / "out").exists()


def test_an_import_keeps_the_order_of_each_key(
    spark: Any, broker: BrokerProcess, read: Read, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(3)
    lines = [json.dumps({"user": f"u{number % 5}", "n": number}) for number in range(200)]
    (tmp_path / "rows.json").write_text("\n".join(lines))

    report = import_files(
        spark,
        str(tmp_path / "rows.json"),
        FileFormat.JSON,
        options(broker),
        name,
        key="user",
        schema="user STRING, n INT",
    )

    assert report.facts["rows"] == 200
    by_key: dict[bytes, list[int]] = {}
    for row in sorted(read(name).collect(), key=lambda one: (one.partition, one.offset)):
        by_key.setdefault(bytes(row.key), []).append(json.loads(bytes(row.value))["n"])
    assert sum(map(len, by_key.values())) == 200
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_an_import_of_nothing_is_refused_in_words(spark: Any, broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is nothing"):
        import_files(spark, str(tmp_path / "none.csv"), FileFormat.CSV, options(broker), "t")


@pytest.mark.parametrize("schema", [None, "id STRING, town STRING"])
def test_an_import_of_csv_files_with_columns_in_another_order_is_refused(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path, schema: str | None
) -> None:
    (tmp_path / "1.csv").write_text("id,town\n1,Bonn\n")
    (tmp_path / "2.csv").write_text("town,id\nKiel,2\n")

    with pytest.raises(SparkFailed, match=r"[12]\.csv: CSV header does not conform to the schema"), spark_in_one_line():
        import_files(spark, str(tmp_path), FileFormat.CSV, options(broker), topic(1), schema=schema)


@pytest.mark.parametrize(("speed", "slices"), [(None, 1), (10.0, 3)])
def test_a_replay_sends_a_range_of_time_in_its_old_order(
    spark: Any,
    broker: BrokerProcess,
    read: Read,
    filled: str,
    topic: Callable[..., str],
    speed: float | None,
    slices: int,
) -> None:
    shown: list[tuple[int, int]] = []
    target = topic(2, **{"retention.ms": "-1"})

    report = replay(
        spark,
        options(broker),
        filled,
        target,
        from_ms=START_MS + 90_000,
        to_ms=START_MS + DAY_MS + 96_000,
        speed=speed,
        show=lambda done, total: shown.append((done, total)),
        sleep=lambda _seconds: None,
    )

    assert report.facts["messages"] == 46
    assert shown[-1] == (slices, slices)
    sent = sorted(read(target).collect(), key=lambda row: (row.partition, row.offset))
    old = sorted(read(filled).collect(), key=lambda row: (row.partition, row.offset))
    wanted = [row for row in old if 50 <= int(bytes(row.value).split()[1]) < 96]
    assert [(row.partition, bytes(row.value)) for row in sent] == [(row.partition, bytes(row.value)) for row in wanted]


def test_an_audit_finds_nothing_wrong_with_a_sound_topic_and_shows_its_shape(
    spark: Any, broker: BrokerProcess, filled: str, tmp_path: Path
) -> None:
    report = audit(spark, options(broker), filled)

    assert report.problems == []
    assert report.facts["messages"] == 100
    assert report.facts["offset_gaps"] == report.facts["duplicate_batches"] == 0
    assert report.tables["Most frequent keys"][0]["key"] == "0"
    page = report.html()
    assert page.count("<svg") == 3
    assert [path.name for path in report.write(tmp_path)] == ["report.json", "report.html"]


def test_dead_letters_are_grouped_by_their_reason(spark: Any, broker: BrokerProcess, topic: Callable[..., str]) -> None:
    name = topic()
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(6):
        reason = b"timeout" if number % 3 else b"bad address"
        producer.produce(name, value=f"letter {number}", headers=[("goqueue-dlq-reason", reason)])
    assert producer.flush(20) == 0

    report = dlq_report(spark, options(broker), name)

    assert [(row["reason"], row["messages"]) for row in report.tables["Reasons"]] == [
        ("timeout", 4),
        ("bad address", 2),
    ]
    assert report.tables["Reasons"][1]["example"] == "letter 3"
