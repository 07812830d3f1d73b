"""Errors as statuses with details; deadlines, limits, health, reflection; and what is not gRPC at all."""

from __future__ import annotations

import random
import socket
import time
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, duration_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.e2e.conftest import StartBroker
from tests.e2e.grpc.api import METHODS, SERVICES, Api, Record, Refused
from tests.e2e.process import BrokerProcess

from goqueue.protos import queue_pb2

BAD = ("INVALID_ARGUMENT", "INVALID_REQUEST")
NO_TOPIC = ("NOT_FOUND", "TOPIC_NOT_FOUND")
NO_PARTITION = ("NOT_FOUND", "PARTITION_NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "fields", "expected", "field"),
    [
        ("TopicService.GetTopic", {"topic": "absent"}, NO_TOPIC, "topic"),
        ("TopicService.CreateTopic", {"name": "a b"}, BAD, "name"),
        ("TopicService.CreateTopic", {"name": "x", "num_partitions": 0}, BAD, "num_partitions"),
        (
            "TopicService.CreateTopic",
            {"name": "x", "config": {"no.such": "1"}},
            ("INVALID_ARGUMENT", "INVALID_CONFIG"),
            "config.no.such",
        ),
        ("TopicService.CreateTopic", {"name": "here"}, ("ALREADY_EXISTS", "TOPIC_EXISTS"), "name"),
        ("PublishService.Publish", {"topic": "here"}, BAD, "record"),
        ("PublishService.Publish", {"topic": "here", "record": Record(partition=9)}, NO_PARTITION, "record.partition"),
        ("PublishService.Publish", {"topic": "here", "record": Record(partition=-1)}, BAD, "record.partition"),
        ("PublishService.Publish", {"topic": "here", "record": Record(deduplication_id="1")}, BAD, None),
        ("PublishService.Publish", {"topic": "here", "record": Record(), "producer_id": 1}, BAD, "producer_epoch"),
        ("PublishService.Publish", {"topic": "here", "record": Record(), "ack_mode": 77}, BAD, "ack_mode"),
        (
            "PublishService.Publish",
            {"topic": "__consumer_offsets", "record": Record()},
            ("INVALID_ARGUMENT", "INVALID_TOPIC"),
            "topic",
        ),
        ("PublishService.PublishBatch", {"topic": "here"}, BAD, "records"),
        ("QueueService.Receive", {"topic": "absent"}, NO_TOPIC, "topic"),
        ("QueueService.Receive", {"topic": "here", "limit": 0}, BAD, "limit"),
        ("QueueService.Receive", {"topic": "here", "wait": duration_pb2.Duration(seconds=-1)}, BAD, "wait"),
        ("QueueService.Receive", {"topic": "here", "partition": 9}, NO_PARTITION, "partition"),
        ("AckService.Ack", {}, BAD, "receipt_handle"),
        ("AckService.Ack", {"receipt_handle": "nonsense"}, ("INVALID_ARGUMENT", "INVALID_RECEIPT"), "receipt_handle"),
        ("AckService.Reject", {"receipt_handle": "nonsense"}, BAD, "error"),
        ("AckService.BatchAck", {}, BAD, "settlements"),
        (
            "ConsumeService.ReadPartition",
            {"topic": "here", "offset": 99},
            ("OUT_OF_RANGE", "OFFSET_OUT_OF_RANGE"),
            "offset",
        ),
        ("ConsumeService.ReadPartition", {"topic": "here", "limit": 0}, BAD, "limit"),
        ("GroupService.GetGroup", {"group": "absent"}, ("NOT_FOUND", "GROUP_NOT_FOUND"), "group"),
        ("OffsetService.CommitOffsets", {"group": "g"}, BAD, "offsets"),
        (
            "TransactionService.BeginTransaction",
            {"transactional_id": "x"},
            ("FAILED_PRECONDITION", "INVALID_PRODUCER_ID_MAPPING"),
            None,
        ),
        ("DelayService.GetDelayed", {"topic": "here"}, ("NOT_FOUND", "DELAYED_MESSAGE_NOT_FOUND"), None),
    ],
)
def test_a_refusal_names_its_code_and_the_field_to_blame(
    api: Api, method: str, fields: dict[str, Any], expected: tuple[str, str], field: str | None
) -> None:
    code, reason = expected
    if "here" not in api.call("TopicService.ListTopics").topics:
        api.call("TopicService.CreateTopic", name="here", num_partitions=1)
    refused = api.refused(method, **fields)
    info = refused.details["ErrorInfo"]
    assert (refused.code, info.reason, info.domain) == (code, reason, "goqueue")
    if field is not None:
        assert info.metadata["field"] == field
        if code == "INVALID_ARGUMENT":
            assert [one.field for one in refused.details["BadRequest"].field_violations] == [field]
    retriable = reason in {"TOPIC_NOT_FOUND", "PARTITION_NOT_FOUND"}
    assert ("RetryInfo" in refused.details) is retriable


