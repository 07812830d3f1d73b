"""Rows written by a real Spark: whole, once, in their places, or refused in one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.e2e.spark.kafka_truth import truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def failure(work) -> str:
    with pytest.raises(PySparkException) as told:
        work()
    text = str(told.value)
    assert "Traceback" not in text, text
    assert "\n\tat " not in text, text
    return text


def write(frame, broker, topic=None, **options) -> None:
    writer = frame.write.format("goqueue").mode("append").option("kafka.bootstrap.servers", broker.kafka)
    if topic is not None:
        writer = writer.option("topic", topic)
    writer.options(**options).save()


def run_stream(spark, broker, source, target, checkpoint, **options) -> None:
    stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
    stream = stream.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="100").load()
    query = (
        stream.select("key", "value", "headers" if options.pop("headers", False) else "timestamp")
        .writeStream.format("goqueue")
        .option("kafka.bootstrap.servers", broker.kafka)
        .option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .options(**options)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.exception() is None


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_every_column_of_a_batch_arrives(spark, broker, topic, guarantee):
    name = topic(3)
    moment = datetime.now(UTC).replace(microsecond=123000)
    rows = [
        (b"k%d" % n, None if n == 3 else b"v" * n, [("a", b"1"), ("b", None)] if n % 2 else None, n % 3, moment, n % 5)
        for n in range(60)
    ]
    kinds = "key binary, value binary, headers array<struct<key:string,value:binary>>, partition int, "
    frame = spark.createDataFrame(rows, kinds + "timestamp timestamp, priority int")

    write(frame.repartition(2), broker, name, guarantee=guarantee, compression="zstd")

    stamp = round(moment.timestamp() * 1000)
    expected = sorted(
        (
            *(n % 3, stamp, b"k%d" % n, None if n == 3 else b"v" * n),
            (("a", b"1"), ("b", None)) * (n % 2) + (("goqueue-priority", b"%d" % (n % 5)),) * (n % 5 != 2),
        )
        for n in range(60)
    )
    found = sorted((p, stamp, key, value, headers) for p, _, stamp, key, value, headers in truth(broker.kafka, name, 3))
    assert found == expected


def test_text_is_written_and_rows_without_a_partition_go_by_their_key(spark, broker, topic):
    import mmh3

    first, second = topic(4), topic(4)
    frame = spark.range(1000).select(
        expr("cast(id as string)").alias("key"),
        expr("concat('value ', id)").alias("value"),
        expr(f"if(id % 2 = 0, '{first}', '{second}')").alias("topic"),
    )

    write(frame, broker)

    for name, remainder in ((first, 0), (second, 1)):
        found = truth(broker.kafka, name, 4)
        assert {row[3] for row in found} == {b"%d" % n for n in range(remainder, 1000, 2)}
        assert all(row[0] == mmh3.hash(row[3], 0, signed=False) % 4 for row in found)


def test_a_table_that_was_read_is_copied_to_the_topic_of_the_option(spark, broker, topic, read):
    source, target = topic(2), topic(2)
    frame = spark.range(20).selectExpr(
        "cast(id as string) key", "cast(id as string) value", "cast(id % 2 as int) partition"
    )
    write(frame, broker, source)

    write(read(source), broker, target)

    assert read(source).count() == 20
    copied, original = (
        [(r.partition, bytes(r.key)) for r in read(name).orderBy("value").collect()] for name in (target, source)
    )
    assert copied == original


def test_batches_are_no_larger_than_their_topic_takes(spark, broker, topic):
    name = topic(1, max_message_bytes="5000")
    frame = spark.range(100).selectExpr("cast(concat(id, repeat('x', 1000)) as binary) value")

    write(frame, broker, name)

    assert sorted(row[4] for row in truth(broker.kafka, name)) == sorted(b"%d" % n + b"x" * 1000 for n in range(100))


def test_a_write_that_fails_leaves_nothing_to_see(spark, broker, topic):
    name = topic()
    frame = spark.range(2000).select(
        expr("cast(id as string)").alias("value"), expr("if(id = 1999, 7, 0)").alias("partition")
    )

    told = failure(lambda: write(frame.repartition(4), broker, name))

    assert f"topic '{name}' has no partition 7, it has 1" in told
    assert truth(broker.kafka, name) == []


def test_a_stream_whose_last_batch_runs_again_writes_nothing_twice(spark, broker, topic, tmp_path):
    source, target = topic(2), topic(2)
    write(spark.range(350).selectExpr("cast(id as string) key", "cast(id as string) value"), broker, source)
    checkpoint = tmp_path / "checkpoint"
    run_stream(spark, broker, source, target, checkpoint)
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda one: int(one.name))
    assert len(commits) >= 4

    # As if the process had died after the sink's commit and before Spark's own.
    commits[-1].unlink()
    for checksum in (checkpoint / "commits").glob(".*.crc"):
        checksum.unlink()
    run_stream(spark, broker, source, target, checkpoint)

    found = [row[4] for row in truth(broker.kafka, target, 2)]
    assert sorted(found) == sorted(b"%d" % n for n in range(350))


def test_rows_that_do_not_fit_fail_or_go_to_the_dead_letters(spark, broker, topic):
    name, dead = topic(1, max_message_bytes="2000"), topic()
    frame = spark.createDataFrame(
        [
            ("fits", name, 0, 2),
            ("x" * 5000, name, 0, 2),
            ("lost", "nowhere", 0, 2),
            ("odd", name, 9, 2),
            ("hot", name, 0, 8),
        ],
        "value string, topic string, partition int, priority int",
    )

    assert "a row of 5000 bytes is larger than topic" in failure(lambda: write(frame.limit(2), broker))
    write(frame, broker, deadLetterTopic=dead)

    assert [row[4] for row in truth(broker.kafka, name)] == [b"fits"]
    letters = {dict(row[5])["goqueue-error"].decode().split(":")[0] for row in truth(broker.kafka, dead)}
    assert letters == {
        f"a row of 5000 bytes is larger than topic '{name}' takes (1864)",
        "there is no topic 'nowhere'",
        f"topic '{name}' has no partition 9, it has 1",
        "priority 8 is none of 0 to 4, critical, high, normal, low, background",
    }


@pytest.mark.parametrize(
    ("select", "options", "told"),
    [
        ("id", {}, "the table has no column 'value'; it has id"),
        ("cast(id as string) value, id", {}, "the sink knows no column 'id'"),
        ("id value", {}, "column value is bigint; it must be binary or string"),
        ("cast(id as string) value", {"topic": None}, "option topic: is missing"),
        ("cast(id as string) value", {"topic": "nowhere"}, "there is no topic 'nowhere': create it first"),
        ("cast(id as string) value", {"guarantee": "twice"}, "'twice' is not one of exactly-once, at-least-once"),
        ("cast(id as string) value", {"compresionn": "zstd"}, "did you mean compression?"),
        (
            "cast(id as string) value, 5 as delay",
            {},
            "does not hold rows back: set its goqueue.delay.headers to true",
        ),
        ("cast(id as string) value", {"kafka.bootstrap.servers": "127.0.0.1:1"}, "no answer from 127.0.0.1:1"),
    ],
)
def test_bad_input_is_told_in_one_line(spark, broker, topic, select, options, told):
    options = {"topic": topic(), **options}
    given = {name: value for name, value in options.items() if value is not None}
    frame = spark.range(1).selectExpr(*select.split(", "))
    assert told in failure(lambda: write(frame, broker, **given))
