"""`make bench-spark`, third part: tables, triggers and the audit, as shares of what they must be compared with.

    python -m tests.bench.bench_spark_tables [--quick] [--only NAME ...] [--size SHARE] [--directory DIR]

Every ratio compares two things of the same run that take turns. `memory-delta` and `memory-iceberg` write ten times the
rows and compare the largest memory of the driver, Python and JVM: figures that hold on a busy machine too.
Prints a Markdown table; exit code 1 if a bar was not met.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.command import command, finish, run, smaller
from tests.bench.driver_memory import DriverMemory
from tests.bench.kafka_brokers import TOPIC, fresh_topic, real_broker
from tests.bench.measure import MIB, Bar, alternate, at_least, at_most, seconds_of, speed_ratio, told
from tests.bench.memory import get_memory
from tests.bench.spark_sources import fill
from tests.bench.upserts import bench_postgres

import goqueue.pipeline
from goqueue.pipeline.jobs.reconcile import reconcile
from goqueue.pipeline.lake.append import append
from goqueue.pipeline.lake.delta import delta_table
from goqueue.pipeline.lake.iceberg import iceberg_table
from goqueue.pipeline.lake.merge import read_files
from goqueue.pipeline.lake.table import Batch, LakeTable

LAKE_RATIO_MIN, MEMORY_GROWTH_MAX, TRIGGER_RATIO_MAX, RECONCILE_RATIO_MAX = 0.6, 1.1, 1.2, 2.0
TASKS = 2
VALUE_BYTES = 1000
# Of this run: a table remembers the batches of a query.
_batches = count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    rounds: int
    lake_rows: int
    # The larger of the two runs whose memory is compared; the other one has a tenth.
    memory_rows: int
    upsert_rows: int
    batches: int
    reconcile_rows: int


FULL = Scale(5, 1_000_000, 10_000_000, 300_000, 60, 10_000_000)
QUICK = Scale(1, 20_000, 200_000, 5_000, 6, 50_000)


def rows_of(spark: Any, rows: int) -> Any:
    """Rows of 1 KB that a codec cannot make small: half of a value is digits of a hash of its own."""
    digits = "concat(" + ", ".join(f"sha2(cast(id * 31 + {part} as string), 256)" for part in range(8)) + ")"
    return spark.range(0, rows, 1, TASKS).selectExpr(
        "id", f"concat({digits}, repeat('x', {VALUE_BYTES - 512})) AS value"
    )


@contextmanager
def lake(kind: str, directory: str | None) -> Iterator[Callable[[], LakeTable]]:
    """Makes empty tables, one after the other."""
    with tempfile.TemporaryDirectory(dir=directory) as home:
        numbers = count()

        def fresh() -> LakeTable:
            place = Path(home) / str(next(numbers))
            place.mkdir()
            if kind == "delta":
                return delta_table(str(place / "table"))
            catalog = {
                "name": "bench",
                "type": "sql",
                "uri": f"sqlite:///{place}/catalog.db",
                "warehouse": f"file://{place}",
            }
            return iceberg_table("bench.rows", catalog)

        yield fresh


def bench_lake(spark: Any, scale: Scale, directory: str | None, kind: str) -> list[Bar]:
    """Appends to a table against Spark's own write of the same rows to Parquet."""
    rows = scale.lake_rows
    frame = rows_of(spark, rows)
    with lake(kind, directory) as fresh, tempfile.TemporaryDirectory(dir=directory) as home:

        def ours() -> float:
            table = fresh()
            get_memory(rows * VALUE_BYTES)
            return seconds_of(lambda: _checked(rows, append(table, frame, Batch("bench", next(_batches)))))

        def parquet(codec: str) -> float:
            get_memory(rows * VALUE_BYTES)
            seconds = seconds_of(lambda: frame.write.option("compression", codec).parquet(f"{home}/parquet"))
            shutil.rmtree(f"{home}/parquet")
            return seconds

        ours()
        # As Spark writes it unless told otherwise, and with the codec of the table.
        written, plain, same = alternate(scale.rounds, ours, lambda: parquet("snappy"), lambda: parquet("zstd"))
    return [
        at_least(f"append to {kind}, share of Spark's Parquet write", speed_ratio(written, plain), LAKE_RATIO_MIN),
        told(f"append to {kind}, share of Spark's Parquet write with zstd", speed_ratio(written, same)),
        told(f"append to {kind}, rows/s", rows / median(written), digits=0),
        told("Spark's Parquet write, rows/s", rows / median(plain), digits=0),
    ]