@pytest.mark.parametrize(
    ("method", "fields", "code"),
    [
        ("ConsumeService.Consume", {"topic": "absent"}, "NOT_FOUND"),
        ("ConsumeService.Consume", {"topic": "streams", "start_offset": 1}, "INVALID_ARGUMENT"),
        ("ConsumeService.Consume", {"topic": "streams", "offsets": {7: 1}}, "INVALID_ARGUMENT"),
        ("ConsumeService.Subscribe", {"group": "g"}, "INVALID_ARGUMENT"),
        ("ConsumeService.Subscribe", {"group": "", "topics": ["streams"]}, "INVALID_ARGUMENT"),
    ],
)
def test_a_stream_that_cannot_begin_ends_with_a_status(
    api: Api, method: str, fields: dict[str, Any], code: str
) -> None:
    api.call("TopicService.EnsureTopic", topic="streams")
    with pytest.raises(grpc.RpcError) as raised:
        list(api.invoke(method)(api.request(method, **fields), timeout=20))
    assert raised.value.code().name == code  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "requests",
    [
        [queue_pb2.WorkRequest(credit=queue_pb2.WorkCredit(messages=1))],
        [queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="work", credit=-1))],
        [queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="work", partition=9))],
        [queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="work"))] * 2,
        [queue_pb2.WorkRequest(start=queue_pb2.WorkStart(topic="work")), queue_pb2.WorkRequest()],
    ],
)
def test_a_work_stream_that_does_not_keep_to_its_rules_is_refused(api: Api, requests: list[Any]) -> None:
    api.call("TopicService.EnsureTopic", topic="work")
    with pytest.raises(grpc.RpcError) as raised:
        list(api.invoke("QueueService.Work")(iter(requests), timeout=20))
    assert raised.value.code().name in {"INVALID_ARGUMENT", "NOT_FOUND"}  # type: ignore[attr-defined]


def test_a_deadline_ends_a_wait(api: Api) -> None:
    api.call("TopicService.EnsureTopic", topic="quiet")
    started = time.monotonic()
    refused = api.refused("QueueService.Receive", topic="quiet", wait=duration_pb2.Duration(seconds=30), timeout=0.3)
    assert refused.code == "DEADLINE_EXCEEDED"
    assert time.monotonic() - started < 20
    # The broker has stopped waiting too: what comes now is for the next one.
    api.publish("quiet", b"1")
    assert len(api.call("QueueService.Receive", topic="quiet", wait=duration_pb2.Duration(seconds=5)).messages) == 1


def test_a_message_larger_than_the_limit_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_GRPC_MESSAGE_BYTES_MAX=100_000)
    api = Api(broker.grpc)
    assert api.refused("PublishService.Publish", topic="t", record=Record(value=b"x" * 200_000)).code == (
        "RESOURCE_EXHAUSTED"
    )
    assert api.call("PublishService.Publish", topic="t", record=Record(value=b"x" * 50_000)).result.offset == 0
    api.close()


def test_more_calls_than_the_limit_are_refused_and_the_others_go_on(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_GRPC_CALLS_MAX=3)
    api = Api(broker.grpc)
    api.call("TopicService.EnsureTopic", topic="t")
    streams = [
        api.invoke("ConsumeService.Consume")(api.request("ConsumeService.Consume", topic="t"), timeout=60)
        for _ in range(3)
    ]
    deadline = time.monotonic() + 20
    while True:
        try:
            api.call("TopicService.ListTopics")
        except Refused as refused:
            code = refused.code
            break
        assert time.monotonic() < deadline
    assert code == "RESOURCE_EXHAUSTED"
    streams[0].cancel()
    while True:
        try:
            api.publish("t", b"1")
            break
        except Refused:
            assert time.monotonic() < deadline
    assert next(iter(streams[1])).batch.messages[0].value == b"1"
    api.close()


