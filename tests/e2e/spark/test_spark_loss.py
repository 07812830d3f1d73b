"""What a stream does when its topic is not the one that its checkpoint speaks of: no trigger reads on in silence."""

from __future__ import annotations

import json
import time

import pytest
from tests.e2e.kafka_clients import Confluent, Sent
from tests.e2e.kafka_raw import RawClient

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from goqueue.client.wire import WireClient
from goqueue.pipeline.errors import DataLost, TopicRecreated
from goqueue.pipeline.source.batch_reader import BatchReader
from goqueue.pipeline.source.options import parse_source_options
from goqueue.pipeline.source.stream_reader import StreamReader

pytestmark = pytest.mark.timeout(400)


def fill(broker, topic: str, count: int, partitions: int = 1) -> None:
    Confluent().produce(broker.kafka, topic, [Sent(b"%d" % n, partition=n % partitions) for n in range(count)])


def recreate(broker, topic: str, count: int, partitions: int = 1) -> None:
    with RawClient(broker.kafka) as raw:
        answer = raw.call(20, 6, topics=[{"name": topic, "topic_id": None}], timeout=5000)
        assert answer["responses"][0]["error_code"] == 0, answer
    with WireClient(broker.kafka) as client:
        deadline = time.monotonic() + 20
        while client.topics([topic]):
            assert time.monotonic() < deadline
        client.create_topic(topic, partitions)
    if count:
        fill(broker, topic, count, partitions)


