"""A queue as a source on real Spark: leases, acknowledgement with the batch, several jobs, replays, dead letters."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import functions as sql
from tests.e2e.process import BrokerProcess

from goqueue.pipeline.queue.rejecting import reject


def send(broker: BrokerProcess, topic: str, first: int, count: int, **headers: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka})
    for number in range(first, first + count):
        producer.produce(topic, key=str(number), value=f"job {number}", headers=dict(headers))
    assert producer.flush(20) == 0


def queue(spark: Any, broker: BrokerProcess, topic: str, **options: Any) -> Any:
    reader = spark.readStream.format("goqueue").option("mode", "queue").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", broker.kafka).option("http", f"http://{broker.http}")
    return reader.options(**{"groupId": f"g-{topic}", **{name: str(one) for name, one in options.items()}}).load()


def lag(broker: BrokerProcess, group: str) -> int:
    with urllib.request.urlopen(f"http://{broker.http}/groups/{group}/offsets") as reply:
        return int(json.load(reply)["total_lag"])


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.1)


def values(folder: Path, spark: Any) -> list[str]:
    return sorted(row[0] for row in spark.read.parquet(str(folder)).selectExpr("CAST(value AS STRING)").collect())


def test_every_message_is_read_and_acknowledged_and_two_jobs_share_the_queue(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    source = topic(3)
    send(broker, source, 0, 700)
    queries = []
    for job in ("one", "other"):
        frame = queue(spark, broker, source, maxOffsetsPerTrigger=100, includeHeaders="true")
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / f"{job}.state"))
        queries.append(writer.format("parquet").option("path", str(tmp_path / job)).trigger(availableNow=True).start())
    for query in queries:
        assert query.awaitTermination(120)
    found = [values(tmp_path / job, spark) for job in ("one", "other") if list((tmp_path / job).glob("*.parquet"))]

    assert sorted(value for some in found for value in some) == sorted(f"job {number}" for number in range(700))
    until(lambda: lag(broker, f"g-{source}") == 0)
    # Begun again, from the same checkpoint and with more to do.
    send(broker, source, 700, 50)
    frame = queue(spark, broker, source)
    assert frame.columns[-2:] == ["deliveryCount", "receipt"]
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "one.state")).format("parquet")
    assert writer.option("path", str(tmp_path / "one")).trigger(availableNow=True).start().awaitTermination(120)
    until(lambda: lag(broker, f"g-{source}") == 0)


def test_a_batch_that_failed_runs_again_with_the_same_messages_and_poison_goes_to_the_dead_letters(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path, read: Callable[..., Any]
) -> None:
    source = topic()
    send(broker, source, 0, 5)
    seen: list[tuple[int, list[int]]] = []
    is_broken = [True]

    def work(frame: Any, number: int) -> None:
        rows = frame.persist()
        seen.append((number, sorted(row.offset for row in rows.collect())))
        if is_broken[0]:
            raise RuntimeError("the disk is full")
        bad = rows.filter("CAST(value AS STRING) = 'job 3'").withColumn("error", sql.lit("nobody does job 3"))
        assert reject(bad, http=f"http://{broker.http}") == 1

    def run() -> Any:
        writer = queue(spark, broker, source).writeStream.foreachBatch(work)
        query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        except Exception as error:  # noqa: BLE001 - Spark's own type
            return error
        return None

    assert "the disk is full" in str(run())
    is_broken[0] = False
    assert run() is None

    assert seen == [(0, [0, 1, 2, 3, 4]), (0, [0, 1, 2, 3, 4])]
    until(lambda: lag(broker, f"g-{source}") == 0)
    (letter,) = read(f"{source}.dlq", includeHeaders="true").collect()
    assert bytes(letter.value) == b"job 3"
    assert b"nobody does job 3" in [bytes(one.value) for one in letter.headers if one.value is not None]


def publish(broker: BrokerProcess, topic: str, **message: Any) -> None:
    request = urllib.request.Request(
        f"http://{broker.http}/topics/{topic}/messages",
        json.dumps(message).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()


def test_urgent_messages_come_first_and_delayed_ones_when_they_are_due(
    spark: Any, broker: BrokerProcess, topic: Callable[..., str], tmp_path: Path
) -> None:
    source = topic()
    for number in range(40):
        publish(broker, source, value=f"slow {number}", priority="background")
    for number in range(10):
        publish(broker, source, value=f"urgent {number}", priority="critical")
    publish(broker, source, value="in an hour", delay="1h")
    publish(broker, source, value="soon", delay="100ms")
    batches: list[list[str]] = []

    def work(frame: Any, _number: int) -> None:
        batches.append([row[0] for row in frame.selectExpr("CAST(value AS STRING)").collect()])

    writer = queue(spark, broker, source, maxOffsetsPerTrigger=10).writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        until(lambda: sum(map(len, batches)) >= 51)
    finally:
        query.stop()

    urgent = {f"urgent {number}" for number in range(10)}
    assert len(urgent & set(batches[0])) >= 8
    assert urgent <= {*batches[0], *batches[1]}
    assert sorted(value for some in batches for value in some) == sorted(
        [*urgent, *(f"slow {number}" for number in range(40)), "soon"]
    )
