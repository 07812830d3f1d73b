"""Batches that nobody can read, sent over the wire: refused at the door, or set aside while all else is delivered."""

from __future__ import annotations

import base64
import time

import pytest
from tests.e2e.http import Http
from tests.e2e.kafka_raw import SECONDS_MAX, RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.codec.builders import raw_batch

from goqueue.codec.compression import Codec, compress

INVALID_RECORD, UNSUPPORTED_COMPRESSION = 87, 76
GARBAGE = b"\x01" * 60


def produce(broker: BrokerProcess, topic: str, batch: bytes) -> int:
    """The error code that the batch is answered with."""
    with RawClient(broker.kafka) as client:
        return int(client.produce(topic, batch)["error_code"])


def take(http: Http, topic: str, group: str, **fields: object) -> list[str]:
    """Receive and ack until nothing comes any more."""
    found: list[str] = []
    while messages := http.post(f"/topics/{topic}/receive", {"group": group, "limit": 10, **fields})["messages"]:
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in messages]})
        found += [one["value"] for one in messages]
    return sorted(found)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_poisoned_batch_stops_nobody(start_broker, codec):
    broker = start_broker()
    http, topic = Http(broker.http), "poisoned"
    http.post("/topics", {"name": topic, "num_partitions": 2})
    for partition in (0, 1):
        http.publish(topic, f"before {partition}", partition=partition)
    batch = raw_batch(compress(codec, GARBAGE), count=3, attributes=codec)
    assert produce(broker, topic, batch) == 0
    for partition in (0, 1):
        http.publish(topic, f"behind {partition}", partition=partition)
    everything = ["before 0", "before 1", "behind 0", "behind 1"]

    assert take(http, topic, "a") == everything
    read = http.get(f"/topics/{topic}/messages?from=earliest")
    assert sorted(one["value"] for one in read["messages"]) == everything
    (hole,) = read["unreadable"]
    assert (hole["partition"], hole["first_offset"], hole["last_offset"]) == (0, 1, 3)
    assert hole["reason"]
    ready = http.get("/readyz")
    assert ready["status"] == "degraded"
    assert "poisoned-0 offsets 1 to 3" in str(ready)

    broker.restart()
    http = Http(broker.http)
    assert take(http, topic, "a") == []
    assert take(http, topic, "b", partition=0) == ["before 0", "behind 0"]
    lag = http.get("/groups/a/offsets")["total_lag"]
    assert lag == 0
    letters: list[dict[str, str]] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(letters) < 2 and time.monotonic() < deadline:
        letters = http.get(f"/topics/{topic}.dlq/messages?from=earliest&encoding=base64")["messages"]
    assert [base64.b64decode(one["value"])[16:] for one in letters] == [batch[16:]] * 2


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (raw_batch(GARBAGE, count=2**31 - 1), INVALID_RECORD),
        (raw_batch(GARBAGE, count=3, last_offset_delta=1000), INVALID_RECORD),
        (raw_batch(GARBAGE, count=3, attributes=5), UNSUPPORTED_COMPRESSION),
    ],
)
def test_a_header_that_cannot_be_right_is_refused(broker, batch, code):
    http = Http(broker.http)
    http.post("/topics", {"name": f"door-{abs(hash(batch))}", "num_partitions": 1})

    assert produce(broker, f"door-{abs(hash(batch))}", batch) == code