def reader(broker, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": broker.kafka, "subscribe": topic, "startingOffsets": "earliest", **options}
    return StreamReader(parse_source_options(given), ["partition", "offset"])


def read(stream: StreamReader, start: dict, end: dict) -> list[tuple[int, int]]:
    return sorted(
        (row["partition"], row["offset"])
        for task in stream.partitions(start, end)
        for batch in stream.read(task)
        for row in batch.to_pylist()
    )


@pytest.mark.parametrize("trigger", ["available now", "by time"])
@pytest.mark.parametrize(("count", "partitions"), [(0, 1), (10, 1), (100, 1), (300, 1), (100, 3), (300, 3)])
def test_a_restart_on_a_recreated_topic_fails_or_reads_the_new_topic_whole(broker, topic, trigger, count, partitions):
    name = topic(2)
    fill(broker, name, 100, 2)
    before = reader(broker, name)
    checkpoint = before.latestOffset(before.initialOffset(), ReadAllAvailable())
    before.stop()
    recreate(broker, name, count, partitions)

    strict, lenient = reader(broker, name), reader(broker, name, failOnDataLoss="false")
    for one in (strict, lenient):
        if trigger == "available now":
            one.prepareForTriggerAvailableNow()

    with pytest.raises(TopicRecreated, match=f"topic '{name}' was deleted and created again"):
        strict.latestOffset(checkpoint, ReadAllAvailable())
    end = lenient.latestOffset(checkpoint, ReadAllAvailable())
    if count:
        assert len(read(lenient, checkpoint, end)) == count
        assert lenient.latestOffset(end, ReadAllAvailable()) == end
    else:
        assert end == checkpoint
    strict.stop()
    lenient.stop()


def test_a_batch_that_runs_again_on_a_recreated_topic_does_not_read_the_new_one(broker, topic):
    name = topic()
    fill(broker, name, 100)
    before = reader(broker, name)
    start = before.initialOffset()
    end = before.latestOffset(start, ReadAllAvailable())
    before.stop()
    recreate(broker, name, 300)

    # Spark plans a batch that it finds uncommitted without asking for the latest offset.
    strict, lenient = reader(broker, name), reader(broker, name, failOnDataLoss="false")

    with pytest.raises(TopicRecreated):
        read(strict, start, end)
    assert read(lenient, start, end) == []
    assert len(read(lenient, end, lenient.latestOffset(end, ReadAllAvailable()))) == 300
    strict.stop()
    lenient.stop()


def test_a_checkpoint_of_an_older_version_notices_a_shorter_topic_and_learns_the_id(broker, topic):
    name = topic()
    fill(broker, name, 10)
    old = {name: {"0": 100}, "@group": "g"}
    strict, lenient = reader(broker, name), reader(broker, name, failOnDataLoss="false")
    lenient.prepareForTriggerAvailableNow()
    strict.prepareForTriggerAvailableNow()

    with pytest.raises(DataLost, match=f"{name}-0: offsets 10 to 99 are gone"):
        strict.latestOffset(old, ReadAllAvailable())
    # Kafka's connector goes on at the new end: what comes next is read.
    end = lenient.latestOffset(old, ReadAllAvailable())
    assert end[name] == {"0": 10}
    assert read(lenient, old, end) == []
    assert set(end["@ids"]) == {name}
    fill(broker, name, 5)
    later = reader(broker, name)
    assert read(later, end, later.latestOffset(end, ReadAllAvailable())) == [(0, n) for n in range(10, 15)]
    for one in (strict, lenient, later):
        one.stop()


def test_records_that_arrive_while_a_run_of_what_is_there_begins_are_no_loss(broker, topic):
    name = topic()
    fill(broker, name, 10)
    stream = reader(broker, name, startingOffsets="latest")
    stream.prepareForTriggerAvailableNow()
    fill(broker, name, 5)
    start = stream.initialOffset()

    assert start[name] == {"0": 15}
    assert stream.latestOffset(start, ReadAllAvailable()) == start
    stream.stop()


@pytest.mark.parametrize(("count", "told"), [(300, "was deleted and created again"), (3, "was deleted and created")])
def test_a_table_whose_topic_is_recreated_between_plan_and_read_fails(broker, topic, count, told):
    name = topic()
    fill(broker, name, 100)
    options = parse_source_options({"kafka.bootstrap.servers": broker.kafka, "subscribe": name})
    table = BatchReader(options, ["offset"])
    tasks = table.partitions()
    recreate(broker, name, count)

    with pytest.raises(TopicRecreated, match=told):
        list(table.read(tasks[0]))


def test_a_log_that_ends_before_what_was_planned_fails_after_the_poll_timeout_instead_of_hanging(broker, topic):
    name = topic()
    fill(broker, name, 10)
    start, end = {name: {"0": 0}}, {name: {"0": 20}}
    beyond = {name: {"0": 15}}
    quick = {"kafkaConsumer.pollTimeoutMs": "100"}
    strict, lenient = reader(broker, name, **quick), reader(broker, name, failOnDataLoss="false", **quick)

    with pytest.raises(DataLost, match=f"{name}-0: offsets 10 to 19 are gone"):
        read(strict, start, end)
    with pytest.raises(DataLost, match=f"{name}-0: offsets 15 to 19 are gone"):
        read(strict, beyond, end)
    assert len(read(lenient, start, end)) == 10
    assert read(lenient, beyond, end) == []
    strict.stop()
    lenient.stop()


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"once": True}, {"processingTime": "200 milliseconds"}])
def test_a_query_fails_under_every_trigger_when_its_topic_was_recreated_shorter(
    broker, topic, spark, tmp_path, trigger
):
    name = topic()
    fill(broker, name, 100)

    def start(how, **options):
        stream = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", broker.kafka)
        stream = stream.options(subscribe=name, startingOffsets="earliest", **options).load()
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.trigger(**how).start()

    assert start({"availableNow": True}).awaitTermination(60)
    recreate(broker, name, 10)

    with pytest.raises(PySparkException, match="was deleted and created again"):
        start(trigger).awaitTermination(60)
    query = start({"availableNow": True}, failOnDataLoss="false")
    assert query.awaitTermination(60)
    assert [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]] == [10]
    (last,) = (json.loads(line) for line in last_offset(tmp_path))
    assert last[name] == {"0": 10}


def last_offset(folder) -> list[str]:
    newest = max((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda one: int(one.name))
    return [line for line in newest.read_text().splitlines() if line.startswith("{") and "@group" in line]
