"""The whole story of one message, whatever client sent it, before and after kill -9."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.kafka_python import KafkaProducer
from tests.e2e.process import BrokerProcess

import goqueue.client
from goqueue.protos import common_pb2, publish_pb2

GROUP = "billing"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
DELAYED = {"goqueue-delay-ms": b"300"}


def until(check: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)
    return found


# --- one message, sent by each kind of client -------------------------------------------------


def by_http(broker: BrokerProcess, topic: str) -> None:
    message = {"key": "k", "value": "v", "delay": "300ms"}
    sent = Http(broker.http).ask("POST", f"/topics/{topic}/messages", message, headers={"X-Client-Id": "shop"})
    assert sent.status == 200, sent


def by_confluent_kafka(broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.kafka, "client.id": "shop"})
    producer.produce(topic, b"v", b"k", headers=DELAYED, partition=0)
    assert producer.flush(30) == 0


def by_kafka_python(broker: BrokerProcess, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.kafka, client_id="shop")
    producer.send(topic, b"v", b"k", headers=list(DELAYED.items()), partition=0).get(30)
    producer.close()


def by_aiokafka(broker: BrokerProcess, topic: str) -> None:
    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.kafka, client_id="shop") as producer:
            await producer.send_and_wait(topic, b"v", b"k", headers=list(DELAYED.items()), partition=0)

    asyncio.run(send())


def by_the_python_client(broker: BrokerProcess, topic: str) -> None:
    async def send() -> None:
        async with goqueue.client.connect(f"http://{broker.http}") as client, client.producer() as producer:
            await producer.send(topic, b"v", key=b"k", delay="300ms")

    asyncio.run(send())


def by_grpc(broker: BrokerProcess, topic: str) -> None:
    record = common_pb2.Record(key=b"k", value=b"v", partition=0, delay=timedelta(milliseconds=300))
    with grpc.insecure_channel(broker.grpc) as channel:
        publish = channel.unary_unary(
            "/goqueue.v1.PublishService/Publish",
            request_serializer=publish_pb2.PublishRequest.SerializeToString,
            response_deserializer=publish_pb2.PublishResponse.FromString,
        )
        metadata = (("x-client-id", "shop"), ("traceparent", TRACEPARENT))
        publish(publish_pb2.PublishRequest(topic=topic, record=record), metadata=metadata, timeout=30)


SENDERS = {
    "grpc": (by_grpc, "grpc"),
    "http": (by_http, "http"),
    "confluent-kafka": (by_confluent_kafka, "kafka"),
    "kafka-python": (by_kafka_python, "kafka"),
    "aiokafka": (by_aiokafka, "kafka"),
    "python": (by_the_python_client, "http"),
}


def receive(http: Http, topic: str, visibility: str = "30s") -> dict[str, Any]:
    body = {"group": GROUP, "client_id": "worker-1", "wait": "20s", "visibility": visibility, "limit": 1}
    found: list[dict[str, Any]] = http.post(f"/topics/{topic}/receive", body)["messages"]
    return found[0]


def live(http: Http, topic: str) -> int:
    """Lead the one message of a topic through everything; returns the offset where it ended."""
    first = receive(http, topic)
    http.post("/messages/visibility", {"receipts": [first["receipt_handle"]], "visibility": "20s"})
    http.post("/messages/nack", {"receipts": [first["receipt_handle"]], "error": "card declined", "delay": "50ms"})
    receive(http, topic, visibility="200ms")
    third = receive(http, topic)
    http.post("/messages/reject", {"receipts": [third["receipt_handle"]], "error": "no such card"})
    until(lambda: http.ask("GET", f"/topics/{topic}/dlq").body.get("total"))
    http.post(f"/topics/{topic}/dlq/redrive", {"headers": {"fixed": "yes", "goqueue-delay-ms": None}})
    last = receive(http, topic)
    assert last["headers"]["fixed"] == "yes"
    http.post("/messages/ack", {"receipts": [last["receipt_handle"]]})
    return int(last["offset"])


def expected(protocol: str) -> list[str]:
    """Place 0 is the slot, 1 the topic, 2 the dead letters, 3 the topic again."""
    return [
        f"0 delay.scheduled {protocol}",
        "0 delay.ready -> 1",
        "1 publish.received internal",
        "1 publish.persisted",
        "1 consume.fetched billing worker-1 1",
        "1 visibility.extended billing worker-1 1",
        "1 consume.nacked billing worker-1 1 card declined",
        "1 consume.fetched billing worker-1 2",
        "1 visibility.timeout billing worker-1 2",
        "1 consume.fetched billing worker-1 3",
        "1 consume.rejected billing worker-1 3 no such card",
        "1 dlq.routed billing 3 -> 2",
        "2 publish.received internal",
        "2 publish.persisted",
        "2 redrive.sent -> 3",
        "3 publish.received internal",
        "3 publish.persisted",
        "3 consume.fetched billing worker-1 1",
        "3 consume.acked billing worker-1 1",
    ]


def story(http: Http, topic: str, offset: int, partition: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"/topics/{topic}/partitions/{partition}/messages/{offset}/story")
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """The story by places, without what comes at another moment each time: syncs, markers, looks at dead letters."""
    numbers = {place: number for number, place in enumerate(found["places"])}
    shown: list[tuple[int, str]] = []
    for event in found["events"]:
        said = event.get("attributes", {})
        if event["event"] in {"publish.synced", "transaction.committed", "publish.partitioned"}:
            continue
        if event["topic"].endswith(".dlq") and event["event"].startswith("consume."):
            continue
        place = numbers[f"{event['topic']}/{event['partition']}@{event['offset']}"]
        words = [str(place), event["event"]]
        words += [
            str(said[name]) for name in ("protocol", "group", "member", "delivery_count", "error") if name in said
        ]
        words += ["->", str(numbers[event["to"]])] if event.get("to") in numbers else []
        shown.append((place, " ".join(words)))
    return [line for _, line in sorted(shown, key=lambda one: one[0])]


def test_the_story_of_a_message_that_went_through_everything(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_LISTENERS_GRPC="127.0.0.1:0")
    http = Http(broker.http)
    before: dict[str, dict[str, Any]] = {}
    ended: dict[str, int] = {}
    for name, (send, protocol) in SENDERS.items():
        http.post("/topics", {"name": name, "num_partitions": 1, "config": {"goqueue.delay.headers": "true"}})
        send(broker, name)
        ended[name] = live(http, name)
        before[name] = until(lambda name=name: _if_complete(story(http, name, ended[name])))
        assert lines(before[name]) == expected(protocol)
        sender = before[name]["events"][0]["attributes"]
        assert sender["address"] == "127.0.0.1"
        assert name == "python" or sender["client"] == "shop"
    assert before["grpc"]["trace_id"] in TRACEPARENT
    # What is written 100 ms later survives a kill.
    time.sleep(0.3)
    broker.kill()
    broker.start()
    http = Http(broker.http)
    for name in SENDERS:
        after = story(http, name, ended[name])
        assert after["events"] == before[name]["events"]
        assert (after["places"], after["trace_id"]) == (before[name]["places"], before[name]["trace_id"])
        slots, _, slot = after["places"][0].partition("/")
        partition, offset = slot.split("@")
        assert slots == f"__delayed:{name}"
        assert story(http, slots, int(offset), int(partition))["events"] == after["events"], "from its first place"
        letter = after["places"][2].rpartition("@")[2]
        assert story(http, f"{name}.dlq", int(letter))["events"] == after["events"], "from its dead letter"


def _if_complete(found: dict[str, Any]) -> dict[str, Any] | None:
    """The story once the last record is synced and its transaction's end is told: nothing more happens then."""
    last = found["places"][-1]
    kinds = {one["event"] for one in found["events"] if f"{one['topic']}/{one['partition']}@{one['offset']}" == last}
    is_complete = found["status"] == "completed" and kinds >= {"publish.synced", "transaction.committed"}
    return found if is_complete else None


