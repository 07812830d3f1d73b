"""Many partitions on one node that may have few files open: start, idle cost, and every one read and written.

    python -m tests.bench.bench_partitions [--quick] [--directory DIR]

10,000 partitions with 1 GB in all, and `ulimit -n 1024`. The bars: it starts within 10 seconds, after a stop and after
a kill, takes less than 2 % of a core while nobody asks for anything, and every partition can be read and written.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_most, told
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

HANDLES = 1024
TOPICS = 10
RECORD_BYTES = 1000
START_SECONDS_MAX = 10.0
IDLE_PERCENT_MAX = 2.0
# Long enough for whatever is done once in a while, such as looking for what retention may delete.
IDLE_SECONDS = 60.0
SETTLE_SECONDS = 5.0
# Within a minute after a write each log gets a checkpoint: that is the end of the writing, not idling.
CHECKPOINT_SECONDS = 90.0
PATIENCE_SECONDS = 900.0


def main() -> int:
    """Run it and print the table."""
    parser = command(__doc__, directory=True)
    options = parser.parse_args()
    partitions, records = (500, 20) if options.quick else (10_000, 100)
    with tempfile.TemporaryDirectory(dir=options.directory) as home:
        broker = BrokerProcess(Path(home))
        broker.prefix = ("prlimit", f"--nofile={HANDLES}:{HANDLES}")
        try:
            return finish(_run(broker, partitions, records, quick=options.quick), quick=options.quick)
        finally:
            broker.kill()


def _run(broker: BrokerProcess, partitions: int, records: int, *, quick: bool) -> list[Bar]:
    per_topic = partitions // TOPICS
    broker.start()
    with RawClient(broker.kafka) as client:
        client.socket.settimeout(PATIENCE_SECONDS)
        for topic in range(TOPICS):
            client.create_topic(f"t{topic}", per_topic)
    bars = [told(f"partitions, each with {records} records of {RECORD_BYTES} bytes", partitions, digits=0)]
    bars.append(_say(told("seconds to write all of it, acks=1", _write(broker, per_topic, records))))
    _settle()
    bars.append(_say(at_most("start after a stop, seconds", _restart(broker, kill=False), START_SECONDS_MAX)))
    bars.append(_say(at_most("idle, % of a core", _idle_percent(broker, quick=quick), IDLE_PERCENT_MAX)))
    bars.append(_say(told("seconds to write one record to each", _write(broker, per_topic, 1))))
    bars.append(_say(told("seconds to read all of it", _read(broker, per_topic, (records + 1) * partitions))))
    bars.append(
        _say(
            at_most(
                "idle once all are open, % of a core",
                _idle_percent(broker, quick=quick, settle_seconds=CHECKPOINT_SECONDS),
                IDLE_PERCENT_MAX,
            )
        )
    )
    bars.append(
        _say(told("memory once all are open, MB", psutil.Process(broker.pid).memory_info().rss / 1e6, digits=0))
    )
    bars.append(_say(at_most("open files", psutil.Process(broker.pid).num_fds(), HANDLES, digits=0)))
    bars.append(_say(at_most("start after a kill, seconds", _restart(broker, kill=True), START_SECONDS_MAX)))
    bars.append(_say(told("seconds to read all of it again", _read(broker, per_topic, (records + 1) * partitions))))
    if "Traceback" in broker.output:
        raise RuntimeError(broker.output[-4000:])
    return bars


def _write(broker: BrokerProcess, per_topic: int, records: int) -> float:
    """Write to every partition in turn; fails if a record was not stored."""
    errors: list[KafkaError] = []

    def answered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = Producer({"bootstrap.servers": broker.kafka, "acks": 1, "linger.ms": 20, "log_level": 0})
    value = bytes(RECORD_BYTES)
    started = time.perf_counter()
    for topic in range(TOPICS):
        for partition in range(per_topic):
            for _ in range(records):
                while True:
                    try:
                        producer.produce(f"t{topic}", value, partition=partition, on_delivery=answered)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    left = producer.flush(PATIENCE_SECONDS)
    if left or errors:
        raise RuntimeError(f"{left} records have no answer, {len(errors)} were refused: {errors[:3]}")
    return time.perf_counter() - started


def _read(broker: BrokerProcess, per_topic: int, expected: int) -> float:
    """Read everything from the start; fails unless every record came."""
    consumer = Consumer(
        {"bootstrap.servers": broker.kafka, "group.id": "all", "enable.auto.commit": False, "log_level": 0}
    )
    started = time.perf_counter()
    seen = 0
    try:
        for topic in range(TOPICS):
            consumer.assign([TopicPartition(f"t{topic}", partition, 0) for partition in range(per_topic)])
            wanted, deadline = seen + expected // TOPICS, time.monotonic() + PATIENCE_SECONDS
            while seen < wanted:
                messages = consumer.consume(1000, 0.2)
                seen += sum(1 for one in messages if one.error() is None)
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{seen} records of {wanted} came")
    finally:
        consumer.close()
    if seen != expected:
        raise RuntimeError(f"{seen} records came, not {expected}")
    return time.perf_counter() - started


def _restart(broker: BrokerProcess, *, kill: bool) -> float:
    if kill:
        broker.kill()
    else:
        process = psutil.Process(broker.pid)
        process.terminate()
        broker.wait(PATIENCE_SECONDS)
    started = time.perf_counter()
    broker.start(seconds_max=PATIENCE_SECONDS)
    return time.perf_counter() - started


def _idle_percent(broker: BrokerProcess, *, quick: bool, settle_seconds: float = SETTLE_SECONDS) -> float:
    """Processor time that it takes while nobody asks for anything, as a share of one core."""
    process = psutil.Process(broker.pid)
    time.sleep(settle_seconds if not quick else SETTLE_SECONDS)
    before = process.cpu_times()
    seconds = 5.0 if quick else IDLE_SECONDS
    time.sleep(seconds)
    after = process.cpu_times()
    return max(100 * (after.user + after.system - before.user - before.system) / seconds, 0.0)


def _settle() -> None:
    time.sleep(SETTLE_SECONDS)


def _say(bar: Bar) -> Bar:
    print(f"  {bar.what}: {bar.figure} {bar.bar}", file=sys.stderr, flush=True)
    return bar


if __name__ == "__main__":
    sys.exit(main())
