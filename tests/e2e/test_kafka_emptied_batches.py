"""Batches whose records were all taken out: every client steps over them, whatever their codec was."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from uuid import UUID

import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http
from tests.e2e.kafka_clients import Aiokafka, Client, KafkaPython
from tests.e2e.process import BrokerProcess

from goqueue.codec.batch import HEADER_BYTES, parse_batch_header
from goqueue.codec.batch_encode import build_batch, encode_batch
from goqueue.codec.compression import Codec, compress
from goqueue.log.inspection.verify import verify_partition, walk_segment
from goqueue.log.partition_log import PartitionLog
from goqueue.log.settings import LogSettings
from goqueue.log.state.checkpoint import stored_topic_id
from goqueue.node.disk.os_files import OsFiles
from goqueue.pipeline.decoding.columns import Bounds, record_batches
from goqueue.pipeline.source.segment_reader import read_segment
from goqueue.pipeline.source.segments import DataDirectory
from goqueue.records import NewRecord, TopicPartition

CODECS = tuple(Codec)
SOURCES = ("deduplication", "delay", "compaction", "earlier")
# In a process of its own: where librdkafka cannot read a batch it ends the process.
CONFLUENT = """
import sys
from confluent_kafka import Consumer, TopicPartition
server, *topics = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": server, "group.id": "e2e", "enable.partition.eof": True, "log_level": 0})
consumer.assign([TopicPartition(topic, 0, 5) for topic in topics])
got, at_end = {}, set()
while len(at_end) < len(topics) and (message := consumer.poll(15)) is not None:
    if message.error() is not None:
        at_end.add(message.topic())
    else:
        got.setdefault(message.topic(), f"{message.offset()} {message.value().decode()}")
for topic in topics:
    print(topic, got.get(topic), "end" if topic in at_end else "stuck")
"""

SHARE = """
import sys, time
from confluent_kafka import ShareConsumer
server, group, *topics = sys.argv[1:]
consumer = ShareConsumer({"bootstrap.servers": server, "group.id": group, "log_level": 0})
consumer.subscribe(topics)
deadline, seen = time.monotonic() + 30, {topic: [] for topic in topics}
while not all(10 in one for one in seen.values()) and time.monotonic() < deadline:
    for one in consumer.poll(1.0):
        if one.error() is None:
            seen[one.topic()].append(one.offset())