def bench_memory(spark: Any, scale: Scale, directory: str | None, kind: str) -> list[Bar]:
    """The driver's largest memory while ten times the rows are appended."""
    peaks = []
    # The first run fills the JVM's heap with what stays: classes, compiled code, Spark's own tables.
    for rows in (scale.memory_rows // 10, scale.memory_rows // 10, scale.memory_rows):
        # What the values are is of no account here, only how large they are.
        frame = spark.range(0, rows, 1, TASKS).selectExpr("id", f"repeat('x', {VALUE_BYTES}) AS value")
        with lake(kind, directory) as fresh, DriverMemory(spark) as memory:
            _checked(rows, append(fresh(), frame, Batch("bench", next(_batches))))
        peaks.append(memory)
    _, small, large = peaks
    few, many = f"{scale.memory_rows // 10:,}", f"{scale.memory_rows:,}"
    growths = {
        "Python memory": large.python_bytes / small.python_bytes,
        "live heap": large.heap_bytes / small.heap_bytes,
    }
    return [
        *(
            at_most(f"{kind}: driver's {what} at {many} rows, multiple of that at {few}", growth, MEMORY_GROWTH_MAX)
            for what, growth in growths.items()
        ),
        told(f"{kind}: driver's Python memory at {many} rows", large.python_bytes / MIB, unit=" MiB", digits=0),
        told(f"{kind}: driver's live heap at {many} rows", large.heap_bytes / MIB, unit=" MiB", digits=0),
    ]


def bench_trigger(spark: Any, scale: Scale, directory: str | None) -> list[Bar]:
    """The time of a trigger whose batch has one row, against Spark's own source of rates."""

    def times(stream: Any) -> float:
        with tempfile.TemporaryDirectory(dir=directory) as checkpoint:
            query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
            try:
                deadline = time.monotonic() + 120
                found: list[float] = []
                while len(found) < scale.batches:
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"{len(found)} batches in two minutes")
                    time.sleep(0.2)
                    progress = [one for one in query.recentProgress if one["numInputRows"]]
                    found = [one["durationMs"]["triggerExecution"] for one in progress]
            finally:
                query.stop()
        return float(median(found[2:]))

    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        # More than a run takes, so that a batch never waits for a message.
        fill(broker.kafka, 100, scale.batches * 20)
        options = {"kafka.bootstrap.servers": broker.kafka, "subscribe": TOPIC, "startingOffsets": "earliest"}
        ours_stream = spark.readStream.format("goqueue").options(**options, maxOffsetsPerTrigger="1")
        rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").option("numPartitions", "1")
        ours, theirs = alternate(scale.rounds, lambda: times(ours_stream.load()), lambda: times(rates.load()))
    ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
    return [
        at_most("trigger of one row, p50, multiple of the rate source's", ratio, TRIGGER_RATIO_MAX),
        told("trigger of one row, p50", median(ours), unit=" ms", digits=0),
        told("trigger of one row of the rate source, p50", median(theirs), unit=" ms", digits=0),
    ]


def bench_reconcile(spark: Any, scale: Scale, directory: str | None) -> list[Bar]:
    """The audit of a topic against its table, as a multiple of reading both."""
    rows = scale.reconcile_rows
    with real_broker(directory) as broker, lake("delta", directory) as fresh:
        fresh_topic(broker.kafka)
        fill(broker.kafka, 100, rows)
        options = {"kafka.bootstrap.servers": broker.kafka}
        topic = (
            spark.read.format("goqueue").options(**options, subscribe=TOPIC, columns="partition,offset,value").load()
        )
        table = fresh()
        append(table, topic, Batch("bench", next(_batches)))
        table.refresh()
        rows_there = read_files(spark, table, list(table.files({})), ["partition", "offset", "value"])

        def audit() -> float:
            def work() -> None:
                found = reconcile(spark, options, TOPIC, table)
                _checked(rows, found.facts["same"])
                _checked(0, len(found.problems))

            return seconds_of(work)

        def scan() -> float:
            def work() -> None:
                for frame in (topic, rows_there):
                    frame.selectExpr("max(xxhash64(partition, offset, value))").collect()

            return seconds_of(work)

        ours, theirs = alternate(max(scale.rounds // 2, 1), audit, scan)
    ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
    return [
        at_most(f"reconcile of {rows:,} rows, multiple of reading both sides", ratio, RECONCILE_RATIO_MAX),
        told(f"reconcile of {rows:,} rows", median(ours), unit=" s", digits=1),
        told("reading both sides", median(theirs), unit=" s", digits=1),
    ]


def _checked(expected: int, found: int) -> None:
    if found != expected:
        raise RuntimeError(f"{expected} were expected, {found} were found")


BENCHES: dict[str, Callable[[Any, Scale, str | None], list[Bar]]] = {
    "delta": lambda spark, scale, directory: bench_lake(spark, scale, directory, "delta"),
    "iceberg": lambda spark, scale, directory: bench_lake(spark, scale, directory, "iceberg"),
    "memory-delta": lambda spark, scale, directory: bench_memory(spark, scale, directory, "delta"),
    "memory-iceberg": lambda spark, scale, directory: bench_memory(spark, scale, directory, "iceberg"),
    "postgres": lambda spark, scale, _directory: bench_postgres(spark, scale.upsert_rows, scale.rounds),
    "trigger": bench_trigger,
    "reconcile": bench_reconcile,
}


def main() -> int:
    """Run what was asked for and print the table."""
    options = command(__doc__, only=BENCHES, directory=True, size=True).parse_args()
    scale = QUICK if options.quick else smaller(FULL, options.size)
    spark = goqueue.pipeline.session("bench", master=f"local[{TASKS}]")
    bars = run(options.only, lambda name: BENCHES[name](spark, scale, options.directory))
    spark.stop()
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
