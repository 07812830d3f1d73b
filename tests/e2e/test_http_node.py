"""What the node says of itself: health, figures, metrics, its own description."""

from __future__ import annotations

import re
import socket
import time
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.http import Http

from goqueue.node.metrics import broker_metrics as metrics
from goqueue.node.metrics import storage_metrics
from goqueue.node.metrics.series import Series


@pytest.fixture
def http(broker):
    return Http(broker.http)


def families(http):
    text = http.get("/metrics").decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_a_healthy_broker_says_so_and_names_its_checks(http):
    for path in ("/health", "/readyz"):
        found = http.get(path)
        assert found["status"] == "ok"
        assert {"listeners", "metadata", "disk", "logs"} <= {check["name"] for check in found["checks"]}
    assert http.get("/livez")["status"] == http.get("/healthz")["status"] == "ok"


def test_a_full_disk_makes_it_not_ready_but_alive(start_broker):
    http = Http(start_broker(GOQUEUE_DURABILITY_DISK_FREE_BYTES_MIN=2**62).http)

    answer = http.ask("GET", "/readyz")

    assert answer.status == 503
    assert [check["name"] for check in answer.body["checks"] if not check["ok"]] == ["disk"]
    assert http.get("/livez")["status"] == "ok"
    http.post("/topics", {"name": "refusing"})
    assert http.refused("POST", "/topics/refusing/messages", {"value": "x"})[0] == 507


def test_the_bare_address_leads_to_the_documentation(http):
    for place in ("/", "/v1/"):
        answer = http.ask("GET", place)
        assert answer.status == 200
        assert b"<h1>GoQueue" in answer.body


def test_the_time_of_kafka_requests_is_in_the_metrics(http, broker):
    producer = Producer({"bootstrap.servers": broker.kafka})
    producer.produce("timed", b"x")
    assert producer.flush(10) == 0

    samples = families(http)["goqueue_broker_request_latency_seconds"].samples

    counts = {one.labels["api"]: one.value for one in samples if one.name.endswith("_count") and "api" in one.labels}
    assert counts["Produce"] >= 1
    assert counts["Metadata"] >= 1


def test_a_browser_on_the_kafka_port_is_told_apart_in_the_log(broker):
    host, _, port = broker.kafka.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""

    assert "it speaks HTTP, which is served on another port" in broker.output


def test_version_and_figures(http):
    http.publish("counted", 1, 2, 3)

    assert re.fullmatch(r"\d+\.\d+\.\d+.*", http.get("/version")["version"])
    stats = http.get("/stats")
    assert stats["topic_stats"]["counted"]["messages"] == 3
    assert stats["total_size_bytes"] > 0


def test_every_series_that_is_declared_is_fed(http, broker):
    connected = exercise(http, broker)

    modules = (metrics, storage_metrics)
    declared = {one.name for module in modules for one in vars(module).values() if isinstance(one, Series)}
    assert len(declared) > 20
    deadline = time.monotonic() + 20
    # Some count what is done when the disk has it, after the answer.
    while hungry := declared - QUIET - fed(http):
        assert time.monotonic() < deadline, hungry
        time.sleep(0.02)
    assert declared <= {name.removeprefix("goqueue_") for name in families(http)}
    for consumer in connected:
        consumer.close()


def fed(http):
    """The series that have counted something."""
    return {
        name.removeprefix("goqueue_")
        for name, family in families(http).items()
        if any(sample.value != 0 for sample in family.samples)
    }


# Series that stay at nought as long as nothing goes wrong; each has its own test where it does.
QUIET = {
    "tls_certificate_days_left",
    "storage_fsync_errors",
    "storage_write_errors",
    "storage_fsync_whole_disk",
    "storage_segments_deleted",
    "storage_compactions",
    "storage_records_compacted",
    "storage_checkpoints",
    "storage_housekeeping_errors",
    "storage_damaged_frames",
    "storage_repaired_segments",
    "storage_repaired_records",
    "storage_replicas_copied_anew",
    "storage_repair_errors",
    "storage_partitions_reopened",
    "storage_unreadable_stretches",
    "consumer_revocation_timeouts",
    "broker_delayed_messages_expired",
    "transactions_timed_out",
    "transactions_marker_retries",
    "transactions_prepared_participants",
}


