"""What all bulk jobs share: a session, a progress bar, a report that is shown, kept and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, refuse
from goqueue.errors import GoQueueError, InvalidRequest

if TYPE_CHECKING:
    from goqueue.pipeline.jobs.report import Report
    from goqueue.pipeline.jobs.tasks import ShowProgress

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
ReportTo = Annotated[Path | None, typer.Option("--report", help="Folder for report.json and report.html.")]
Master = Annotated[str, typer.Option("--master", help="Where Spark runs.")]


def run_job(
    name: str,
    work: Callable[[Any, ShowProgress], Report],
    report_to: Path | None,
    output: Format,
    *,
    master: str,
    check: Callable[[], object] = lambda: None,
    without_spark: bool = False,
) -> None:
    """Run a job with a progress bar, and show, keep and judge its report.

    `check` comes first: what can be refused is refused before Spark starts.
    """
    from goqueue.pipeline.paths import local_path

    try:
        if report_to is not None:
            local_path(report_to, "--report")
        if master.startswith("sc://"):
            raise InvalidRequest(
                f"--master {master}: bulk jobs send tasks to executors, which Spark Connect does not offer",
                field="master",
                hint="name a master: local[*], spark://..., yarn or k8s://...",
            )
        check()
        if without_spark:
            report = work(None, lambda _done, _total: None)
        else:
            from goqueue.pipeline import session
            from goqueue.pipeline.errors import spark_in_one_line

            with spark_in_one_line(), session(f"goqueue {name}", master=master) as spark, _bar(name) as progress:
                report = work(spark, progress)
    except GoQueueError as error:
        raise refuse(error) from None
    if report_to is not None:
        for path in report.write(report_to):
            typer.echo(f"wrote {path}", err=True)
    data = report.as_dict()
    if output is Format.table:
        tables, problems = data.pop("tables"), data.pop("problems")
        show(data, output)
        for title, rows in tables.items():
            show(rows, output, title=title)
        for problem in problems:
            typer.secho(f"  - {problem}", err=True, fg=typer.colors.RED)
    else:
        show(data, output)
    if report.problems:
        raise typer.Exit(REFUSED)


@contextmanager
def _bar(name: str) -> Iterator[ShowProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
