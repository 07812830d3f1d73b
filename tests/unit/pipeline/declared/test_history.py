"""What is kept of batches, and what is told of it: history, report and metrics, with counts per rule."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from goqueue.cli.main import app
from goqueue.errors import InvalidRequest
from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.load import load_file
from goqueue.pipeline.declared.running.history import History
from goqueue.pipeline.declared.running.metrics import served
from goqueue.pipeline.declared.running.pipeline_report import pipeline_report
from goqueue.pipeline.declared.running.progress import QueryProgress, progress_of
from goqueue.pipeline.declared.running.run_files import RunFiles

FILE = """
name: orders
checkpoint: {home}/state
dead_letters: bad
sources:
  orders: {{topic: orders}}
steps:
  - parse: {{schema: "id BIGINT, amount DOUBLE"}}
  - expect:
      name: checked
      rules:
        small: "amount < 100"
        has_id: {{check: "id IS NOT NULL", then: quarantine}}
sinks:
  - console: {{name: shown}}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "orders.yaml").write_text(FILE.format(home=tmp_path))
    return load_file(tmp_path / "orders.yaml")


def told(number: int, rows: int, small: int | None, has_id: int | None) -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": rows,
        "processedRowsPerSecond": 10.0,
        "durationMs": {"triggerExecution": 100 + number},
        "timestamp": f"2026-01-01T10:00:0{number}.000Z",
        "observedMetrics": {
            "written": {"rows": rows},
            "expect checked": {"rows": rows, "small": small, "has_id": has_id},
        },
        "sources": [],
        "eventTime": {"watermark": "2026-01-01T09:59:00.000Z"},
    }


def progress(*batches: Mapping[str, Any]) -> QueryProgress:
    query: Any = SimpleNamespace(recentProgress=batches)
    return progress_of(query, QueryProgress())


def test_every_batch_is_kept_with_its_counts_and_a_batch_that_ran_again_once(pipeline: Pipeline) -> None:
    History(pipeline).note("shown", progress(told(0, 10, 1, 0), told(1, 5, 0, 2)).fresh)
    # The run was killed behind its second batch, which the next run does again.
    History(pipeline).note("shown", progress(told(1, 5, 0, 3), told(2, 0, None, None)).fresh)

    rows = History(pipeline).read("shown")

    assert [(row["batch"], row["expectations"]["checked"]) for row in rows] == [
        (0, {"rows": 10, "small": 1, "has_id": 0}),
        (1, {"rows": 5, "small": 0, "has_id": 3}),
        (2, {"rows": 0, "small": 0, "has_id": 0}),
    ]
    assert History(pipeline).read("other") == []


def test_the_newest_batches_stay_when_a_file_is_full(pipeline: Pipeline) -> None:
    history = History(pipeline, bytes_max=2000)
    for number in range(60):
        history.note("shown", progress({**told(0, 1, 0, 0), "batchId": number}).fresh)

    kept = [row["batch"] for row in history.read()]

    assert kept == list(range(kept[0], 60))
    assert 8 <= len(kept) <= 20


def test_a_report_counts_per_rule_and_names_the_worst_batch(pipeline: Pipeline) -> None:
    history = History(pipeline)
    history.note("shown", progress(told(0, 10, 1, 0), told(1, 5, 0, 2)).fresh)

    report = pipeline_report(pipeline, {"state": "failed", "error": "it broke"}, history.read())

    assert report.facts["batches"] == 2
    assert report.problems == ["it broke"]
    rule = {"sink": "shown", "step": "checked"}
    assert report.tables["Expectations"] == [
        {**rule, "rule": "small", "then": "warn", "rows": 15, "broken": 1, "share": 0.0667}
        | {"worst batch": 0, "share in it": 0.1},
        {**rule, "rule": "has_id", "then": "quarantine", "rows": 15, "broken": 2, "share": 0.1333}
        | {"worst batch": 1, "share in it": 0.4},
    ]
    assert "shown: rows that broke has_id of checked, by batch" in [chart.title for chart in report.charts]
    assert "<svg" in report.html()


def status_of(found: QueryProgress) -> list[dict[str, Any]]:
    return [{"sink": "shown", "active": True, **found.as_dict(), "restarts": 2, "last_error": None}]


def test_the_commands_show_rules_in_status_history_and_report(pipeline: Pipeline, tmp_path: Path) -> None:
    found = progress(told(0, 10, 1, 0), told(1, 5, 0, 2))
    History(pipeline).note("shown", found.fresh)
    RunFiles(pipeline).write({"name": "orders", "state": "stopped", "sinks": status_of(found)})
    file = str(tmp_path / "orders.yaml")

    def shown(*words: str) -> str:
        done = CliRunner().invoke(app, ["pipeline", *words])
        assert done.exit_code == 0, done.output
        return done.output

    rules = [line.split() for line in shown("status", file).splitlines() if "checked" in line]
    assert rules == [
        ["shown", "checked", "small", "warn", "15", "1", "0.0667", "0"],
        ["shown", "checked", "has_id", "quarantine", "15", "2", "0.1333", "2"],
    ]
    kept = json.loads(shown("history", file, "--limit", "1", "-o", "json"))
    assert [(row["batch"], row["expectations"]["checked"]["has_id"]) for row in kept] == [(1, 2)]
    shown("report", file, "--to", str(tmp_path / "report"))
    assert json.loads((tmp_path / "report" / "report.json").read_text())["tables"]["Expectations"][1]["broken"] == 2


def test_metrics_are_those_of_the_status(pipeline: Pipeline) -> None:
    found = status_of(progress(told(0, 10, 1, 0), told(1, 5, 0, 2)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with served(pipeline, lambda: found, address):
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        with pytest.raises(InvalidRequest, match=f"--metrics {address}"), served(pipeline, lambda: found, address):
            pass

    sink = 'pipeline="orders",sink="shown"'
    for line in (
        f"goqueue_pipeline_rows_written_total{{{sink}}} 15.0",
        f"goqueue_pipeline_restarts_total{{{sink}}} 2.0",
        f'goqueue_pipeline_expectation_rows_total{{{sink},step="checked"}} 15.0',
        f'goqueue_pipeline_expectation_broken_total{{{sink},step="checked",rule="has_id",then="quarantine"}} 2.0',
        f"goqueue_pipeline_watermark_seconds{{{sink}}} 1.76726154e+09",
    ):
        label, _, value = line.rpartition(" ")
        assert any(_same(one, label, float(value)) for one in text.splitlines()), (line, text)


def _same(line: str, label: str, value: float) -> bool:
    name, _, rest = label.partition("{")
    if not line.startswith(f"{name}{{"):
        return False
    wanted = set(rest.rstrip("}").split(","))
    given = set(line.partition("{")[2].rpartition("}")[0].split(","))
    return wanted == given and float(line.rpartition(" ")[2]) == value
