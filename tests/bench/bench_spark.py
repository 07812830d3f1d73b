"""`make bench-spark`: Spark reads and writes topics, as shares of what any Python source or sink can do.

    python -m tests.bench.bench_spark [--quick] [--only NAME ...] [--size SHARE] [--directory DIR]

Every ratio compares two things of the same run that take turns. Prints a Markdown table;
exit code 1 if a bar was not met.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.command import command, finish, run, smaller
from tests.bench.kafka_brokers import TOPIC, fresh_topic, real_broker
from tests.bench.measure import Bar, alternate, at_least, at_most, seconds_of, speed_ratio, told
from tests.bench.memory import get_memory
from tests.bench.spark_plain import PlainSession
from tests.bench.spark_sources import Ceiling, EncodeOnly, fill
from tests.e2e.spark.connector_jars import JarsMissing, connector_jars

import goqueue.pipeline

FILES_RATIO_MIN, FETCH_RATIO_MIN, SINK_RATIO_MIN, MICRO_BATCH_RATIO_MAX = 0.7, 0.6, 0.5, 1.3
# Against Spark's own connector: its reads, and its writes, which are at least once.
CONNECTOR_RATIO_MIN, CONNECTOR_SINK_RATIO_MIN = 2.0, 2.0
TASKS = 2
BATCH_ROWS = {100: 60_000, 1000: 8_000}
# What both sources have, for the comparison with Spark's own connector.
KAFKA_COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    rounds: int
    # Writes go to a disk, which is less steady than the processor.
    rounds_of_writes: int
    # Spark's own connector takes several times as long, and is no close call.
    rounds_of_connector: int
    # The JVM's compiler works beside the first queries, for all of them.
    warm_ups: int
    rows: dict[int, int]
    micro_batches: int


# So many rows that planning a query and starting its tasks, a fifth of a second, are no large part of it.
FULL = Scale(7, 5, 3, 4, {100: 4_000_000, 1000: 2_000_000}, 30)
QUICK = Scale(1, 1, 1, 1, {100: 100_000, 1000: 20_000}, 6)


def bench_read(spark: Any, scale: Scale, directory: str | None, size: int) -> list[Bar]:
    """Full reads: from files, by fetch, the transfer alone, and Spark's own connector if there is one."""
    rows = scale.rows[size]
    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        fill(broker.kafka, size, rows)
        given = {"kafka.bootstrap.servers": broker.kafka, "subscribe": TOPIC}

        def read(source: str = "goqueue", **options: str) -> float:
            frame = spark.read.format(source).options(**given, **options).load()
            return seconds_of(lambda: frame.write.format("noop").mode("overwrite").save())

        constant = {"size": size, "rows": rows, "batchrows": BATCH_ROWS[size], "tasks": TASKS}

        def ceiling() -> float:
            loaded = spark.read.format("ceiling").options(**constant).load()
            return seconds_of(lambda: loaded.write.format("noop").mode("overwrite").save())

        found = spark.read.format("goqueue").options(**given).load().count()
        if found != rows:
            raise RuntimeError(f"{rows} rows were produced, {found} are read")
        with PlainSession() as plain_session:
            files, fetch, transfer, plain = _in_turns(
                scale.warm_ups,
                scale.rounds,
                lambda: read(transport="files", path=str(broker.data_dir)),
                lambda: read(transport="fetch"),
                ceiling,
                lambda: plain_session.transfer(**constant),
            )
        if has_connector(spark):
            ours, theirs = _in_turns(
                1, scale.rounds_of_connector, lambda: read(columns=KAFKA_COLUMNS), lambda: read("kafka")
            )
    of_transfer = "share of the transfer alone"
    of_plain = "share of the transfer alone with Spark's own settings"
    bars = [
        at_least(f"read {size} B from files, {of_transfer}", speed_ratio(files, transfer), FILES_RATIO_MIN),
        at_least(f"read {size} B by fetch, {of_transfer}", speed_ratio(fetch, transfer), FETCH_RATIO_MIN),
        told(f"read {size} B from files, {of_plain}", speed_ratio(files, plain)),
        told(f"read {size} B by fetch, {of_plain}", speed_ratio(fetch, plain)),
    ]
    if has_connector(spark):
        name = f"read {size} B by fetch, share of Spark's Kafka connector"
        bars.append(at_least(name, speed_ratio(ours, theirs), CONNECTOR_RATIO_MIN))
        bars.append(told(f"Spark's Kafka connector, {size} B, rows/s", rows / median(theirs), digits=0))
    return [
        *bars,
        told(f"read {size} B from files, rows/s", rows / median(files), digits=0),
        told(f"read {size} B by fetch, rows/s", rows / median(fetch), digits=0),
        told(f"transfer alone of {size} B, rows/s", rows / median(transfer), digits=0),
        told(f"transfer alone of {size} B with Spark's own settings, rows/s", rows / median(plain), digits=0),
    ]


