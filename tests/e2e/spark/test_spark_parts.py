"""The source's and the sink's parts without a JVM: planners, tasks and commits as Spark calls them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient
from tests.e2e.spark.kafka_truth import transactional, truth

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from goqueue.client.wire import BrokerRefused
from goqueue.partitioner import partition_for_key
from goqueue.pipeline.errors import DataLost, RowRefused
from goqueue.pipeline.sink.sink_options import parse_sink_options
from goqueue.pipeline.sink.writers import drop, publish, write_rows
from goqueue.pipeline.source.batch_reader import BatchReader
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.stream_reader import StreamReader


def source(broker, topic: str, **options: str):
    given = {"kafka.bootstrap.servers": broker.kafka, "subscribe": topic, "includeHeaders": "true", **options}
    return parse_source_options(given)


def sink(broker, topic: str, **options: str):
    return parse_sink_options({"kafka.bootstrap.servers": broker.kafka, "topic": topic, **options})


def rows(options) -> list[tuple]:
    reader = BatchReader(options, options.columns)
    found = []
    for task in reader.partitions():
        for batch in reader.read(task):
            found += [
                (
                    *(row["partition"], row["offset"], round(row["timestamp"].timestamp() * 1000)),
                    *(row["key"], row["value"], tuple((one["key"], one["value"]) for one in row["headers"] or ())),
                )
                for row in batch.to_pylist()
            ]
    return sorted(found)


def batches(values: list[bytes], **columns: list) -> Iterator[pa.RecordBatch]:
    arrays = {"value": pa.array(values, pa.binary()), **{name: pa.array(one) for name, one in columns.items()}}
    yield pa.RecordBatch.from_pydict(arrays)


def test_every_path_and_compression_gives_what_kafkas_clients_read(broker, topic):
    name = topic(2)
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        messages = [
            Sent(b"v%d" % n * (n % 50) or None, b"k%d" % n, (("a", b"1"),) * (n % 3), partition=n % 2)
            for n in range(500)
        ]
        Confluent().produce(broker.kafka, name, messages, compression=compression)
    for number, commits in enumerate([True, False, True]):
        producer = transactional(broker.kafka, f"{name}-{number}")
        for one in range(20):
            producer.produce(name, b"%d-%d" % (number, one), partition=0)
        producer.flush(10)
        producer.commit_transaction(10) if commits else producer.abort_transaction(10)

    expected = truth(broker.kafka, name, 2)

    assert len(expected) == 2540
    data = str(broker.data_dir)
    for more in ({}, {"path": data, "transport": "files"}, {"path": data}, {"fetchBytes": "3k", "minPartitions": "7"}):
        assert rows(source(broker, name, **more)) == expected, more
    offline = parse_source_options({"path": data, "subscribe": name, "includeHeaders": "true"})
    assert rows(offline) == expected
    dirty = rows(source(broker, name, isolationLevel="read_uncommitted"))
    assert dirty == truth(broker.kafka, name, 2, isolation="read_uncommitted")
    assert len(dirty) == 2560


def test_a_compacted_topic_keeps_its_offsets_on_every_path(broker, topic):
    name = topic(1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_bytes="20000")
    for first in range(0, 2000, 100):
        messages = [Sent(b"value %d" % n * 20, b"key %d" % (n % 30 if n % 7 else n)) for n in range(first, first + 100)]
        Confluent().produce(broker.kafka, name, messages)
    deadline = time.monotonic() + 30
    while len(before := truth(broker.kafka, name)) > 1500:
        assert time.monotonic() < deadline, "nothing was compacted"

    for more in ({}, {"path": str(broker.data_dir), "transport": "files"}):
        got = rows(source(broker, name, **more))
        # Compaction may go on meanwhile: what is read lies between what was there before and after.
        assert set(truth(broker.kafka, name)) <= set(got) <= set(before), more


def test_a_stream_is_planned_in_shares_and_writes_its_progress(broker, topic):
    from goqueue.client.wire import WireClient
    from goqueue.client.wire.offsets import committed_offsets
    from goqueue.records import TopicPartition

    name = topic(2)
    Confluent().produce(broker.kafka, name, [Sent(b"%d" % n, partition=0 if n < 90 else 1) for n in range(100)])
    reader = StreamReader(source(broker, name, startingOffsets="earliest", maxOffsetsPerTrigger="50"), ["offset"])

    first = reader.initialOffset()
    second = reader.latestOffset(first, ReadMaxRows(50))
    third = reader.latestOffset(second, ReadMaxRows(50))

    assert reader.initialOffset() == first
    assert [second[name], third[name]] == [{"0": 45, "1": 5}, {"0": 90, "1": 10}]
    assert sum(batch.num_rows for task in reader.partitions(first, second) for batch in reader.read(task)) == 50
    assert reader.latestOffset(third, ReadAllAvailable()) == third
    group = first["@group"]
    assert group.startswith(f"spark-{name}-")
    with WireClient(broker.kafka) as client:
        places = [TopicPartition(name, 0), TopicPartition(name, 1)]
        assert committed_offsets(client, group, places) == dict(zip(places, (90, 10), strict=True))
    reader.stop()


def test_an_epoch_is_published_whole_and_once(broker, topic):
    name = topic(2)
    options = sink(broker, name)

    written = [write_rows(options, name, 5, batches([b"%d-%d" % (task, n) for n in range(100)])) for task in range(3)]
    assert truth(broker.kafka, name, 2) == []
    publish(options, list(written), 5)
    publish(options, list(written), 5)
    again = write_rows(options, name, 5, batches([b"replayed"]))
    publish(options, [again], 5)

    assert again.participant is None
    found = sorted(row[4] for row in truth(broker.kafka, name, 2))
    assert found == sorted(b"%d-%d" % (task, n) for task in range(3) for n in range(100))


def test_what_a_failed_try_staged_is_never_seen(broker, topic):
    name = topic(1)
    options = sink(broker, name)
    failed = write_rows(options, name, 0, batches([b"first try"]))
    drop(options, failed.writer, 0)

    second = write_rows(options, name, 0, batches([b"second try"]))
    with pytest.raises(BrokerRefused):
        publish(options, [failed, second], 0)
    publish(options, [second], 0)

    assert [row[4] for row in truth(broker.kafka, name)] == [b"second try"]


def test_rows_without_a_key_of_small_epochs_are_spread(broker, topic):
    name = topic(3)
    options = sink(broker, name)
    for epoch in range(3):
        publish(options, [write_rows(options, name, epoch, batches([b"of %d" % epoch]))], epoch)
    assert {row[0] for row in truth(broker.kafka, name, 3)} == {0, 1, 2}


@pytest.mark.parametrize("partitioner", ["murmur2", "murmur3"])
def test_rows_with_a_key_go_where_the_topic_says(broker, topic, partitioner):
    name = topic(5, goqueue_partitioner=partitioner)
    keys = [b"key %d" % n for n in range(100)]
    options = sink(broker, name)

    publish(options, [write_rows(options, name, 0, batches(keys, key=keys))], 0)

    found = {row[3]: row[0] for row in truth(broker.kafka, name, 5)}
    assert found == {key: partition_for_key(key, 5, partitioner) for key in keys}


def test_at_least_once_needs_no_commit(broker, topic):
    name = topic(1)
    write_rows(sink(broker, name, guarantee="at-least-once", compression="lz4"), name, 0, batches([b"a", b"b"]))
    assert [row[4] for row in truth(broker.kafka, name)] == [b"a", b"b"]


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_rows_with_a_delay_come_when_they_are_due(broker, topic, guarantee):
    name = topic(1, goqueue_delay_headers="true")
    options = sink(broker, name, guarantee=guarantee)
    started = time.monotonic()

    written = write_rows(options, name, 0, batches([b"now", b"later"], delay=[None, 1500]))
    if guarantee == "exactly-once":
        assert truth(broker.kafka, name) == []
        publish(options, [written], 0)

    seen: list[bytes | None] = []
    while len(seen) < 2:
        assert time.monotonic() < started + 20, "the delayed row did not come"
        seen = [row[4] for row in truth(broker.kafka, name)]
    assert seen == [b"now", b"later"]
    assert time.monotonic() - started >= 1.5


def test_unfit_rows_fail_or_are_set_aside(broker, topic):
    name, dead = topic(1, max_message_bytes="2000"), topic(1)
    values = [b"fits", bytes(5000), b"nowhere"]
    columns = {"partition": [0, 0, 3]}

    with pytest.raises(RowRefused, match=r"^a row of 5000 bytes is larger than topic .*deadLetterTopic\)$"):
        write_rows(sink(broker, name), f"{name}-strict", 0, batches(values, **columns))
    options = sink(broker, name, deadLetterTopic=dead)
    written = write_rows(options, name, 0, batches(values, **columns))
    publish(options, [written], 0)

    assert (written.rows, written.dead_letters) == (3, 2)
    assert [row[4] for row in truth(broker.kafka, name)] == [b"fits"]
    letters = [(row[4], dict(row[5])["goqueue-error"]) for row in truth(broker.kafka, dead)]
    assert [value for value, _ in letters] == [bytes(5000), b"nowhere"]
    assert letters[1][1].decode() == f"topic '{name}' has no partition 3, it has 1"


def test_offsets_beyond_the_log_are_lost_data_or_passed_over(broker, topic):
    name = topic(1)
    Confluent().produce(broker.kafka, name, [Sent(b"x")] * 10)
    with RawClient(broker.kafka) as raw:
        raw.call(21, 2, topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": 4}]}], timeout=5000)
    start = json.dumps({name: {"0": 1}})
    assert len(rows(source(broker, name, startingOffsets=start, failOnDataLoss="false"))) == 6
    with pytest.raises(Exception, match=f"{name}-0: offsets 1 to 3 are gone"):
        rows(source(broker, name, startingOffsets=start))


def test_records_that_go_between_plan_and_read_are_not_read_from_a_batch_that_is_still_there(broker, topic):
    name = topic(1)
    Confluent().produce(broker.kafka, name, [Sent(b"x")] * 10)
    found = {}
    for word in ("false", "true"):
        options = source(broker, name, failOnDataLoss=word)
        reader = BatchReader(options, ["offset"])
        found[word] = (reader, reader.partitions())
    with RawClient(broker.kafka) as raw:
        raw.call(21, 2, topics=[{"name": name, "partitions": [{"partition_index": 0, "offset": 4}]}], timeout=5000)

    reader, tasks = found["false"]
    assert [one for task in tasks for batch in reader.read(task) for one in batch["offset"].to_pylist()] == [
        *range(4, 10)
    ]
    reader, tasks = found["true"]
    with pytest.raises(DataLost, match="offsets 0 to 3 are gone"):
        list(reader.read(tasks[0]))
