"""`make bench-spark`, second part: bulk jobs as multiples and shares of what they must be compared with.

    python -m tests.bench.bench_spark_jobs [--quick] [--only NAME ...] [--size SHARE] [--directory DIR]

Every ratio compares two things of the same run that take turns. Spark's start is told apart. The bare
copy and the bare read use as many threads as the job has tasks, and the copy is synced as the job's is.
Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench import kafka_load
from tests.bench.command import command, finish, run, smaller
from tests.bench.kafka_brokers import TOPIC, fresh_topic, real_broker
from tests.bench.measure import MIB, Bar, alternate, at_least, at_most, seconds_of, speed_ratio, told
from tests.e2e.spark.command import GOQUEUE

import goqueue.pipeline
from goqueue.backup.store import BackupStore
from goqueue.pipeline.backup import job
from goqueue.pipeline.examples import example_text
from goqueue.pipeline.jobs.export import export

EXPORT_RATIO_MIN, BACKUP_RATIO_MIN, VERIFY_RATIO_MIN, VALIDATE_SECONDS_MAX = 3.0, 0.6, 0.8, 1.0
TASKS = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    rounds: int
    # A virtual disk reads 1,200 MB in one second and 4,600 in another: medians of a few rounds say little.
    rounds_of_reads: int
    rows: dict[int, int]
    # Messages of 1000 B: enough that the start of a Spark job, half a second, is no large part of it.
    backup_rows: int


FULL = Scale(3, 9, {100: 4_000_000, 1000: 1_200_000}, 2_500_000)
QUICK = Scale(1, 1, {100: 50_000, 1000: 20_000}, 20_000)


def silent(_done: int, _total: int) -> None:
    """No progress bar beside a clock."""


@contextmanager
def filled(directory: str | None, size: int, rows: int) -> Iterator[Path]:
    """The data directory of a stopped broker with this many messages."""
    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        kafka_load.run(kafka_load.produce, address=broker.kafka, size=size, count=rows)
        broker.stop()
        yield broker.data_dir


def bench_export(spark: Any, scale: Scale, directory: str | None, size: int) -> list[Bar]:
    """Files written by tasks against the same files written from rows in the JVM."""
    rows = scale.rows[size]
    with filled(directory, size, rows) as data, tempfile.TemporaryDirectory(dir=directory) as home:
        options = {"path": str(data), "subscribe": TOPIC, "includeHeaders": "true"}

        def by_tasks() -> float:
            to = Path(home) / "tasks"
            seconds = seconds_of(lambda: _checked(rows, export(spark, options, to, show=silent).facts["rows"]))
            shutil.rmtree(to)
            return seconds

        def through_jvm() -> float:
            from pyspark.sql import functions as sql

            frame = spark.read.format("goqueue").options(**options).load()
            frame = frame.withColumn("day", sql.date_format("timestamp", "yyyy-MM-dd"))
            writer = frame.write.partitionBy("topic", "partition", "day").option("compression", "zstd")
            to = f"{home}/jvm"
            seconds = seconds_of(lambda: writer.parquet(to))
            shutil.rmtree(to)
            return seconds

        by_tasks()
        ours, theirs = alternate(scale.rounds, by_tasks, through_jvm)
    return [
        at_least(f"export {size} B, multiple of rows through the JVM", speed_ratio(ours, theirs), EXPORT_RATIO_MIN),
        told(f"export {size} B, rows/s", rows / median(ours), digits=0),
        told(f"export {size} B through the JVM, rows/s", rows / median(theirs), digits=0),
    ]


def bench_backup(spark: Any, scale: Scale, directory: str | None) -> list[Bar]:
    """Backup against a bare copy, verify against a bare read, from a disk whose files are not in memory."""
    with filled(directory, 1000, scale.backup_rows) as data, tempfile.TemporaryDirectory(dir=directory) as home:
        files = [path for path in data.rglob("*.log") if path.stat().st_size]
        megabytes = sum(path.stat().st_size for path in files) / MIB
        store, bare = Path(home) / "store", Path(home) / "bare"

        def backup() -> float:
            shutil.rmtree(store, ignore_errors=True)
            _forget(files)
            return seconds_of(
                lambda: job.backup(spark, data, store, ask_instant=lambda: None, show=silent, incremental=False)
            )

        def copy() -> float:
            shutil.rmtree(bare, ignore_errors=True)
            bare.mkdir()
            _forget(files)
            return seconds_of(lambda: _each(_copy, [(path, bare / str(at)) for at, path in enumerate(files)]))

        backup()
        ours, theirs = alternate(scale.rounds, backup, copy)
        bars = [
            at_least("backup, share of a bare copy", speed_ratio(ours, theirs), BACKUP_RATIO_MIN),
            told("backup", megabytes / median(ours), unit=" MB/s", digits=0),
            told("bare copy", megabytes / median(theirs), unit=" MB/s", digits=0),
        ]
        objects = [path for path in (store / "objects").rglob("*") if path.is_file()]
        for name, prepare in (("", lambda: _forget(objects)), (", all in memory", lambda: _each(_read, objects))):
            bars += _verify_bars(spark, scale, store, objects, megabytes, name, prepare)
    return bars


def _verify_bars(
    spark: Any,
    scale: Scale,
    store: Path,
    objects: Sequence[Path],
    megabytes: float,
    name: str,
    prepare: Callable[[], object],
) -> list[Bar]:
    def verify() -> float:
        prepare()
        return seconds_of(lambda: _checked(0, len(job.verify(spark, store, None, show=silent).problems)))

    def read() -> float:
        prepare()
        return seconds_of(lambda: _each(_read, objects))

    if not BackupStore(store).names():
        raise RuntimeError("there is no backup to verify")
    ours, theirs = alternate(scale.rounds_of_reads, verify, read)
    ratio = speed_ratio(ours, theirs)
    what = f"verify, share of a bare read{name}"
    return [
        told(what, ratio) if name else at_least(what, ratio, VERIFY_RATIO_MIN),
        told(f"verify{name}", megabytes / median(ours), unit=" MB/s", digits=0),
        told(f"bare read{name}", megabytes / median(theirs), unit=" MB/s", digits=0),
    ]


def bench_validate(_spark: Any, scale: Scale, directory: str | None) -> list[Bar]:
    """`goqueue pipeline validate` as a user calls it: a process from its start to its end."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        file = Path(home) / "orders.yaml"
        file.write_text(example_text("orders"), encoding="utf-8")

        def validate() -> float:
            command = [str(GOQUEUE), "pipeline", "validate", str(file)]
            return seconds_of(lambda: subprocess.run(command, check=True, capture_output=True))

        (seconds,) = alternate(max(scale.rounds, 2), validate)
    return [at_most("pipeline validate", median(seconds), VALIDATE_SECONDS_MAX, unit=" s")]


