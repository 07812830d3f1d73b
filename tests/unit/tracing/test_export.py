"""Exporters: what they send can be read by others, and none of them holds anybody up."""

from __future__ import annotations

import io
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

from goqueue.errors import ConfigError
from goqueue.node.stories.exporters import exporter_names
from goqueue.tracing.events import Kind
from goqueue.tracing.export.jaeger import DATAGRAM_BYTES_MAX, JaegerExporter, datagrams
from goqueue.tracing.export.json_lines import FileExporter, StdoutExporter
from goqueue.tracing.export.lanes import Lane
from goqueue.tracing.export.otlp import OtlpExporter
from goqueue.tracing.spans import Span, spans_of
from goqueue.tracing.story import Line, Status, Story

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PRODUCER = "00f067aa0ba902b7"


def story(count: int = 3, parent: str | None = PRODUCER) -> Story:
    who: dict[str, int | str] = {"group": "billing", "member": "w", "delivery_count": 1}
    lines = [
        Line(1000, Kind.PUBLISH_RECEIVED, "orders", 2, 1042, {"client": "shop", "protocol": "kafka"}),
        Line(1005, Kind.CONSUME_FETCHED, "orders", 2, 1042, who),
        Line(1010, Kind.CONSUME_NACKED, "orders", 2, 1042, {**who, "error": "card declined"}),
    ]
    return Story(TRACE, "orders", 2, 1042, Status.PENDING, 1000, 1010, tuple(lines[:count]), ("orders/2@1042",), parent)


def many(count: int) -> list[Span]:
    return [spans_of(story(1))[0]] * count


def test_spans_of_a_message_hang_below_its_producers_span() -> None:
    received, fetched, nacked = spans_of(story())
    assert {one.trace_id for one in (received, fetched, nacked)} == {TRACE}
    assert received.parent_span_id == PRODUCER
    assert fetched.parent_span_id == nacked.parent_span_id == received.span_id
    assert len({received.span_id, fetched.span_id, nacked.span_id}) == 3
    assert spans_of(story()) == [received, fetched, nacked], "exported again, it is the same span"


def test_attributes_follow_the_conventions_for_messaging() -> None:
    received, fetched, nacked = spans_of(story())
    assert received.attributes["messaging.system"] == "goqueue"
    assert received.attributes["messaging.destination.name"] == "orders"
    assert received.attributes["messaging.operation.type"] == "send"
    assert fetched.attributes["messaging.consumer.group.name"] == "billing"
    assert (nacked.failed, nacked.attributes["error.type"]) == (True, "consume.nacked")
    assert (received.role, fetched.role, nacked.role) == ("producer", "consumer", "internal")


# --- files and standard output ---------------------------------------------------------------


def test_files_are_named_by_day_and_number_and_rotated_by_size(tmp_path: Path) -> None:
    day = ["2026-01-31"]
    exporter = FileExporter(str(tmp_path), bytes_max=2000, count_max=100, today=lambda: day[0])
    for _ in range(10):
        exporter.export(many(1))
    day[0] = "2026-02-01"
    exporter.export(many(1))
    exporter.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == "traces-2026-01-31-001.json"
    assert names[-1] == "traces-2026-02-01-001.json"
    assert len(names) > 3
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    lines = [json.loads(line) for name in names for line in (tmp_path / name).read_text().splitlines()]
    assert len(lines) == 11
    assert {line["trace_id"] for line in lines} == {TRACE}


def test_a_restart_goes_on_in_the_last_file_and_old_files_go(tmp_path: Path) -> None:
    for _ in range(6):
        exporter = FileExporter(str(tmp_path), bytes_max=1500, count_max=2, today=lambda: "2026-01-31")
        exporter.export(many(2))
        exporter.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert names[-1] == "traces-2026-01-31-006.json"


@pytest.mark.parametrize("pretty", [True, False])
def test_standard_output_gets_json_one_line_each_or_indented(pretty: bool) -> None:
    writer = io.StringIO()
    StdoutExporter(pretty=pretty, writer=writer).export(spans_of(story(1)))
    assert json.loads(writer.getvalue())["event"] == "publish.received"
    assert (writer.getvalue().count("\n") > 1) is pretty


# --- Jaeger ------------------------------------------------------------------------------------


def decoded(datagram: bytes) -> dict[int, object]:
    """What Thrift's own library reads: fields by number."""
    protocol = TCompactProtocol(TMemoryBuffer(datagram))
    name, kind, _ = protocol.readMessageBegin()
    assert (name, kind) == ("emitBatch", 4)
    return _struct(protocol)


def _struct(protocol: TCompactProtocol) -> dict[int, object]:
    protocol.readStructBegin()
    found: dict[int, object] = {}
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            return found
        found[number] = _value(protocol, kind)
        protocol.readFieldEnd()


