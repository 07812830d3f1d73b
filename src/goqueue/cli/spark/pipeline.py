"""The commands `goqueue pipeline init|validate|graph|schema|test|run|maintain|backfill|stop`."""

from __future__ import annotations

import json
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, Output, fail, refuse
from goqueue.cli.spark.pipeline_file import Env, File, Set, given_values, loaded, refused_file
from goqueue.cli.spark.pipeline_state import history, report, status
from goqueue.cli.times import duration, time_ms
from goqueue.errors import ConfigError, GoQueueError

if TYPE_CHECKING:
    from goqueue.pipeline.declared.form.spec import Pipeline

app = typer.Typer(help="Declare, check, test and run pipelines on Spark.", no_args_is_help=True)

Master = Annotated[
    str, typer.Option("--master", help="Where Spark runs: local[*], spark://..., yarn, k8s://..., sc://... (Connect).")
]
_POLL_S = 0.5


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="File to write.")] = Path("pipeline.yaml"),
    example: Annotated[str, typer.Option("--example", help="orders, clicks or lake.")] = "orders",
    force: Annotated[bool, typer.Option("--force", "-f", help="Overwrite the file.")] = False,
) -> None:
    """Write an example pipeline."""
    from goqueue.pipeline.examples import EXAMPLES, example_text

    if example not in EXAMPLES:
        raise fail(f"there is no example {example!r}: there are {', '.join(EXAMPLES)}", USAGE)
    if file.exists() and not force:
        raise fail(f"{file} exists already. Use --force to overwrite it.", USAGE)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(example_text(example), encoding="utf-8")
    typer.echo(f"wrote {file}\nnext: goqueue pipeline validate {file}; goqueue pipeline test {file}")


@app.command()
def generate(
    example: Annotated[str, typer.Argument(help="orders, clicks or lake.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many messages.")] = 1000,
    bad: Annotated[float, typer.Option("--bad", min=0, max=1, help="Share of messages that cannot be read.")] = 0.02,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same messages.")] = 1,
) -> None:
    """Print messages for an example, as `goqueue produce TOPIC -f -` takes them."""
    from goqueue.pipeline.examples import EXAMPLES
    from goqueue.pipeline.examples.generate import generate as rows

    if example not in EXAMPLES:
        raise fail(f"there is no example {example!r}: there are {', '.join(EXAMPLES)}", USAGE)
    for row in rows(example, count, bad_share=bad, seed=seed):
        typer.echo(json.dumps(row))


@app.command()
def validate(
    file: File,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the registry for subjects.")] = False,
    env: Env = None,
    given: Set = None,
    output: Output = Format.table,
) -> None:
    """Check a pipeline file, without Spark; only the registry is asked, for the subjects that the file names."""
    from goqueue.pipeline.declared.checks.subjects import registry_problems
    from goqueue.pipeline.declared.form.problems import PipelineInvalid
    from goqueue.pipeline.declared.load import load_file

    try:
        asked = None if offline else registry_problems
        pipeline = load_file(file, environment=env, given=given_values(given), last=asked)
    except PipelineInvalid as invalid:
        if output is Format.table:
            raise refused_file(invalid) from None
        problems = [
            {"path": one.path, "line": one.line, "message": one.message, "hint": one.hint} for one in invalid.found
        ]
        show({"valid": False, "problems": problems}, output)
        raise typer.Exit(USAGE) from None
    counts = {"sources": len(pipeline.sources), "steps": len(pipeline.steps), "sinks": len(pipeline.sinks)}
    show({"valid": True, "name": pipeline.name, **counts, "tests": len(pipeline.tests)}, output)