# --- streams, traces, commands ----------------------------------------------------------------


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http)


def goqueue_command(broker: BrokerProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goqueue", *words, "--server", f"http://{broker.http}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_kafka_consumer_and_its_commits_are_told(broker: BrokerProcess, http: Http) -> None:
    http.post("/topics", {"name": "stream", "num_partitions": 1})
    http.publish("stream", "a", "b", "c")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka,
            "group.id": "reports",
            "client.id": "reporter",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["stream"])
    message = until(lambda: consumer.poll(1))
    consumer.commit(message, asynchronous=False)
    consumer.close()
    first, second = story(http, "stream", 0), story(http, "stream", 1)
    fetched = next(one for one in first["events"] if one["event"] == "consume.fetched")
    assert (fetched["attributes"]["client"], fetched["attributes"]["protocol"]) == ("reporter", "kafka")
    committed = [one["attributes"] for one in first["events"] if one["event"] == "group.committed"]
    assert [(one["group"], one["committed"]) for one in committed] == [("reports", 1)]
    assert (first["status"], second["status"]) == ("completed", "pending")


def test_a_request_with_a_traceparent_gives_it_to_its_messages(broker: BrokerProcess, http: Http) -> None:
    headers = {"traceparent": TRACEPARENT}
    http.ask("POST", "/topics/traced/messages", {"messages": [{"value": "a"}, {"value": "b"}]}, headers=headers)
    [found, _] = http.get("/topics/traced/messages?from=earliest")["messages"]
    assert found["headers"]["traceparent"] == TRACEPARENT
    trace = http.get("/traces/4bf92f3577b34da6a3ce929d0e0e4736")
    assert trace["spans"][0]["parent_span_id"] == "00f067aa0ba902b7"
    explained = goqueue_command(broker, "explain", trace["trace_id"])
    assert explained.returncode == 0, explained.stderr
    assert "publish.received" in explained.stdout