def exercise(http, broker):
    """Everything that a series counts, once; returns the clients that are still connected."""
    http.post("/topics", {"name": "metered", "num_partitions": 2})
    http.publish("metered", *range(20))
    http.ask(
        "POST",
        "/topics/metered/messages",
        {"value": "x", "producer_id": 1, "producer_epoch": 0, "sequence": 5, "partition": 0},
    )
    http.ask(
        "POST",
        "/topics/metered/messages",
        {"value": "x", "producer_id": 1, "producer_epoch": 0, "sequence": 9, "partition": 0},
    )
    http.post("/topics/metered/partitions/0/truncate", {"before_offset": 1})
    producer = Producer({"bootstrap.servers": broker.kafka, "acks": "all"})
    producer.produce("metered", b"over the wire")
    assert producer.flush(30) == 0
    consumers = [
        Consumer(
            {
                "bootstrap.servers": broker.kafka,
                "group.id": "metered-readers",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        for _ in range(2)
    ]
    for consumer in consumers:
        consumer.subscribe(["metered"])
    read = 0
    while read < 20 or not all(consumer.assignment() for consumer in consumers):
        for consumer in consumers:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                read += 1
                # One that meets a rebalance is refused, as in Kafka; the next is not.
                consumer.commit(message)
    http.publish("metered", "behind")
    exercise_delay(http)
    exercise_transactions(http)
    return consumers


def exercise_delay(http):
    """One that fires, one that is cancelled, one that waits."""
    path = "/topics/metered-later"
    (soon,), (never,), _ = [
        http.post(f"{path}/messages", {"value": "x", "delay": delay})["results"] for delay in ("20ms", "1h", "1h")
    ]
    assert soon["delayed"]
    http.delete(f"{path}/delayed/{never['slot']}")
    deadline = time.monotonic() + 20
    while not http.get(f"{path}/messages?from=earliest")["messages"]:
        assert time.monotonic() < deadline


def exercise_transactions(http):
    http.put("/topics/metered-together")
    ids = http.post("/producers/init", {"transactional_id": "metered"})
    of = {"producer_id": ids["producer_id"], "epoch": ids["epoch"]}
    http.post("/transactions/begin", {**of, "transactional_id": "metered"})
    http.post("/transactions/publish", {**of, "topic": "metered-together", "value": "x", "sequence": 0})
    http.post("/transactions/commit", {**of, "transactional_id": "metered"})


def test_the_description_covers_every_route_and_can_be_read(http):
    document = http.get("/openapi.json")

    assert document["openapi"] == "3.1.0"
    assert "/topics/{topic}/messages" in document["paths"]
    assert "POST" in http.get("/docs").decode()


def test_browsers_from_elsewhere_are_let_in_only_if_configured(http, start_broker):
    asked = {"Origin": "https://shop.example"}
    assert "Access-Control-Allow-Origin" not in http.ask("GET", "/topics", headers=asked).headers
    assert http.ask("OPTIONS", "/topics", headers=asked).status == 405

    open_to_one = Http(start_broker(GOQUEUE_HTTP_CORS_ORIGIN="https://shop.example").http)
    assert (
        open_to_one.ask("GET", "/topics", headers=asked).headers["Access-Control-Allow-Origin"]
        == "https://shop.example"
    )
    preflight = open_to_one.ask("OPTIONS", "/topics", headers=asked)
    assert (preflight.status, preflight.headers["Access-Control-Allow-Methods"]) == (204, "GET, POST")


def test_callers_that_say_nothing_are_cut_off_and_the_others_served(start_broker):
    broker = start_broker(GOQUEUE_HTTP_FIRST_REQUEST_MS=300, GOQUEUE_HTTP_BODY_MS_MAX=300)
    host, _, port = broker.http.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as silent,
        socket.create_connection((host, int(port))) as slow_head,
        socket.create_connection((host, int(port))) as slow_body,
    ):
        slow_head.sendall(b"GET /health HT")
        slow_body.sendall(b"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        for caller in (silent, slow_head, slow_body):
            caller.settimeout(20)
        assert silent.recv(100) == b""
        assert slow_head.recv(100) == b""
        assert b"504" in slow_body.recv(100)
    assert Http(broker.http).get("/health")["status"] == "ok"


def test_one_connection_too_many_is_told_so_and_closed_at_once(start_broker):
    broker = start_broker(GOQUEUE_LIMITS_CONNECTIONS_MAX=3)
    host, _, port = broker.http.rpartition(":")
    callers = [socket.create_connection((host, int(port))) for _ in range(3)]
    try:
        with socket.create_connection((host, int(port))) as too_many:
            too_many.settimeout(20)
            with suppress(ConnectionResetError):
                assert too_many.recv(1000).startswith(b"HTTP/1.1 503 ")
                assert too_many.recv(1000) == b""
    finally:
        for caller in callers:
            caller.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b'POST /topics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"n\r\nZZ\r\n',
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: localhost\r\nBad Header\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    ],
)
def test_malformed_http_is_refused_without_a_traceback_in_the_log(start_broker, request_bytes):
    broker = start_broker()
    host, port = broker.http.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request_bytes)
        answer = connection.recv(4096)

    assert answer.split(b" ")[1] == b"400", answer
    Http(broker.http).get("/livez")
    assert "Traceback" not in broker.output
