"""Topics read by a real Spark: every path gives the bytes, offsets and counts that Kafka's clients see."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.spark.kafka_truth import rows_of, transactional, truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa
from pyspark.errors import PySparkException

from goqueue.pipeline.spark.worker_heap import ARROW_KEEPS_MS

# Young enough for retention.
NOW_MS = int(time.time() * 1000) - 600_000
HEADERS = {"includeHeaders": "true"}
pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def paths(broker) -> dict[str, dict[str, str]]:
    """Every way to read: asked from the broker, from the files beside it, from the files alone."""
    data = str(broker.data_dir)
    return {
        "fetch": {},
        "files": {"transport": "files", "path": data},
        "auto": {"transport": "auto", "path": data},
        "offline": {"path": data},
    }


def fill(broker, topic, partitions=1, count=300, **settings) -> None:
    messages = [
        Sent(
            None if number % 11 == 0 else b"value %d" % number * (number % 40),
            None if number % 7 == 0 else b"key %d" % (number % 20),
            (("a", b"1"), ("goqueue-priority", b"%d" % (number % 5))) if number % 3 == 0 else (),
            timestamp_ms=NOW_MS + number,
            partition=number % partitions,
        )
        for number in range(count)
    ]
    Confluent().produce(broker.kafka, topic, messages, **settings)


def delete_records(broker, topic, offset) -> None:
    with RawClient(broker.kafka) as raw:
        part = {"partition_index": 0, "offset": offset}
        answer = raw.call(21, 2, topics=[{"name": topic, "partitions": [part]}], timeout=5000)
    assert answer["topics"][0]["partitions"][0]["error_code"] == 0


def failure(work) -> str:
    with pytest.raises(PySparkException) as told:
        work()
    lines = [line for line in str(told.value).splitlines() if line.strip() and "SQLSTATE" not in line]
    assert "Traceback" not in str(told.value), told.value
    assert not any(line.strip().startswith("at ") for line in lines), told.value
    return " ".join(lines)


def test_every_path_reads_what_kafkas_clients_read_in_every_compression(broker, topic, read):
    name = topic(3)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        fill(broker, name, 3, compression=compression)

    expected = truth(broker.kafka, name, 3)

    assert len(expected) == 1500
    for path, options in paths(broker).items():
        assert rows_of(read(name, **HEADERS, **options)) == expected, path


def test_a_compacted_topic_is_read_with_the_offsets_that_its_records_have(broker, topic, read):
    name = topic(
        1,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.01",
        segment_bytes="20000",
        min_compaction_lag_ms="0",
    )
    messages = [
        Sent(b"value %d" % number * 20, b"key %d" % (number % 30 if number % 7 else number)) for number in range(2000)
    ]
    for first in range(0, 2000, 100):
        Confluent().produce(broker.kafka, name, messages[first : first + 100])
    deadline = time.monotonic() + 30
    while len(expected := truth(broker.kafka, name)) > 1500:
        assert time.monotonic() < deadline, "nothing was compacted"

    offsets = [row[1] for row in expected]
    assert any(right - left > 1 for left, right in pairwise(offsets)), "there are gaps"
    for path, options in paths(broker).items():
        got = rows_of(read(name, **HEADERS, **options))
        # Compaction may have gone on meanwhile: what is left is the same, byte for byte.
        assert set(got) <= set(expected), path
        assert {row[3] for row in got} == {row[3] for row in expected}, path
        assert set(truth(broker.kafka, name)) <= set(got), path


def test_aborted_and_open_transactions_are_not_seen_unless_asked_for(broker, topic, read):
    name = topic()
    Confluent().produce(broker.kafka, name, [Sent(b"plain")])
    for number, commits in enumerate([True, False, True, False]):
        producer = transactional(broker.kafka, f"{name}-{number}")
        for one in range(20):
            producer.produce(name, b"%d-%d" % (number, one), partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if commits else producer.abort_transaction(10)
    opened = transactional(broker.kafka, f"{name}-open")
    opened.produce(name, b"open", partition=0)
    opened.flush(10)

    expected = truth(broker.kafka, name)

    assert len(expected) == 41
    for path, options in paths(broker).items():
        assert rows_of(read(name, **HEADERS, **options)) == expected, path
        everything = read(name, isolationLevel="read_uncommitted", **options)
        assert everything.count() == 82, path
    opened.abort_transaction(10)


def test_offsets_that_are_gone_fail_the_read_unless_told_otherwise(broker, topic, read):
    name = topic(1, segment_bytes="20000")
    fill(broker, name, count=1000)
    delete_records(broker, name, 400)
    gone = json.dumps({name: {"0": 100}})

    told = failure(lambda: read(name, startingOffsets=gone).count())

    assert f"{name}-0: offsets 100 to 399 are gone" in told
    assert "failOnDataLoss" in told
    assert read(name, startingOffsets=gone, failOnDataLoss="false").count() == 600
    offline = {"path": str(broker.data_dir), "transport": "files"}
    assert "are gone" in failure(lambda: read(name, startingOffsets=gone, **offline).count())
    assert read(name, startingOffsets=gone, failOnDataLoss="false", **offline).count() == 600


def test_retention_between_plan_and_read_is_noticed(broker, topic, read):
    name = topic(1, segment_bytes="20000")
    fill(broker, name, count=1000)
    strict, lenient = (read(name, failOnDataLoss=word).rdd for word in ("true", "false"))
    assert strict.getNumPartitions() == lenient.getNumPartitions() == 1
    delete_records(broker, name, 400)

    told = failure(strict.count)

    assert f"{name}-0: offsets 0 to 399 are gone" in told
    assert lenient.count() == 600


def test_filters_on_place_and_time_are_exact_and_read_nothing_else(broker, topic, read):
    name = topic(3)
    fill(broker, name, 3)
    table = read(name, pushFilters="true")
    every = [(row.partition, row.offset, row.timestamp) for row in table.collect()]
    moment = sorted(row[2] for row in every)[150]
    text = moment.isoformat(" ")

    cases = {
        "partition = 1": lambda p, o, t: p == 1,
        "partition in (0, 2) and offset >= 10 and offset < 12": lambda p, o, t: p in (0, 2) and 10 <= o < 12,
        "offset = 5": lambda p, o, t: o == 5,
        "offset > 97 or partition = 9": lambda p, o, t: o > 97,
        f"timestamp >= timestamp'{text}'": lambda p, o, t: t >= moment,
        f"timestamp = timestamp'{text}' and topic = '{name}'": lambda p, o, t: t == moment,
        "topic = 'another'": lambda p, o, t: False,
        "not (partition = 1)": lambda p, o, t: p != 1,
    }
    for condition, keeps in cases.items():
        table = read(name, pushFilters="true")
        found = sorted((row.partition, row.offset, row.timestamp) for row in table.filter(condition).collect())
        assert found == sorted(row for row in every if keeps(*row)), condition
    few = read(name, pushFilters="true", minPartitions=6).filter("partition = 1 and offset >= 10 and offset < 12")
    assert few.rdd.getNumPartitions() <= 2
    plain = read(name)
    assert [plain.filter("partition = 1").count(), plain.count()] == [100, 300]
    both = plain.filter("partition = 1").union(plain.filter("offset < 10"))
    assert both.count() == 130


def test_positions_by_offset_by_time_and_by_pattern(broker, topic, read, spark):
    name = topic(2)
    fill(broker, name, 2)
    stamp = NOW_MS + 100

    assert read(name, startingOffsets=json.dumps({name: {"0": 140, "1": -2}})).count() == 160
    assert read(name, endingOffsets=json.dumps({name: {"0": 10, "1": -1}})).count() == 160
    assert read(name, startingTimestamp=stamp).count() == 200
    assert read(name, startingTimestamp=stamp, endingTimestamp=stamp + 50).count() == 50
    by_time = json.dumps({name: {"0": stamp, "1": stamp + 100}})
    assert read(name, startingOffsetsByTimestamp=by_time).count() == 150
    assert read(name, path=str(broker.data_dir), startingTimestamp=stamp).count() == 200
    more = {"kafka.bootstrap.servers": broker.kafka}
    pattern = spark.read.format("goqueue").options(subscribePattern=name[:-1] + ".", **more).load()
    assert pattern.count() == 300
    assign = spark.read.format("goqueue").options(assign=json.dumps({name: [1]}), **more).load()
    assert {row.partition for row in assign.collect()} == {1}


def test_columns_tasks_and_priorities_are_as_asked(broker, topic, read, spark):
    name = topic(1)
    fill(broker, name)

    assert read(name).columns == [
        *("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "priority")
    ]
    few = read(name, columns="offset, priority")
    assert {row.offset: row.priority for row in few.collect()} == {
        number: number % 5 if number % 3 == 0 else 2 for number in range(300)
    }
    assert read(name, minPartitions=4).rdd.getNumPartitions() == 4
    assert read(name, maxRecordsPerPartition=100).rdd.getNumPartitions() == 3
    assert read(topic(1)).count() == 0
    frames = read(name, view="frames").selectExpr("sum(records)", "max(lastOffset)", "min(codec)").first()
    assert tuple(frames) == (300, 299, "none")
    chosen = spark.read.format("goqueue").schema("offset bigint, value binary")
    chosen = chosen.options(subscribe=name, **{"kafka.bootstrap.servers": broker.kafka}).load()
    assert chosen.columns == ["offset", "value"]
    assert chosen.count() == 300


def test_a_stream_reads_everything_once_in_bounded_batches_and_shows_its_lag(broker, topic, spark, tmp_path):
    from goqueue.client.wire import WireClient
    from goqueue.client.wire.offsets import committed_offsets
    from goqueue.records import TopicPartition

    name = topic(2)
    fill(broker, name, 2)

    def run() -> object:
        stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
        stream = stream.options(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="120", groupId="lag")
        query = (
            stream.load()
            .writeStream.format("memory")
            .queryName("seen")
            .outputMode("append")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert query.exception() is None
        return query

    query = run()
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [120, 120, 60]
    assert spark.sql("select distinct partition, offset from seen").count() == 300
    with WireClient(broker.kafka) as client:
        places = [TopicPartition(name, 0), TopicPartition(name, 1)]
        assert committed_offsets(client, "lag", places) == dict.fromkeys(places, 150)


def test_a_stream_fails_or_goes_on_when_its_offsets_are_gone(broker, topic, spark, tmp_path):
    name = topic(1, segment_bytes="20000")
    fill(broker, name, count=1000)

    def run(strict: str) -> list[int]:
        stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
        stream = stream.options(subscribe=name, startingOffsets="earliest", failOnDataLoss=strict)
        query = (
            stream.load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    assert run("true") == [1000]
    fill(broker, name, count=1000)
    delete_records(broker, name, 1500)
    assert "offsets 1000 to 1499 are gone" in failure(lambda: run("true"))
    assert run("false") == [500]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribes": "x"}, "option subscribes: is not known; did you mean subscribe?"),
        ({}, "give exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"subscribe": "x", "startingOffsets": "newest"}, "option startingOffsets: 'newest' is neither a word"),
        ({"subscribe": "x", "minPartitions": "0"}, "option minPartitions: '0' is not an integer above zero"),
        ({"subscribe": "x", "columns": "offset,vallew"}, "option columns: there is no column 'vallew'"),
        ({"subscribe": "x", "kafka.security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI is not one of"),
        ({"subscribe": "x", "path": "/nowhere", "transport": "files"}, "/nowhere is not a data directory"),
        ({"subscribe": "x", "kafka.bootstrap.servers": "127.0.0.1:1"}, "no answer from 127.0.0.1:1"),
    ],
)
def test_bad_input_is_told_in_one_line(broker, spark, options, told):
    reader = spark.read.format("goqueue").option("kafka.bootstrap.servers", broker.kafka).options(**options)
    assert told in failure(lambda: reader.load().count())


def test_a_schema_that_does_not_fit_is_told_in_one_line(broker, topic, spark):
    reader = spark.read.format("goqueue").schema("value string").option("kafka.bootstrap.servers", broker.kafka)
    told = failure(lambda: reader.option("subscribe", topic()).load().count())
    assert "column value is binary, not string" in told


def test_workers_of_our_sessions_keep_arrows_memory(spark):
    def look(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict(
                {"kept": [os.environ.get(ARROW_KEEPS_MS)], "by": [pa.default_memory_pool().backend_name]}
            )

    (row,) = spark.range(1, numPartitions=1).mapInArrow(look, "kept string, by string").collect()
    assert tuple(row) == ("10000", "mimalloc")
