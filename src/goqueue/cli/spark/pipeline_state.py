"""The commands `goqueue pipeline status|history|report`: what a pipeline does, and what it has done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, Output, fail, refuse
from goqueue.cli.spark.pipeline_file import Env, File, Set, loaded
from goqueue.errors import GoQueueError

_SINK_COLUMNS = ["sink", "active", "batch", "rows_written", "rows_per_second", "batch_ms", "lag", "restarts"]
_RULE_COLUMNS = ["sink", "step", "rule", "then", "rows", "broken", "share", "last_batch"]
_BATCH_COLUMNS = ["sink", "batch", "at", "rows_in", "rows_written", "batch_ms", "lag", "expectations"]


def status(file: File, env: Env = None, given: Set = None, output: Output = Format.table) -> None:
    """Show the status of a pipeline that runs, or last ran, and how its rules were kept."""
    from goqueue.pipeline.declared.running.pipeline_report import expectation_rows
    from goqueue.pipeline.declared.running.run_files import RunFiles

    pipeline = loaded(file, env, given)
    found = RunFiles(pipeline).read()
    if found is None:
        raise fail("the pipeline has not run in this directory yet", REFUSED)
    if output is not Format.table:
        show(found, output)
        return
    sinks = found.pop("sinks", [])
    show(found, output)
    if found["state"] == "crashed":
        typer.echo("The run was killed. Run it again: it continues from its checkpoint.", err=True)
    show(sinks, output, _SINK_COLUMNS)
    rules = [
        {"sink": sink["sink"], **row, "last_batch": sink["last_expectations"].get(row["step"], {}).get(row["rule"], 0)}
        for sink in sinks
        for row in expectation_rows(pipeline, sink.get("expectations", {}))
    ]
    if rules:
        show(rules, output, _RULE_COLUMNS)


def history(
    file: File,
    sink: Annotated[str | None, typer.Option("--sink", help="Only batches of this sink.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many of the newest batches.")] = 20,
    env: Env = None,
    given: Set = None,
    output: Output = Format.table,
) -> None:
    """Show the newest batches of all runs: rows, duration, lag, and rows that broke a rule."""
    from goqueue.pipeline.declared.running.history import History

    pipeline = loaded(file, env, given)
    rows = History(pipeline).read(sink)
    if not rows and sink is not None:
        known = {row["sink"] for row in History(pipeline).read()}
        raise fail(f"no batch of sink {sink!r} is kept: there are {', '.join(sorted(known)) or 'none'}", USAGE)
    show(rows[-limit:], output, _BATCH_COLUMNS)


def report(
    file: File,
    to: Annotated[Path, typer.Option("--to", help="Folder for report.json and report.html.")] = Path("report"),
    env: Env = None,
    given: Set = None,
) -> None:
    """Write a report of all batches that are kept, with charts and how the rules were kept."""
    from goqueue.pipeline.declared.running.history import History
    from goqueue.pipeline.declared.running.pipeline_report import pipeline_report
    from goqueue.pipeline.declared.running.run_files import RunFiles

    pipeline = loaded(file, env, given)
    made = pipeline_report(pipeline, RunFiles(pipeline).read(), History(pipeline).read())
    try:
        for written in made.write(to):
            typer.echo(f"wrote {written}")
    except GoQueueError as refused:
        raise refuse(refused) from None