def _in_turns(warm_ups: int, rounds: int, *works: Callable[[], float]) -> list[list[float]]:
    for work in works * warm_ups:
        work()
    return alternate(rounds, *works)


def bench_sink(spark: Any, scale: Scale, directory: str | None, size: int) -> list[Bar]:
    """Exactly-once writes against a writer that encodes the same and sends nothing."""
    rows = scale.rows[size] // 4
    frame = spark.range(0, rows, 1, TASKS).selectExpr(
        "cast(concat('key-', id) as binary) key", f"cast(repeat('x', {size}) as binary) value"
    )
    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        topic = TOPIC

        def write(name: str) -> float:
            writer = frame.write.format(name).mode("append").option("kafka.bootstrap.servers", broker.kafka)
            get_memory(rows * size)
            return seconds_of(lambda: writer.option("topic", topic).save())

        write("encode_only")
        ours, theirs = alternate(scale.rounds_of_writes, lambda: write("goqueue"), lambda: write("encode_only"))
        bars = []
        if has_connector(spark):
            exactly, at_least_once = _in_turns(
                1, scale.rounds_of_connector, lambda: write("goqueue"), lambda: write("kafka")
            )
            name = f"write {size} B exactly once, multiple of Spark's Kafka connector at least once"
            bars = [
                at_least(name, speed_ratio(exactly, at_least_once), CONNECTOR_SINK_RATIO_MIN),
                told(f"Spark's Kafka connector writes {size} B, rows/s", rows / median(at_least_once), digits=0),
            ]
    return [
        *bars,
        at_least(f"write {size} B exactly once, share of encoding alone", speed_ratio(ours, theirs), SINK_RATIO_MIN),
        told(f"write {size} B exactly once, rows/s", rows / median(ours), digits=0),
        told(f"encoding alone of {size} B, rows/s", rows / median(theirs), digits=0),
    ]


def bench_micro_batch(spark: Any, scale: Scale, directory: str | None) -> list[Bar]:
    """The time of a small micro-batch against that of a source that asks nobody."""
    each, batches = 1000, scale.micro_batches
    rows = each * batches

    def run(stream: Any) -> float:
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                stream.writeStream.format("noop")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            times = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
        return float(median(times[2:]))

    with real_broker(directory) as broker:
        fresh_topic(broker.kafka)
        topic = TOPIC
        fill(broker.kafka, 100, rows)
        ours_stream = spark.readStream.format("goqueue").options(
            **{"kafka.bootstrap.servers": broker.kafka, "subscribe": topic, "startingOffsets": "earliest"},
            maxOffsetsPerTrigger=str(each),
        )
        constant = spark.readStream.format("ceiling").options(rows=rows, each=each)
        ours, theirs = alternate(scale.rounds, lambda: run(ours_stream.load()), lambda: run(constant.load()))
    ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
    return [
        at_most("micro-batch, multiple of a constant Python source's", ratio, MICRO_BATCH_RATIO_MAX),
        told("micro-batch", median(ours), unit=" ms", digits=0),
        told("micro-batch of a constant Python source", median(theirs), unit=" ms", digits=0),
    ]


BENCHES: dict[str, Callable[[Any, Scale, str | None], list[Bar]]] = {
    "read100": lambda spark, scale, directory: bench_read(spark, scale, directory, 100),
    "read1000": lambda spark, scale, directory: bench_read(spark, scale, directory, 1000),
    "sink100": lambda spark, scale, directory: bench_sink(spark, scale, directory, 100),
    "sink1000": lambda spark, scale, directory: bench_sink(spark, scale, directory, 1000),
    "micro": bench_micro_batch,
}


def has_connector(spark: Any) -> bool:
    """Whether the session was started with the jars of Spark's own connector."""
    return bool(spark.conf.get("spark.jars", ""))


def connector() -> dict[str, str]:
    """The setting that brings Spark's own connector, if its jars can be had."""
    try:
        jars = connector_jars(Path(os.environ.get("GOQUEUE_CONNECTOR_JARS") or tempfile.mkdtemp()))
    except JarsMissing as error:
        print(error, file=sys.stderr)
        return {}
    return {"spark.jars": ",".join(map(str, jars))}


def main() -> int:
    """Run what was asked for and print the table."""
    options = command(__doc__, only=BENCHES, directory=True, size=True).parse_args()
    scale = QUICK if options.quick else smaller(FULL, options.size)
    # Workers import the sources from this tree.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    spark = goqueue.pipeline.session("bench", master=f"local[{TASKS}]", config=connector())
    for source in (Ceiling, EncodeOnly):
        spark.dataSource.register(source)
    bars = run(options.only, lambda name: BENCHES[name](spark, scale, options.directory))
    spark.stop()
    return finish(bars, quick=options.quick)


if __name__ == "__main__":
    sys.exit(main())
