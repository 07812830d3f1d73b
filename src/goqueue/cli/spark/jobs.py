"""The commands `goqueue jobs ...`: bulk work around a broker, on Spark."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from goqueue.cli.output import Format
from goqueue.cli.session import USAGE, Output, fail
from goqueue.cli.spark.job_backup import backup, restore, verify
from goqueue.cli.spark.job_run import DryRun, Master, ReportTo, run_job
from goqueue.cli.times import time_ms

if TYPE_CHECKING:
    from goqueue.pipeline.jobs.report import Report
    from goqueue.pipeline.jobs.tasks import ShowProgress
    from goqueue.pipeline.lake.table import LakeTable

E = TypeVar("E", bound=StrEnum)

app = typer.Typer(help="Bulk jobs on Spark: backup, restore, export, import and more.", no_args_is_help=True)

Broker = Annotated[str, typer.Option("--broker", "-b", help="Addresses of the Kafka port, host:port.")]
_BROKER = "127.0.0.1:9092"

for command in (backup, verify, restore):
    app.command()(command)


@app.command()
def export(
    topic: Annotated[str, typer.Argument(help="Topics, with commas between them.")],
    to: Annotated[str, typer.Option("--to", help="Folder or URL (s3://bucket/x) to write to.")],
    lake: Annotated[str, typer.Option("--format", help="parquet, delta or iceberg.")] = "parquet",
    table: Annotated[str, typer.Option("--table", help="Name of the Iceberg table.")] = "goqueue.export",
    catalog: Annotated[list[str] | None, typer.Option("--catalog", help="Iceberg catalog, as uri=...")] = None,
    path: Annotated[Path | None, typer.Option("--path", help="Read this data directory instead of a broker.")] = None,
    broker: Broker = _BROKER,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Write topics as Parquet files by topic, partition and day, with their offsets; a lake table if asked."""
    from goqueue.pipeline.jobs.export import LakeFormat
    from goqueue.pipeline.jobs.export import export as job

    kind = _choice("--format", lake, LakeFormat)
    options = {"subscribe": topic, **({"path": str(path)} if path else {"kafka.bootstrap.servers": broker})}
    settings = dict(one.partition("=")[::2] for one in catalog or [])

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job(spark, options, to, lake=kind, table=table, catalog=settings, show=progress)

    # A plan refuses what the job would refuse, before Spark is started.
    run_job(
        "export",
        work,
        report,
        output,
        master=master,
        check=lambda: work(None, lambda _done, _total: None),
        without_spark=dry_run,
    )


