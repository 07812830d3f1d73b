"""What a pipeline has done, as a report: batches, rows, lag, and how its rules were kept, out of its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goqueue.pipeline.declared.form.spec import Pipeline
from goqueue.pipeline.declared.form.steps import ROWS, Expect
from goqueue.pipeline.jobs.charts import Chart
from goqueue.pipeline.jobs.report import Report

_BATCHES_SHOWN = 100


def expectation_rows(pipeline: Pipeline, counts: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """One row per rule: what becomes of rows that break it, how many were looked at, and how many broke it."""
    found = []
    for name, of_step in counts.items():
        step = pipeline.steps.get(name)
        rules = step.rules_by_name() if isinstance(step, Expect) else {}
        rows = of_step.get(ROWS, 0)
        for rule, broken in of_step.items():
            if rule != ROWS:
                then = rules[rule].then if rule in rules else ""
                share = round(broken / rows, 4) if rows else 0.0
                found.append({"step": name, "rule": rule, "then": then, "rows": rows, "broken": broken, "share": share})
    return found


def pipeline_report(
    pipeline: Pipeline, status: Mapping[str, Any] | None, history: Sequence[Mapping[str, Any]]
) -> Report:
    """The report, of all batches that the history has."""
    report = Report(f"pipeline {pipeline.name}")
    report.facts["state"] = "has not run" if status is None else status["state"]
    if status is not None and status.get("error"):
        report.problems.append(str(status["error"]))
    report.facts["batches"] = len(history)
    if history:
        report.facts["from"], report.facts["to"] = history[0]["at"], history[-1]["at"]
    by_sink: dict[str, list[Mapping[str, Any]]] = {}
    for row in history:
        by_sink.setdefault(row["sink"], []).append(row)
    report.tables["Sinks"] = [_of_sink(name, rows) for name, rows in by_sink.items()]
    report.tables["Expectations"] = [row for name, rows in by_sink.items() for row in _rules(pipeline, name, rows)]
    for name, rows in by_sink.items():
        report.charts += _charts(name, rows[-_BATCHES_SHOWN:])
    return report


def _of_sink(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = sorted(row["batch_ms"] for row in rows)
    return {
        "sink": name,
        "batches": len(rows),
        "rows in": sum(row["rows_in"] for row in rows),
        "rows written": sum(row["rows_written"] for row in rows),
        "batch ms, middle": times[len(times) // 2],
        "batch ms, longest": times[-1],
        "lag now": sum(rows[-1]["lag"].values()),
        "last batch": rows[-1]["at"],
    }


def _rules(pipeline: Pipeline, sink: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    total: dict[str, dict[str, int]] = {}
    worst: dict[tuple[str, str], tuple[float, int]] = {}
    for row in rows:
        for step, counts in row["expectations"].items():
            seen = counts.get(ROWS, 0)
            for rule, count in counts.items():
                into = total.setdefault(step, {})
                into[rule] = into.get(rule, 0) + count
                share = count / seen if seen else 0.0
                worst[step, rule] = max(worst.get((step, rule), (-1.0, 0)), (share, row["batch"]))
    for one in expectation_rows(pipeline, total):
        share, batch = worst[one["step"], one["rule"]]
        yield {"sink": sink, **one, "worst batch": batch, "share in it": round(share, 4)}


def _charts(sink: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[Chart]:
    labels = [str(row["batch"]) for row in rows]
    yield Chart(f"{sink}: rows written by batch", labels, [row["rows_written"] for row in rows], kind="line")
    yield Chart(f"{sink}: duration by batch", labels, [row["batch_ms"] for row in rows], kind="line", unit="ms")
    yield Chart(f"{sink}: lag by batch", labels, [sum(row["lag"].values()) for row in rows], kind="line")
    rules = sorted(
        {
            (step, rule)
            for row in rows
            for step, counts in row["expectations"].items()
            for rule in counts
            if rule != ROWS
        }
    )
    for step, rule in rules:
        counts = [row["expectations"].get(step, {}).get(rule, 0) for row in rows]
        yield Chart(f"{sink}: rows that broke {rule} of {step}, by batch", labels, counts)
