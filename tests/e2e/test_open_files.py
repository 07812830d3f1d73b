"""More partitions than the process may have files open: all of them are written, read and described."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess

from goqueue.codec.batch_encode import encode_batch
from goqueue.records import NewRecord

HANDLES = 256
PARTITIONS = 600


@pytest.fixture
def broker(tmp_path):
    """A broker that may have few files open, so that few partitions are many."""
    process = BrokerProcess(tmp_path)
    process.prefix = ("prlimit", f"--nofile={HANDLES}:{HANDLES}")
    yield process.start()
    process.kill()


def write_all(address, topic, acks="all"):
    """One message to every partition; returns the errors."""
    errors = []
    # Each message once: a refusal must show.
    settings = {"acks": acks, "linger.ms": 0, "log_level": 0, "message.send.max.retries": 0}
    producer = Producer({"bootstrap.servers": address, **settings})
    for partition in range(PARTITIONS):
        producer.produce(
            topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(error) if error else None
        )
    assert producer.flush(60) == 0
    return errors


def ends(api, topic):
    return [one["latest"] for one in api.get(f"/topics/{topic}")["partition_offsets"].values()]


@pytest.mark.parametrize("acks", ["all", "1"])
def test_all_partitions_are_written_read_and_described_after_a_crash_and_a_stop(broker, acks):
    api = Http(broker.http)
    with RawClient(broker.kafka) as raw:
        raw.create_topic("many", PARTITIONS)

    for written in (1, 2):
        assert write_all(broker.kafka, "many", acks) == []
        assert api.get("/readyz")["status"] == "ok"
        assert ends(api, "many") == [written] * PARTITIONS
        if written == 1:
            broker.kill()
        else:
            assert broker.stop() == 0
        broker.start()
        assert ends(api, "many") == [written] * PARTITIONS

    for partition in (0, PARTITIONS // 2, PARTITIONS - 1):
        messages = api.get(f"/topics/many/partitions/{partition}/messages?offset=0")["messages"]
        assert [one["value"] for one in messages] == ["x", "x"]
    assert len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) < HANDLES
    assert "Traceback" not in broker.output


@pytest.mark.parametrize("acks", ["all", "1"])
def test_a_producer_retries_until_there_are_file_handles_again(broker, acks):
    api = Http(broker.http)
    with RawClient(broker.kafka) as raw:
        raw.create_topic("few", 20)
    delivered, errors = [], []
    producer = Producer({"bootstrap.servers": broker.kafka, "acks": acks, "linger.ms": 0, "log_level": 0})
    # The connection is there before the handles are gone.
    producer.produce("few", b"first", partition=0)
    assert producer.flush(20) == 0
    in_use = {int(one.name) for one in Path(f"/proc/{broker.pid}/fd").iterdir()}
    lowest_free = min(set(range(HANDLES)) - in_use)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (lowest_free, HANDLES))

    for partition in range(20):
        producer.produce(
            "few",
            b"x",
            partition=partition,
            on_delivery=lambda error, message: errors.append(error) if error else delivered.append(message.partition()),
        )
    deadline = time.monotonic() + 30
    while "EMFILE" not in broker.output:
        producer.poll(0.05)
        assert time.monotonic() < deadline, "no write was refused"
    assert errors == []
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (HANDLES, HANDLES))

    assert producer.flush(60) == 0
    assert errors == []
    assert sorted(delivered) == list(range(20))
    assert ends(api, "few") == [2] + [1] * 19
    while api.ask("GET", "/readyz").status != 200:
        assert time.monotonic() < deadline + 30, api.ask("GET", "/readyz").body
        time.sleep(0.05)


def test_with_few_handles_left_new_connections_are_refused_and_the_existing_ones_go_on(broker):
    with contextlib.ExitStack() as stack:
        kept = http.client.HTTPConnection(broker.http, timeout=20)
        stack.callback(kept.close)
        raw = stack.enter_context(RawClient(broker.kafka))
        raw.create_topic("orders", 1)
        assert ready(kept) == 200
        # Connections that only stand there, until one more would take what is reserved.
        idle = stack.enter_context(contextlib.ExitStack())
        host, port = broker.kafka.split(":")
        for _ in range(HANDLES):
            if "hardly any file handles left" in broker.output:
                break
            idle.enter_context(socket.create_connection((host, int(port)), timeout=20))
            # Answered after the connection before it was accepted, or refused.
            assert ready(kept) == 200
        assert "hardly any file handles left" in broker.output
        assert len(list(Path(f"/proc/{broker.pid}/fd").iterdir())) <= HANDLES - 40

        refused = Http(broker.http).ask("GET", "/readyz")
        with RawClient(broker.kafka) as late:
            assert late.is_closed_by_broker()
        written = raw.produce("orders", encode_batch([NewRecord(None, b"x")], now_ms=1))

        assert refused.status == 503
        assert refused.body["error"]["code"] == "too_busy"
        assert written["error_code"] == 0
        assert ready(kept) == 200
        idle.close()
        deadline = time.monotonic() + 20
        while Http(broker.http).ask("GET", "/readyz").status != 200:
            assert time.monotonic() < deadline, "new connections are refused for ever"
            time.sleep(0.05)
    assert "Traceback" not in broker.output


def ready(connection):
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    answer.read()
    return answer.status
