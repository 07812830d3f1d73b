"""goqueue log inspect|verify|repair: the files of a stopped broker.

All three take the lock of the data directory, so none runs beside a broker. `inspect`
and `verify` change nothing; `repair` changes derived files, and a log only when told.

0 done, all is sound · 1 damage found, or the directory is in use · 2 the command line is wrong
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from goqueue.cli.files.log_rows import (
    FRAME_COLUMNS,
    SEGMENT_COLUMNS,
    LogDirectory,
    cut_line,
    damage_line,
    frame_row,
    partition_row,
    repair_row,
    segment_row,
    totals,
)
from goqueue.cli.output import Format, show
from goqueue.cli.session import REFUSED, USAGE, Output, fail
from goqueue.errors import GoQueueError
from goqueue.log.inspection.repair import Repair, repair_partition
from goqueue.log.inspection.verify import PartitionReport, segment_bases, verify_partition, walk_segment
from goqueue.log.segment.file_names import LOG, file_name

if TYPE_CHECKING:
    from goqueue.node.disk.os_files import OsFiles

app = typer.Typer(help="Inspect, verify and repair the files of a stopped broker.", no_args_is_help=True)

DataDir = Annotated[
    Path | None, typer.Argument(help="The data directory of a broker that is not running.", show_default=False)
]
# The server calls it so, and hands remember.
NamedDataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="The data directory, as an option.", show_default=False)
]
Topic = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.", show_default=False)]
PartitionNumber = Annotated[
    int | None, typer.Option("--partition", "-p", help="Only this partition.", show_default=False)
]


@app.command()
def inspect(
    data_dir: DataDir = None,
    topic: Topic = None,
    partition: PartitionNumber = None,
    named: NamedDataDir = None,
    frames: Annotated[bool, typer.Option("--frames", "-f", help="List every frame, not only the segments.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Frames to list at most.")] = 1000,
    output: Output = Format.table,
) -> None:
    """Show segments or frames: offsets, times, lanes, sizes."""
    with _stopped_broker(data_dir, named) as files:
        places = _places(files, topic, partition)
        if frames:
            rows, is_cut = _frame_rows(files, places, limit)
            show(rows, output, FRAME_COLUMNS)
            if is_cut:
                typer.echo(f"only the first {limit} frames are shown; see --limit", err=True)
        else:
            reports = _verify(files, places)
            rows = [segment_row(place, one) for place, report in reports for one in report.segments]
            if output is Format.table:
                rows = [row | {"damage": len(row["damage"]) or None} for row in rows]
            show(rows, output, SEGMENT_COLUMNS)
            for missing in (one for _, report in reports for one in report.missing):
                typer.echo(f"damaged: {damage_line(missing)}", err=True)


@app.command()
def verify(
    data_dir: DataDir = None,
    topic: Topic = None,
    partition: PartitionNumber = None,
    named: NamedDataDir = None,
    output: Output = Format.table,
) -> None:
    """Check every checksum. Exit code 1 if anything is damaged."""
    with _stopped_broker(data_dir, named) as files:
        reports = _verify(files, _places(files, topic, partition))
    is_sound = all(report.is_sound for _, report in reports)
    if output is not Format.table:
        show({"sound": is_sound, **totals(reports), "partitions": [partition_row(*one) for one in reports]}, output)
    else:
        for _, report in reports:
            for damage in report.damage:
                typer.echo(f"damaged: {damage_line(damage)}")
            for fault in report.index_faults:
                typer.echo(f"stale:   {fault.file}: {fault.reason}; no data is lost, repair rebuilds it")
        summary = ", ".join(f"{count:,} {what}" for what, count in totals(reports).items())
        typer.echo(f"{summary}: {'no damage' if is_sound else 'DAMAGED'}")
    if not is_sound:
        raise typer.Exit(REFUSED)


@app.command()
def repair(
    data_dir: DataDir = None,
    topic: Topic = None,
    partition: PartitionNumber = None,
    named: NamedDataDir = None,
    cut_damaged_tail: Annotated[
        bool, typer.Option("--cut-damaged-tail", help="Truncate a log at its damaged end. The data after it is lost.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """Rebuild the indexes and, with --cut-damaged-tail, truncate a damaged end. Exit code 1 if damage is left."""
    with _stopped_broker(data_dir, named) as files:
        places = _places(files, topic, partition)
        now_ms = int(time.time() * 1000)
        with _bar(files, places) as advance:
            repairs = [
                (
                    place,
                    repair_partition(
                        files,
                        place.directory,
                        cut_damaged_tail=cut_damaged_tail,
                        now_ms=now_ms,
                        progress=advance(place),
                    ),
                )
                for place in places
            ]
    if output is not Format.table:
        show([repair_row(*one) for one in repairs], output)
    else:
        for place, one in repairs:
            _tell_repair(place, one)
    if any(one.damage for _, one in repairs):
        raise typer.Exit(REFUSED)


def _tell_repair(place: LogDirectory, repair: Repair) -> None:
    name = place.name
    if repair.end_offset is None:
        typer.echo(f"{name}: not changed, because its end is damaged")
    else:
        typer.echo(f"{name}: {repair.rebuilt_files} derived files rebuilt, next offset {repair.end_offset}")
    if repair.is_cut and repair.cut is not None:
        typer.echo(f"  lost: {cut_line(repair.cut)}")
    for damage in repair.damage:
        typer.echo(f"  damaged: {damage_line(damage)}")
    if repair.cut is not None and not repair.is_cut:
        typer.echo(f"  --cut-damaged-tail would lose {cut_line(repair.cut)}")


@contextmanager
def _stopped_broker(given: Path | None, named: Path | None) -> Iterator[OsFiles]:
    """The data directory, locked. Touches nothing if that is not what it is."""
    from goqueue.broker.replicas.partition_files import LOGS
    from goqueue.metadata.local import DIRECTORY as METADATA
    from goqueue.node.disk.os_files import OsFiles
    from goqueue.node.listeners.claims import LOCK_FILE

    data_dir = given or named
    if data_dir is None or (named is not None and named != data_dir):
        raise fail("name one data directory, as an argument or with --data-dir", USAGE)
    if not (data_dir / LOGS).is_dir() and not (data_dir / METADATA).is_dir():
        raise fail(f"{data_dir} is not the data directory of a broker: it has no {LOGS!r} in it", USAGE)
    try:
        files = OsFiles(data_dir)
        try:
            with files.lock(LOCK_FILE):
                yield files
        finally:
            files.close()
    except (GoQueueError, OSError) as error:
        raise fail(error if isinstance(error, GoQueueError) else str(error), REFUSED) from None


def _places(files: OsFiles, topic: str | None, partition: int | None) -> list[LogDirectory]:
    from goqueue.broker.replicas.partition_files import LOGS, parse_directory_name
    from goqueue.metadata.local import DIRECTORY as METADATA

    if partition is not None and topic is None:
        raise fail("--partition needs --topic", USAGE)
    places = [
        LogDirectory(name, found[0], f"{LOGS}/{name}/{directory}")
        for name in files.list(LOGS)
        if topic in {None, name}
        for found, directory in sorted(
            (parse_directory_name(directory) or (-1, 0), directory) for directory in files.list(f"{LOGS}/{name}")
        )
        if found[0] >= 0 and partition in {None, found[0]}
    ]
    if topic is None and files.is_dir(METADATA):
        places.append(LogDirectory(METADATA, 0, METADATA))
    if not places and topic is not None:
        what = f"topic {topic!r}" if partition is None else f"partition {partition} of topic {topic!r}"
        raise fail(f"there are no files of {what}", USAGE)
    return places


def _verify(files: OsFiles, places: list[LogDirectory]) -> list[tuple[LogDirectory, PartitionReport]]:
    """Read and check everything."""
    with _bar(files, places) as advance:
        return [(place, verify_partition(files, place.directory, progress=advance(place))) for place in places]


@contextmanager
def _bar(files: OsFiles, places: list[LogDirectory]) -> Iterator[Callable[[LogDirectory], Callable[[int], None]]]:
    """A progress bar over the bytes of all logs, on standard error where that is a terminal."""
    total = sum(
        files.size(f"{place.directory}/{name}")
        for place in places
        for name in files.list(place.directory)
        if name.endswith(LOG)
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def begin(place: LogDirectory) -> Callable[[int], None]:
            bar.update(task, description=place.name)
            return lambda size: bar.advance(task, size)

        yield begin


def _frame_rows(files: OsFiles, places: list[LogDirectory], limit: int) -> tuple[list[dict[str, Any]], bool]:
    rows: list[dict[str, Any]] = []
    for place in places:
        for base in segment_bases(files, place.directory):
            path = f"{place.directory}/{file_name(base, LOG)}"
            file = files.open(path)
            try:
                for found in walk_segment(file, path, base):
                    if len(rows) == limit:
                        return rows, True
                    rows.append(frame_row(place, base, found))
            finally:
                file.close()
    return rows, False