def _value(protocol: TCompactProtocol, kind: int) -> object:
    if kind == TType.STRUCT:
        found = _struct(protocol)
        protocol.readStructEnd()
        return found
    if kind == TType.LIST:
        inner, size = protocol.readListBegin()
        values = [_value(protocol, inner) for _ in range(size)]
        protocol.readListEnd()
        return values
    reads = {
        TType.STRING: protocol.readString,
        TType.I32: protocol.readI32,
        TType.I64: protocol.readI64,
        TType.BOOL: protocol.readBool,
        TType.DOUBLE: protocol.readDouble,
    }
    return reads[kind]()


def test_a_jaeger_agent_reads_our_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(10)
        exporter = JaegerExporter(*agent.getsockname(), service="goqueue")
        exporter.export(spans_of(story()))
        exporter.close()
        batch = decoded(agent.recv(65_536))[1]
    assert isinstance(batch, dict)
    assert batch[1][1] == "goqueue"
    received, _, nacked = batch[2]
    low, high = (number & (2**64 - 1) for number in (received[1], received[2]))
    assert f"{high:016x}{low:016x}" == TRACE
    assert f"{received[4] & (2**64 - 1):016x}" == PRODUCER
    assert (received[5], received[8], received[9]) == ("send orders", 1_000_000, 0)
    tags = {tag[1]: tag.get(3, tag.get(6, tag.get(5))) for tag in nacked[10]}
    assert tags["messaging.goqueue.error"] == "card declined"
    assert (tags["messaging.goqueue.offset"], tags["error"], tags["span.kind"]) == (1042, True, "internal")


def test_spans_that_do_not_fit_one_datagram_are_sent_in_several() -> None:
    sent = list(datagrams(many(1000), "goqueue"))
    assert len(sent) > 3
    assert all(len(one) <= DATAGRAM_BYTES_MAX for one in sent)
    assert sum(len(decoded(one)[1][2]) for one in sent) == 1000  # type: ignore[index]


# --- OTLP --------------------------------------------------------------------------------------


@contextmanager
def collector(statuses: Sequence[int] = ()) -> Iterator[tuple[str, list[tuple[ExportTraceServiceRequest, str | None]]]]:
    """Takes what a collector takes; answers with these statuses first."""
    got: list[tuple[ExportTraceServiceRequest, str | None]] = []
    left = list(statuses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            status = left.pop(0) if left else 200
            if status == 200:
                got.append((ExportTraceServiceRequest.FromString(body), self.headers.get("x-key")))
            self.send_response(status)
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


def otlp(endpoint: str) -> OtlpExporter:
    return OtlpExporter(
        endpoint, headers="x-key=secret", certificate="", timeout_ms=5000, service="goqueue", version="1", node_id=3
    )


def test_a_collector_reads_our_otlp() -> None:
    with collector() as (endpoint, got):
        exporter = otlp(endpoint)
        exporter.export(spans_of(story()))
        exporter.export(spans_of(story(1)))
        exporter.close()
    assert [key for _, key in got] == ["secret", "secret"], "it sends more than once"
    [resource] = got[0][0].resource_spans
    named = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert (named["service.name"], named["service.instance.id"]) == ("goqueue", "3")
    [scope] = resource.scope_spans
    received, fetched, nacked = scope.spans
    assert received.trace_id.hex() == TRACE
    assert received.parent_span_id.hex() == PRODUCER
    assert fetched.parent_span_id == received.span_id
    assert (received.name, received.start_time_unix_nano) == ("send orders", 1_000_000_000)
    assert nacked.status.code == 2
    assert {one.key for one in fetched.attributes} >= {"messaging.system", "messaging.consumer.group.name"}


def test_a_collector_that_refuses_is_a_failure_that_is_counted() -> None:
    told: list[str] = []
    with collector([400] * 10) as (endpoint, got):
        lane = Lane(otlp(endpoint), queue_max=100, on_failure=lambda name, _: told.append(name))
        lane.put(many(5))
        lane.close(seconds_max=20)
    assert (got, told, lane.dropped, lane.exported) == ([], ["otlp"], 5, 0)


# --- lanes -------------------------------------------------------------------------------------


class Stuck:
    """An exporter that waits until it is let go."""

    name = "stuck"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.exported = 0

    def export(self, spans: Sequence[Span]) -> None:
        self.begun.set()
        self.gate.wait(20)
        self.exported += len(spans)

    def close(self) -> None:
        pass


def test_a_slow_exporter_holds_nobody_up_and_the_oldest_spans_are_dropped() -> None:
    exporter = Stuck()
    lane = Lane(exporter, queue_max=10, on_failure=lambda *_: None)
    lane.put(many(1))
    assert exporter.begun.wait(20)
    for _ in range(100):
        lane.put(many(1))
    assert (lane.waiting, lane.dropped) == (10, 90)
    exporter.gate.set()
    lane.close(seconds_max=20)
    assert (exporter.exported, lane.exported) == (11, 11)


def test_an_unknown_exporter_is_named() -> None:
    assert list(exporter_names("otlp, file,otlp")) == ["otlp", "file"]
    with pytest.raises(ConfigError, match="zipkin"):
        exporter_names("otlp,zipkin")
