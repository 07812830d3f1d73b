"""What `goqueue pipeline` and `goqueue jobs` refuse before Spark starts: one line each, and an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.process import BrokerProcess
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.pipeline.examples import example_text

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

NOBODY = "127.0.0.1:1"


def refused(*words: object) -> tuple[int, list[str]]:
    """The exit code and what was said."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output.splitlines()


def pipeline(folder: Path, broker: str) -> Path:
    file = folder / "orders.yaml"
    file.write_text(example_text("orders").replace("127.0.0.1:9092", broker))
    return file


def test_a_pipeline_without_its_topics_names_all_of_them(broker: BrokerProcess, tmp_path: Path) -> None:
    code, lines = refused("pipeline", "run", pipeline(tmp_path, broker.kafka))

    assert code == 2
    assert [line.split(":")[0] for line in lines] == [
        "  - sources.orders.topic",
        "  - sinks.clean_orders.topic",
        "  - sinks.big_orders.topic",
        "  - dead_letters",
        "error",
    ]
    assert lines[0].endswith(f"there is no topic 'orders' at {broker.kafka} (goqueue topic create orders)")


@pytest.mark.parametrize(
    "command",
    [
        ["jobs", "audit", "orders", "--broker", NOBODY],
        ["jobs", "dlq-report", "orders.dlq", "--broker", NOBODY],
        ["jobs", "export", "orders", "--broker", NOBODY, "--to", "/nowhere/out"],
        ["jobs", "replay", "a", "b", "--broker", NOBODY, "--from", "2026-01-01", "--to", "2026-01-02"],
        ["jobs", "import", __file__, "orders", "--broker", NOBODY],
    ],
)
def test_without_a_broker_a_job_ends_with_three(command: list[str]) -> None:
    code, lines = refused(*command)

    assert code == 3
    assert lines[0].startswith(f"error: no answer from {NOBODY}: Connection refused")


def test_without_a_broker_a_pipeline_ends_with_three(tmp_path: Path) -> None:
    code, lines = refused("pipeline", "run", pipeline(tmp_path, NOBODY))

    assert (code, lines[0]) == (3, f"error: no answer from {NOBODY}: Connection refused")


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["import", "/nowhere.csv", "t"], 1, "there is nothing at /nowhere.csv"),
        (
            ["import", "/nowhere.csv", "t", "--format", "xml"],
            2,
            "--format: there is no 'xml': there are csv, json, parquet",
        ),
        (["verify", "--from", "/nowhere"], 1, "there is no backup in /nowhere"),
        (["restore", "--from", "/nowhere", "--data-dir", "/nowhere/data"], 1, "there is no backup in /nowhere"),
        (["backup", "--data-dir", "/nowhere", "--to", "/nowhere"], 1, "/nowhere is not the data directory of a broker"),
        (
            ["replay", "a", "b", "--from", "2026-01-02", "--to", "2026-01-01"],
            2,
            "--to '2026-01-01' is not after --from",
        ),
        (["replay", "a", "b", "--from", "soon", "--to", "later"], 2, "--from 'soon' is not a time: write 2026-01-31"),
        (["replay", "a", "b", "--from", "1", "--to", "2", "--speed", "fast"], 2, "--speed: 'fast' is not a speed"),
        (["export", "a", "--to", "/proc"], 1, "/proc is not empty: export to a new folder"),
    ],
)
def test_a_mistake_is_one_line(command: list[str], code: int, told: str) -> None:
    ended, lines = refused("jobs", *command)

    assert (ended, len(lines)) == (code, 1), lines
    assert told in lines[0]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        (["compact-lake"], 2, "say either --delta or --iceberg"),
        (["compact-lake", "--delta", "/nowhere"], 1, "there is no table /nowhere"),
        (["compact-lake", "--delta", "foo://a/b"], 1, "foo://a/b cannot be used here: foo:// is not supported"),
        (["reconcile", "a", "--delta", "foo://a/b"], 1, "foo://a/b cannot be used here: foo:// is not supported"),
        (["reconcile", "a", "--delta", "/nowhere"], 1, "the table does not exist"),
        (
            ["compact-lake", "--iceberg", "x.y", "--catalog", "uri=sqlite:////nowhere/x.db"],
            1,
            "the Iceberg catalog cannot be opened: (sqlite3.OperationalError) unable to open",
        ),
        (["reconcile", "a", "--iceberg", "x.y", "--catalog", "type=sql"], 1, "the Iceberg catalog cannot be opened"),
    ],
)
def test_a_lake_table_that_cannot_be_opened_is_refused_before_spark_starts(
    command: list[str], code: int, told: str
) -> None:
    ended, lines = refused("jobs", *command)

    assert ended == code
    assert told in lines[0]


def test_a_topic_that_is_not_there_is_named(broker: BrokerProcess) -> None:
    code, lines = refused("jobs", "audit", "nowhere", "--broker", broker.kafka)

    assert code == 1
    assert "nowhere" in lines[0]