def test_messages_are_explained_by_place_receipt_key_and_trace_id(broker: BrokerProcess, http: Http) -> None:
    http.post("/topics", {"name": "named", "num_partitions": 1})
    http.post("/topics/named/messages", {"messages": [{"key": "one", "value": "1"}, {"key": "two", "value": "2"}]})
    receipt = receive(http, "named")["receipt_handle"]
    trace_id = story(http, "named", 0)["trace_id"]
    for words in (["named/0@0"], [receipt], [trace_id], ["--topic", "named", "--key", "one"]):
        done = goqueue_command(broker, "explain", *words, "-o", "json")
        assert done.returncode == 0, done.stderr
        assert (json.loads(done.stdout)["offset"], json.loads(done.stdout)["trace_id"]) == (0, trace_id)
    shown = goqueue_command(broker, "explain", "named/0@0").stdout
    assert shown.startswith("named/0@0  pending\n")
    assert "consume.fetched" in shown
    assert "group billing, member worker-1" in shown
    refused = goqueue_command(broker, "explain", "named:0")
    assert (refused.returncode, "orders/2@1042" in refused.stderr) == (2, True)
    assert goqueue_command(broker, "explain", "named/0@99").returncode == 1


def test_traces_are_listed_searched_and_counted(broker: BrokerProcess, http: Http) -> None:
    http.post("/topics", {"name": "listed", "num_partitions": 1})
    http.publish("listed", "a", "b")
    http.post("/messages/ack", {"receipts": [receive(http, "listed")["receipt_handle"]]})
    found = http.get("/traces/search?topic=listed&status=completed")
    assert [(one["offset"], one["status"]) for one in found["traces"]] == [(0, "completed")]
    assert found["query"] == {"topic": "listed", "status": "completed", "limit": "100"}
    assert http.get("/traces/search?topic=listed&longer_than=1h")["traces"] == []
    assert {one["topic"] for one in http.get("/traces?limit=2")["traces"]} == {"listed"}
    assert http.get("/traces/stats")["enabled"] is True
    assert http.refused("GET", "/traces/xyz")[0] == 400
    assert http.refused("GET", f"/traces/{'f' * 32}") == http.refused("GET", f"/traces/{'f' * 32}")
    assert http.refused("GET", f"/traces/{'f' * 32}")[1]["code"] == "trace_not_found"
    for words in (["list"], ["search", "--topic", "listed"], ["stats"], ["get", found["traces"][0]["trace_id"]]):
        done = goqueue_command(broker, "trace", *words)
        assert done.returncode == 0, done.stderr


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Takes spans as an OpenTelemetry collector does."""
    got: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", got
    finally:
        server.shutdown()
        server.server_close()


def test_spans_reach_a_collector_and_files_and_failures_do_though_nothing_is_sampled(start_broker: StartBroker) -> None:
    with collector() as (endpoint, got):
        broker = start_broker(
            GOQUEUE_TRACING_EXPORTERS="otlp,file",
            GOQUEUE_TRACING_OTLP_ENDPOINT=endpoint,
        )
        http = Http(broker.http)
        for name, rate in (("all", "1"), ("none", "0")):
            http.post("/topics", {"name": name, "num_partitions": 1, "config": {"trace.sample.rate": rate}})
            http.publish(name, "good", "bad")
            http.post("/messages/ack", {"receipts": [receive(http, name)["receipt_handle"]]})
            http.post("/messages/reject", {"receipts": [receive(http, name)["receipt_handle"]], "error": "broken"})
        ids = {(name, at): story(http, name, at)["trace_id"] for name in ("all", "none") for at in (0, 1)}

        def spans() -> dict[str, set[str]]:
            found: dict[str, set[str]] = {}
            for request in list(got):
                for one in request.resource_spans[0].scope_spans[0].spans:
                    said = {pair.key: pair.value.string_value for pair in one.attributes}
                    found.setdefault(one.trace_id.hex(), set()).add(said["messaging.goqueue.event"])
            return found

        settled = {"publish.received", "consume.fetched"}
        until(lambda: spans().get(ids["all", 0], set()) >= {*settled, "consume.acked"})
        until(lambda: spans().get(ids["none", 1], set()) >= {*settled, "consume.rejected"})
        assert ids["none", 0] not in spans(), "what is not sampled and did not fail is not exported"
        broker.stop()
        files = list((broker.data_dir / "traces").glob("traces-*-001.json"))
        assert len(files) == 1
        assert {json.loads(line)["trace_id"] for line in files[0].read_text().splitlines()} >= {ids["all", 0]}