def _checked(expected: int, found: int) -> None:
    if found != expected:
        raise RuntimeError(f"{expected} were expected, {found} were found")


def _each(work: Callable[[Any], object], pieces: Sequence[Any]) -> None:
    with ThreadPoolExecutor(TASKS) as pool:
        list(pool.map(work, pieces))


def _forget(files: Sequence[Path]) -> None:
    """Have the system drop the files from memory."""
    os.sync()
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _copy(places: tuple[Path, Path]) -> None:
    source, target = places
    with source.open("rb") as reader, target.open("wb") as writer:
        while os.copy_file_range(reader.fileno(), writer.fileno(), 1 << 30):
            pass
        os.fsync(writer.fileno())


def _read(path: Path) -> None:
    buffer = bytearray(MIB)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


BENCHES: dict[str, Callable[[Any, Scale, str | None], list[Bar]]] = {
    "validate": bench_validate,
    "export100": lambda spark, scale, directory: bench_export(spark, scale, directory, 100),
    "export1000": lambda spark, scale, directory: bench_export(spark, scale, directory, 1000),
    "backup": bench_backup,
}


def main() -> int:
    """Run what was asked for and print the table."""
    options = command(__doc__, only=BENCHES, directory=True, size=True).parse_args()
    scale = QUICK if options.quick else smaller(FULL, options.size)
    opened: list[Any] = []
    started = seconds_of(lambda: opened.append(goqueue.pipeline.session("bench", master=f"local[{TASKS}]")))
    (spark,) = opened
    # The first task waits for Python's workers, which later ones find there.
    first = seconds_of(lambda: spark.sparkContext.parallelize(range(TASKS), TASKS).map(str).collect())
    bars = [told("Spark's start", started, unit=" s"), told("its first Python task", first, unit=" s")]
    bars += run(options.only, lambda name: BENCHES[name](spark, scale, options.directory))
    spark.stop()
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
