"""Where the streams of a pipeline begin, asked of a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

from goqueue.pipeline.declared.load import load_text
from goqueue.pipeline.declared.running.starts import Starts

NOON_MS = 1_769_860_800_000
PIPELINE = """
name: late
broker: {broker}
checkpoint: {home}/state
sources:
  orders: {{topic: orders, start: {start}}}
sinks:
  - console: {{}}
"""


def test_a_stream_starts_at_the_first_message_of_a_time_and_stays_there(broker: BrokerProcess, tmp_path: Path) -> None:
    with RawClient(broker.kafka) as raw:
        raw.create_topic("orders", 2)
    producer = Producer({"bootstrap.servers": broker.kafka, "acks": "all"})
    for minutes in (-2, -1, 0, 1):
        producer.produce("orders", str(minutes), partition=0, timestamp=NOON_MS + minutes * 60_000)
    # Nothing is as young as that here.
    producer.produce("orders", "-3", partition=1, timestamp=NOON_MS - 180_000)
    assert producer.flush(30) == 0
    pipeline = load_text(PIPELINE.format(broker=broker.kafka, home=tmp_path, start="2026-01-31T12:00:00Z"))

    first = Starts(pipeline, "query").options("orders", pipeline.sources["orders"], "group")
    producer.produce("orders", "late", partition=1, timestamp=NOON_MS)
    assert producer.flush(30) == 0
    again = Starts(pipeline, "query").options("orders", pipeline.sources["orders"], "group")

    assert json.loads(first["startingOffsets"]) == {"orders": {"0": 2, "1": 1}}
    assert again["startingOffsets"] == first["startingOffsets"]