@app.command("import")
def import_(
    files: Annotated[str, typer.Argument(help="File, folder, pattern or URL (s3://bucket/x).")],
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    file_format: Annotated[str, typer.Option("--format", help="csv, json (a value per line) or parquet.")] = "json",
    key: Annotated[str | None, typer.Option("--key", help="Column or SQL expression for the key.")] = None,
    value: Annotated[
        str | None, typer.Option("--value", help="Column or SQL expression for the value. [default: the row as JSON]")
    ] = None,
    schema: Annotated[str | None, typer.Option("--schema", help="Columns, such as: id BIGINT, name STRING.")] = None,
    broker: Broker = _BROKER,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Send files to a topic, all rows or none; rows with the same key keep their order."""
    from goqueue.pipeline.jobs.import_files import FileFormat, check_files
    from goqueue.pipeline.jobs.import_files import import_files as job

    kind = _choice("--format", file_format, FileFormat)
    options = {"kafka.bootstrap.servers": broker}

    def work(spark: Any, _progress: ShowProgress) -> Report:
        return job(spark, files, kind, options, topic, key=key, value=value, schema=schema, dry_run=dry_run)

    def check() -> None:
        check_files(files)
        _check(broker, topic)

    run_job("import", work, report, output, master=master, check=check)


@app.command()
def replay(
    source: Annotated[str, typer.Argument(help="Topic to read.")],
    target: Annotated[str, typer.Argument(help="Topic to send to, with at least as many partitions.")],
    since: Annotated[str, typer.Option("--from", help="Start time (RFC 3339).")],
    until: Annotated[str, typer.Option("--to", help="End time, exclusive (RFC 3339).")],
    speed: Annotated[
        str, typer.Option("--speed", help="original, full, or a multiple of the original such as 10.")
    ] = "full",
    broker: Broker = _BROKER,
    dry_run: DryRun = False,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Copy a time range of a topic to another topic, in the original order."""
    from goqueue.pipeline.jobs.replay import replay as job

    factor = _parse_speed(speed)
    from_ms, to_ms = time_ms(since, "--from") or 0, time_ms(until, "--to") or 0
    if from_ms >= to_ms:
        raise fail(f"--to {until!r} is not after --from {since!r}", USAGE)
    options = {"kafka.bootstrap.servers": broker}

    def work(spark: Any, progress: ShowProgress) -> Report:
        return job(
            spark,
            options,
            source,
            target,
            from_ms=from_ms,
            to_ms=to_ms,
            speed=factor,
            show=progress,
            dry_run=dry_run,
        )

    run_job("replay", work, report, output, master=master, check=lambda: _check(broker, source, target))


@app.command()
def audit(
    topic: Annotated[str, typer.Argument(help="Topic to examine.")],
    path: Annotated[Path | None, typer.Option("--path", help="Read this data directory instead of a broker.")] = None,
    broker: Broker = _BROKER,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Find gaps and duplicates in a topic; show skew of keys, sizes and rates."""
    from goqueue.pipeline.jobs.audit import audit as job

    options = {"path": str(path)} if path else {"kafka.bootstrap.servers": broker}
    run_job(
        "audit",
        lambda spark, _: job(spark, options, topic),
        report,
        output,
        master=master,
        check=lambda: None if path else _check(broker, topic),
    )


@app.command()
def reconcile(
    topic: Annotated[str, typer.Argument(help="Topic to compare.")],
    delta: Annotated[str | None, typer.Option("--delta", help="Path or address of a Delta table.")] = None,
    iceberg: Annotated[str | None, typer.Option("--iceberg", help="Iceberg table, as lake.events.")] = None,
    catalog: Annotated[list[str] | None, typer.Option("--catalog", help="Iceberg catalog, as uri=...")] = None,
    partition: Annotated[str, typer.Option("--partition-column", help="Column with the partition.")] = "partition",
    offset: Annotated[str, typer.Option("--offset-column", help="Column with the offset.")] = "offset",
    value: Annotated[str, typer.Option("--value-column", help="Column with the value; '' compares none.")] = "value",
    broker: Broker = _BROKER,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Compare a topic with a lake table that was written from it: missing, extra, doubled and different rows."""
    from goqueue.pipeline.jobs.reconcile import Columns, checked
    from goqueue.pipeline.jobs.reconcile import reconcile as job

    open_table, columns = _table(delta, iceberg, catalog), Columns(partition, offset, value or None)

    def work(spark: Any, _: Any) -> Any:
        return job(spark, {"kafka.bootstrap.servers": broker}, topic, open_table(), columns)

    def check() -> None:
        checked(open_table(), columns)
        _check(broker, topic)

    run_job("reconcile", work, report, output, master=master, check=check)


@app.command("compact-lake")
def compact_lake(
    delta: Annotated[str | None, typer.Option("--delta", help="Path or address of a Delta table.")] = None,
    iceberg: Annotated[str | None, typer.Option("--iceberg", help="Iceberg table, as lake.events.")] = None,
    catalog: Annotated[list[str] | None, typer.Option("--catalog", help="Iceberg catalog, as uri=...")] = None,
    small: Annotated[int, typer.Option("--small-mb", min=1, help="Compact files below this size.")] = 32,
    keep: Annotated[
        int | None, typer.Option("--keep-hours", min=1, help="Also remove versions that are older than this.")
    ] = None,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Compact the small files of a lake table, whichever program wrote them; writers may continue."""
    from goqueue.pipeline.jobs.compact_lake import compact_lake as job

    open_table = _table(delta, iceberg, catalog)
    keep_ms = None if keep is None else keep * 3_600_000
    uri = next((one for one in catalog or [] if one.startswith("uri=")), "uri=").removeprefix("uri=")

    def work(spark: Any, _: Any) -> Any:
        return job(spark, open_table(), delta or f"{uri} {iceberg}", small_bytes=small * 2**20, keep_ms=keep_ms)

    run_job("compact-lake", work, report, output, master=master, check=lambda: work(None, None))


@app.command("dlq-report")
def dlq_report(
    topic: Annotated[str, typer.Argument(help="The dead-letter topic, such as orders.dlq.")],
    broker: Broker = _BROKER,
    report: ReportTo = None,
    master: Master = "local[*]",
    output: Output = Format.table,
) -> None:
    """Group dead letters by reason, with an example of each and their trend."""
    from goqueue.pipeline.jobs.dead_letters import dlq_report as job

    options = {"kafka.bootstrap.servers": broker}
    run_job(
        "dlq-report",
        lambda spark, _: job(spark, options, topic),
        report,
        output,
        master=master,
        check=lambda: _check(broker, topic),
    )


def _table(delta: str | None, iceberg: str | None, catalog: list[str] | None) -> Callable[[], LakeTable]:
    """What opens the lake table that was named."""
    if (delta is None) == (iceberg is None):
        raise fail("say either --delta or --iceberg", USAGE)
    from goqueue.pipeline.lake.delta import delta_table
    from goqueue.pipeline.lake.iceberg import iceberg_table

    settings = dict(one.partition("=")[::2] for one in catalog or [])
    return lambda: delta_table(delta) if delta is not None else iceberg_table(iceberg or "", settings)


def _check(broker: str, *topics: str) -> None:
    from goqueue.pipeline.preflight import check_topics

    check_topics(broker, *topics)


def _choice(option: str, text: str, choices: type[E]) -> E:
    try:
        return choices(text)
    except ValueError:
        raise fail(f"{option}: there is no {text!r}: there are {', '.join(choices)}", USAGE) from None


def _parse_speed(text: str) -> float | None:
    if text == "full":
        return None
    try:
        speed = 1.0 if text == "original" else float(text)
    except ValueError:
        speed = 0.0
    if speed <= 0:
        raise fail(f"--speed: {text!r} is not a speed: write original, full, or a number such as 10", USAGE)
    return speed