def test_health_is_the_standard_service(api: Api) -> None:
    stub = health_pb2_grpc.HealthStub(api.channel)
    for name in ("", "goqueue.v1.PublishService"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == 1
    with pytest.raises(grpc.RpcError) as raised:
        stub.Check(health_pb2.HealthCheckRequest(service="no.such"))
    assert raised.value.code().name == "NOT_FOUND"  # type: ignore[attr-defined]


def test_reflection_tells_every_service_and_method(api: Api) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(api.channel)
    ask = reflection_pb2.ServerReflectionRequest
    (listed,) = stub.ServerReflectionInfo(iter([ask(list_services="")]))
    names = {one.name for one in listed.list_services_response.service}
    assert {f"goqueue.v1.{name}" for name in SERVICES} <= names
    methods = set()
    for name in SERVICES:
        (file,) = stub.ServerReflectionInfo(iter([ask(file_containing_symbol=f"goqueue.v1.{name}")]))
        for packed in file.file_descriptor_response.file_descriptor_proto:
            for service in descriptor_pb2.FileDescriptorProto.FromString(packed).service:
                methods |= {f"{service.name}.{one.name}" for one in service.method}
    assert methods == METHODS


def test_reflection_is_off_unless_it_is_switched_on(start_broker: StartBroker) -> None:
    api = Api(start_broker().grpc)
    stub = reflection_pb2_grpc.ServerReflectionStub(api.channel)
    with pytest.raises(grpc.RpcError) as raised:
        list(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")])))
    assert raised.value.code().name == "UNIMPLEMENTED"  # type: ignore[attr-defined]
    api.close()


def test_an_unknown_method_is_unimplemented(api: Api) -> None:
    call = api.channel.unary_unary("/goqueue.v1.TopicService/NoSuch", lambda _: b"", lambda one: one)
    with pytest.raises(grpc.RpcError) as raised:
        call(None, timeout=10)
    assert raised.value.code().name == "UNIMPLEMENTED"  # type: ignore[attr-defined]


def test_any_bytes_to_any_method_are_answered_and_the_broker_lives(api: Api, broker: BrokerProcess) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    codes = {}
    for name in sorted(METHODS):
        service, method = name.split(".")
        described = SERVICES[service].methods_by_name[method]
        kind = ("stream" if described.client_streaming else "unary") + (
            "_stream" if described.server_streaming else "_unary"
        )
        call = getattr(api.channel, kind)(f"/goqueue.v1.{service}/{method}", lambda one: one, lambda one: one)
        for _ in range(4):
            frames = [chance.randbytes(chance.randrange(60)) for _ in range(3)]
            try:
                answer = call(iter(frames) if described.client_streaming else frames[0], timeout=0.5)
                if described.server_streaming:
                    next(answer, None)
                    answer.cancel()
            except grpc.RpcError as error:
                codes[error.code().name] = (name, frames, error)  # type: ignore[attr-defined]
    assert codes.keys().isdisjoint({"UNKNOWN", "INTERNAL", "UNIMPLEMENTED"}), (seed, codes)
    assert api.call("NodeService.GetVersion").version
    assert "call failed" not in broker.output, f"seed {seed}"


def test_bytes_that_are_no_http2_do_no_harm(api: Api, broker: BrokerProcess) -> None:
    host, _, port = broker.grpc.rpartition(":")
    chance = random.Random(7)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for head in (b"", b"GET / HTTP/1.1\r\n\r\n", preface, preface + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"):
        for _ in range(10):
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(head + chance.randbytes(200))
    assert api.call("NodeService.GetVersion").version


def test_keys_in_an_unknown_field_are_ignored_as_protobuf_says(api: Api) -> None:
    raw = api.request("TopicService.EnsureTopic", topic="unknown-field").SerializeToString() + b"\xfa\x3f\x01x"
    call = api.channel.unary_unary("/goqueue.v1.TopicService/EnsureTopic", lambda one: one, lambda one: one)
    assert call(raw, timeout=10)


def test_a_broker_without_the_listener_does_not_import_grpc(tmp_path: Any) -> None:
    broker = BrokerProcess(tmp_path, environment={"PYTHONPROFILEIMPORTTIME": "1"}).start()
    broker.stop()
    imported = {line.rpartition("|")[2].strip() for line in broker.output.splitlines() if "import time:" in line}
    assert "goqueue.servers.http.server" in imported
    assert not {one for one in imported if one.split(".")[0] in {"grpc", "google"} or one.startswith("goqueue.protos")}


@pytest.mark.parametrize(
    ("setting", "says"),
    [("127.0.0.1", "give host:port"), ("0.0.0.0:0", "can be reached from other machines"), ("{kafka}", "listener")],
)
def test_a_wrong_address_is_refused_at_the_start(tmp_path: Any, setting: str, says: str) -> None:
    broker = BrokerProcess(tmp_path)
    broker.kafka = "127.0.0.1:19377"
    broker.grpc = setting.format(kafka=broker.kafka)
    with pytest.raises(AssertionError):
        broker.start()
    assert says in broker.output


def test_an_address_in_use_is_told_before_anything_is_opened(broker: BrokerProcess, tmp_path: Any) -> None:
    second = BrokerProcess(tmp_path)
    second.grpc = broker.grpc
    second.spawn()
    assert second.wait(30) == 2
    assert f"cannot listen on {broker.grpc}: the address is in use" in second.output