consumer.close()
for topic in topics:
    print(topic, [one for one in seen[topic] if one <= 10])
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One topic for each way to an emptied batch and each codec: offsets 5 to 9 are empty, 10 is `behind`."""
    settings = {"GOQUEUE_LOG_RETENTION_CHECK_MS": "200", "GOQUEUE_LOG_COMPACTION_DIRTY_RATIO": "0.0"}
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), environment=settings).start()
    try:
        for codec in CODECS:
            by_deduplication(process, codec)
            by_delay(process, codec)
            produce(process, "earlier", codec, [(None, "first", {})] * 5, config={})
        for codec in CODECS:
            by_compaction(process, codec)
        for codec in CODECS:
            until_compacted(process, codec)
        producer_of.cache_clear()
        process.stop()
        for codec in CODECS:
            store_as_an_earlier_version(process, f"earlier-{codec.name}", codec)
        process.start()
        produce_behind(process)
        yield process
    finally:
        process.stop()


def produce(broker, source, codec, messages, *, config=None, **settings):
    """Send (key, value, headers) in one batch, which makes the topic if it is given a configuration."""
    topic = f"{source}-{codec.name}"
    if config is not None:
        Http(broker.http).post("/topics", {"name": topic, "num_partitions": 1, "config": config})
    producer = producer_of(broker.kafka, codec.name.lower(), **settings)
    for key, value, headers in messages:
        producer.produce(topic, value * 20, key=key, headers=headers, partition=0)
    assert producer.flush(15) == 0


@cache
def producer_of(server, compression, **settings):
    """Sequences count by partition, so one producer will do for all topics. Each new one takes half a second."""
    known = {"bootstrap.servers": server, "compression.type": compression, "linger.ms": 100, "log_level": 0}
    return Producer({**known, **settings})


def by_deduplication(broker, codec):
    messages = [(None, "first", {"goqueue-dedup-id": str(one)}) for one in range(5)]
    produce(broker, "deduplication", codec, messages, config={"goqueue.dedup.window.ms": "600000"})
    produce(broker, "deduplication", codec, messages, **{"enable.idempotence": True})


def by_delay(broker, codec):
    produce(broker, "delay", codec, [(None, "first", {})] * 5, config={"goqueue.delay.headers": "true"})
    produce(broker, "delay", codec, [(None, "later", {"goqueue-delay-ms": "3600000"})] * 5)


def by_compaction(broker, codec):
    """The second batch is the last of its producer: emptied, it stays to tell the sequence."""
    topic = f"compaction-{codec.name}"
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.bytes": "1048576"}
    keyed = [(f"k{one}", "first", {}) for one in range(5)]
    produce(broker, "compaction", codec, keyed, config=config)
    produce(broker, "compaction", codec, keyed, **{"enable.idempotence": True})
    http = Http(broker.http)
    behind = [{"key": f"k{one}", "value": "behind", "partition": 0} for one in range(5)]
    http.post(f"/topics/{topic}/messages", {"messages": behind[:1]})
    http.post(f"/topics/{topic}/messages", {"messages": behind[1:]})
    # Only sealed segments are compacted.
    http.post(f"/topics/{topic}/messages", {"key": "roll", "value": "." * 600_000, "partition": 0})
    http.post(f"/topics/{topic}/messages", {"key": "roll", "value": "." * 600_000, "partition": 0})


def until_compacted(broker, codec):
    http, topic = Http(broker.http), f"compaction-{codec.name}"
    deadline = time.monotonic() + 20
    while http.get(f"/topics/{topic}/messages?partition=0&offset=0&limit=1")["messages"][0]["offset"] < 10:
        assert time.monotonic() < deadline, "it was not compacted"
        time.sleep(0.05)


def store_as_an_earlier_version(broker, topic, codec):
    files = OsFiles(broker.data_dir)
    directory = f"logs/{topic}/0"
    topic_id = stored_topic_id(files, directory)
    assert isinstance(topic_id, UUID)
    log = PartitionLog.open(files, directory, settings=LogSettings(), topic_id=topic_id, now_ms=1)
    now_ms = int(time.time() * 1000)
    whole = encode_batch([NewRecord(None, b"gone")] * 5, codec=codec, now_ms=now_ms)
    packed = compress(codec, b"") if codec else b""
    emptied = build_batch(parse_batch_header(whole)._replace(count=0), packed, packed=True)
    log.append_batch(emptied, now_ms=now_ms, leader_epoch=1, thinned=True)
    log.close()
    files.close()


def produce_behind(broker):
    for source in ("deduplication", "delay", "earlier"):
        for codec in CODECS:
            Http(broker.http).post(f"/topics/{source}-{codec.name}/messages", {"value": "behind", "partition": 0})


@pytest.mark.parametrize("codec", CODECS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("client", [Aiokafka(), KafkaPython()], ids=lambda one: one.name)
def test_a_client_steps_over_an_emptied_batch(broker: BrokerProcess, source: str, codec: Codec, client: Client) -> None:
    got, *_ = client.consume(broker.kafka, f"{source}-{codec.name}", {0: 5}, 1)
    assert (got.offset, got.value) == (10, b"behind")


def topics_of(source: str) -> list[str]:
    return [f"{source}-{codec.name}" for codec in CODECS]


@pytest.mark.parametrize("source", SOURCES)
def test_librdkafka_steps_over_an_emptied_batch(broker: BrokerProcess, source: str) -> None:
    topics = topics_of(source)
    command = [sys.executable, "-c", CONFLUENT, broker.kafka, *topics]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{topic} 10 behind end" for topic in topics]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed: apt-get install kcat")
@pytest.mark.parametrize("codec", CODECS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", SOURCES)
def test_kcat_steps_over_an_emptied_batch(broker: BrokerProcess, source: str, codec: Codec) -> None:
    command = ["kcat", "-b", broker.kafka, "-C", "-t", f"{source}-{codec.name}", "-p", "0", "-o", "5", "-c", "1", "-q"]
    done = subprocess.run([*command, "-f", "%o %s"], capture_output=True, text=True, timeout=40, check=False)
    assert (done.returncode, done.stdout) == (0, "10 behind"), done.stderr


@pytest.mark.parametrize("source", SOURCES)
def test_a_share_group_gets_what_lies_around_an_emptied_batch(broker: BrokerProcess, source: str) -> None:
    topics = topics_of(source)
    command = [sys.executable, "-c", SHARE, broker.kafka, f"share-{source}", *topics]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    first = [] if source == "compaction" else [0, 1, 2, 3, 4]
    expected = [f"{topic} {[*first, 10]}" for topic in topics]
    assert (done.returncode, done.stdout.splitlines()) == (0, expected), done.stderr


@pytest.mark.parametrize("source", SOURCES)
def test_no_emptied_batch_is_stored_with_a_codec_any_more(broker: BrokerProcess, source: str) -> None:
    for codec in CODECS:
        path = broker.data_dir / f"logs/{source}-{codec.name}/0/{0:020d}.log"
        files = OsFiles(path.parent)
        file = files.open(path.name)
        emptied = [one.batch for one in walk_segment(file, path.name, 0) if not one.batch.count]
        file.close()
        files.close()
        (header,) = emptied
        assert (header.base_offset, header.last_offset) == (5, 9)
        if source != "earlier":
            assert (header.codec, header.size) == (Codec.NONE, HEADER_BYTES)
        if source in {"deduplication", "compaction"}:
            assert (header.producer_id >= 0, header.base_sequence, header.last_sequence) == (True, 0, 4)


@pytest.mark.parametrize("codec", CODECS, ids=lambda one: one.name)
@pytest.mark.parametrize("source", SOURCES)
def test_the_files_of_emptied_batches_are_sound_and_readable_without_a_broker(
    broker: BrokerProcess, source: str, codec: Codec
) -> None:
    """What `goqueue log verify` and Spark's reader of files go by."""
    topic = f"{source}-{codec.name}"
    files = OsFiles(broker.data_dir)
    assert verify_partition(files, f"logs/{topic}/0").damage == []
    files.close()
    place, bounds = TopicPartition(topic, 0), Bounds(5, 11)
    segment = DataDirectory(str(broker.data_dir)).segments(place)[0]
    rows = [
        (row["offset"], row["value"])
        for batches in read_segment(segment, 5, 11, 1 << 22)
        for piece in record_batches(place, batches, ["offset", "value"], bounds)
        for row in piece.to_pylist()
    ]
    assert rows == [(10, b"behind")]