@app.command()
def graph(
    file: File,
    to: Annotated[Path | None, typer.Option("--to", help="SVG file to write. [default: standard output]")] = None,
    env: Env = None,
    given: Set = None,
) -> None:
    """Draw a pipeline as SVG."""
    from goqueue.pipeline.declared.pictures.graph import draw
    from goqueue.pipeline.paths import local_path

    svg = draw(loaded(file, env, given))
    try:
        to = None if to is None else local_path(to, "--to")
    except GoQueueError as refused:
        raise refuse(refused) from None
    if to is None:
        typer.echo(svg)
        return
    to.write_text(svg, encoding="utf-8")
    typer.echo(f"wrote {to}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    from goqueue.pipeline.declared.form.schema import file_schema

    typer.echo(json.dumps(file_schema(), indent=2))


@app.command("test")
def run_tests(file: File, env: Env = None, given: Set = None, output: Output = Format.table) -> None:
    """Run the pipeline's own tests: given rows in, expected rows out."""
    pipeline = loaded(file, env, given, asks=True)
    if not pipeline.tests:
        raise fail(f"{file} has no tests: add a list `tests:` with name, given and expect", USAGE)
    from goqueue.pipeline import session
    from goqueue.pipeline.declared.testing.cases import run_cases
    from goqueue.pipeline.errors import spark_in_one_line

    try:
        with spark_in_one_line(), session(f"{pipeline.name} test", config=pipeline.settings) as spark:
            outcomes = run_cases(pipeline, spark, folder=file.resolve().parent)
    except GoQueueError as failed:
        raise refuse(failed) from None
    rows = [{"test": one.case, "passed": one.passed, "differences": list(one.differences)} for one in outcomes]
    show(rows, output, ["test", "passed", "differences"])
    if not all(one.passed for one in outcomes):
        raise typer.Exit(REFUSED)


@app.command()
def run(
    file: File,
    master: Master = "local[*]",
    print_submit: Annotated[bool, typer.Option("--print-submit", help="Print the spark-submit command.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No live table.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", envvar="GOQUEUE_PIPELINE_METRICS", help="Serve Prometheus metrics at HOST:PORT."),
    ] = None,
    env: Env = None,
    given: Set = None,
) -> None:
    """Run a pipeline until it is stopped (ctrl-C, `goqueue pipeline stop`), or has read all with available-now."""
    if print_submit:
        typer.echo(_submit_line(loaded(file, env, given), file, master, env, given_values(given)))
        return
    pipeline = loaded(file, env, given, asks=True)
    from goqueue.cli.spark.pipeline_table import Watch
    from goqueue.pipeline import session
    from goqueue.pipeline.declared.main import run_until_stopped
    from goqueue.pipeline.declared.running.run_files import RunFiles
    from goqueue.pipeline.errors import spark_in_one_line

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        RunFiles(pipeline).refuse_second()
        _check_topics(pipeline)
        with (
            spark_in_one_line(),
            session(pipeline.name, master=master, config=pipeline.settings) as spark,
            Watch(quiet=quiet) as watch,
        ):
            run_until_stopped(pipeline, spark, folder=file.resolve().parent, watch=watch.show, metrics=metrics)
    except ConfigError as invalid:
        raise refused_file(invalid) from None
    except GoQueueError as failed:
        raise refuse(failed) from None


@app.command()
def maintain(
    file: File,
    small: Annotated[int, typer.Option("--small-mb", min=1, help="Compact files below this size.")] = 32,
    keep: Annotated[
        int | None, typer.Option("--keep-hours", min=1, help="Also remove versions that are older than this.")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", help="Do it again after this time, until ctrl-C, as in 1h.", callback=duration),
    ] = None,
    master: Master = "local[*]",
    env: Env = None,
    given: Set = None,
    output: Output = Format.table,
) -> None:
    """Compact the Delta and Iceberg tables of a pipeline, once or on a schedule; the pipeline may run meanwhile."""
    pipeline = loaded(file, env, given)
    from goqueue.pipeline import session
    from goqueue.pipeline.declared.running.maintain import maintain as work
    from goqueue.pipeline.errors import spark_in_one_line

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            spark_in_one_line(),
            session(f"{pipeline.name} maintain", master=master, config=pipeline.settings) as spark,
        ):
            while True:
                keep_ms = None if keep is None else keep * 3_600_000
                rows = work(pipeline, spark, small_bytes=small * 2**20, keep_ms=keep_ms)
                show(rows, output, ["sink", "files_before", "files_after", "rewritten", "expired"])
                if every is None:
                    return
                time.sleep(int(every.removesuffix("ms")) / 1000)
    except KeyboardInterrupt:
        return
    except GoQueueError as failed:
        raise refuse(failed) from None


