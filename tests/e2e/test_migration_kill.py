"""kill -9 of a real broker at every step of a migration: the directory ends up as without any kill."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.fixtures.former_layout import reading

# Shares are of the records that are taken over: what the next attempt finds then is half written.
STEPS = ("begun anew", "10%", "50%", "90%", "written", "participants rewritten", "marked", "removed")
KILLED_SERVER = str(Path(reading.__file__).with_name("killed_server.py"))
EMPTY_SECONDS = 2.0


def migrated(fixture: str, home: Path, kills: tuple[str, ...]) -> BrokerProcess:
    """A broker on a former directory, killed at each of the steps first."""
    broker = BrokerProcess(home)
    reading.unpack(fixture, home)
    for step in kills:
        broker.prefix = (sys.executable, KILLED_SERVER, step)
        broker.spawn()
        assert broker.wait() == -signal.SIGKILL, f"{step}: {broker.output}"
    broker.prefix = ()
    return broker.start()


def drained(broker: BrokerProcess, topic: str, group: str) -> Counter[str]:
    """All that a queue group still gets, acknowledged."""
    http, found = Http(broker.http), Counter[str]()
    while got := http.post(f"/topics/{topic}/receive", {"group": group, "limit": 100, "wait": "3s"})["messages"]:
        found.update(str(one["value"]) for one in got)
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in got]})
    return found


def stored(broker: BrokerProcess, topic: str, isolation: str) -> Counter[bytes]:
    """All that readers see, until nothing has come for a while."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
    )
    partitions = range(Http(broker.http).get(f"/topics/{topic}")["partitions"])
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    found, last = Counter[bytes](), time.monotonic()
    while time.monotonic() - last < EMPTY_SECONDS:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found[message.value()] += 1
            last = time.monotonic()
    consumer.close()
    return found


@pytest.mark.slow
def test_a_broker_that_is_killed_at_every_step_of_migrating_queues_delivers_what_another_does(tmp_path: Path) -> None:
    found = []
    for kills in ((), STEPS):
        broker = migrated("queues", tmp_path / f"{len(kills)}-kills", kills)
        try:
            found.append(
                [*(drained(broker, "work", group) for group in ("g", "h")), stored(broker, "out", "read_committed")]
            )
        finally:
            broker.stop()
    undisturbed, killed = found
    assert killed == undisturbed
    assert all(undisturbed)
    assert max(undisturbed[0].values()) == 1


@pytest.mark.slow
def test_a_broker_that_is_killed_at_every_step_of_migrating_delays_delivers_what_another_does(tmp_path: Path) -> None:
    found = []
    for kills in ((), STEPS):
        broker = migrated("delays", tmp_path / f"{len(kills)}-kills", kills)
        try:
            # The prepared transaction of the directory stays undecided: nothing behind it is shown as committed.
            values = stored(broker, "orders", "read_uncommitted")
        finally:
            broker.stop()
        # How often a recurring message has run depends on the hour.
        del values[b"beat"]
        found.append(values)
    undisturbed, killed = found
    assert killed == undisturbed
    assert undisturbed[b"fired and appended"] == 1
    assert max(undisturbed.values()) == 1