@app.command()
def backfill(
    file: File,
    since: Annotated[str, typer.Option("--from", help="Start time (RFC 3339).")],
    until: Annotated[str, typer.Option("--to", help="End time, exclusive (RFC 3339).")],
    sinks: Annotated[
        list[str] | None, typer.Option("--sink", help="Only this sink; several times. [default: all]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    master: Master = "local[*]",
    env: Env = None,
    given: Set = None,
    output: Output = Format.table,
) -> None:
    """Write messages from before the pipeline's start to its sinks, each once; the pipeline may run meanwhile."""
    from_ms, to_ms = time_ms(since, "--from") or 0, time_ms(until, "--to") or 0
    if from_ms >= to_ms:
        raise fail(f"--to {until!r} is not after --from {since!r}", USAGE)
    pipeline = loaded(file, env, given)
    from goqueue.pipeline import session
    from goqueue.pipeline.declared.running.backfill import backfill as work
    from goqueue.pipeline.errors import spark_in_one_line

    wanted, folder = sinks or (), file.resolve().parent
    try:
        # A plan refuses what the work would refuse, before Spark is started.
        rows = work(pipeline, None, from_ms=from_ms, to_ms=to_ms, sinks=wanted)
        if not dry_run:
            name = f"{pipeline.name} backfill"
            with spark_in_one_line(), session(name, master=master, config=pipeline.settings) as spark:
                rows = work(pipeline, spark, from_ms=from_ms, to_ms=to_ms, sinks=wanted, folder=folder)
    except GoQueueError as failed:
        raise refuse(failed) from None
    show(rows, output, ["sink", "messages", "id"])


@app.command()
def stop(
    file: File,
    wait: Annotated[
        str, typer.Option("--wait", help="How long to wait until it has ended.", callback=duration)
    ] = "60s",
    env: Env = None,
    given: Set = None,
) -> None:
    """Ask a running pipeline to stop after the current batch."""
    from goqueue.pipeline.declared.running.run_files import RunFiles

    files = RunFiles(loaded(file, env, given))
    found = files.read()
    if found is None or not found["running"]:
        raise fail("the pipeline is not running in this directory", REFUSED)
    files.ask_to_stop()
    wait_s = int(wait.removesuffix("ms")) / 1000
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        now = files.read()
        if now is not None and not now["running"]:
            typer.echo("stopped")
            return
        time.sleep(_POLL_S)
    raise fail(f"it is still running after {wait_s:g} s, as process {found['pid']}", REFUSED)


for command in (status, history, report):
    app.command()(command)


def _check_topics(pipeline: Pipeline) -> None:
    """Raise unless a broker is there with every topic that is read or written."""
    from goqueue.pipeline.declared.checks.check import topics_of
    from goqueue.pipeline.declared.form.problems import PipelineInvalid, Problem
    from goqueue.pipeline.preflight import missing_topics

    named = topics_of(pipeline)
    missing = missing_topics(pipeline.broker, named.values())
    found = [
        Problem(place, f"there is no topic {topic!r} at {pipeline.broker}", f"goqueue topic create {topic}")
        for place, topic in named.items()
        if topic in missing
    ]
    if found:
        raise PipelineInvalid(found)


def _submit_line(pipeline: Pipeline, file: Path, master: str, env: str | None, given: dict[str, str]) -> str:
    from goqueue.pipeline.declared import main
    from goqueue.pipeline.spark.session import SETTINGS, without_secrets

    # The program takes the others from the file itself: a command line is no place for a secret.
    settings = without_secrets({**SETTINGS, **pipeline.settings})
    options = " \\\n  ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    words = [*([f"--env={env}"] if env else []), *(f"{name}={value}" for name, value in given.items())]
    told = "".join(f" {shlex.quote(word)}" for word in words)
    return (
        f"spark-submit --master '{master}' --name '{pipeline.name}' \\\n  {options} \\\n  {main.__file__} {file}{told}"
    )
