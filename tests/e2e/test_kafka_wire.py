"""The socket against strangers: whatever they send, the broker stays up, small, and of use to others."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.e2e.conftest import StartBroker
from tests.e2e.kafka_raw import API_VERSIONS, FETCH, METADATA, PRODUCE, RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.codec.kafka.kio_values import message_value, request_frame
from tests.unit.servers.kafka.batches import batch, records_of

from goqueue.codec.kafka.schema import message_shape
from goqueue.servers.kafka.registry import HANDLERS, MODULES

MIB = 1024 * 1024
SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}


def is_well(broker: BrokerProcess) -> None:
    """A client that behaves is served."""
    with RawClient(broker.kafka) as client:
        assert client.call(API_VERSIONS, 3, **SOFTWARE)["error_code"] == 0


def rss_bytes(broker: BrokerProcess) -> int:
    return int(psutil.Process(broker.pid).memory_info().rss)


def send_and_leave(broker: BrokerProcess, *pieces: bytes) -> None:
    with RawClient(broker.kafka) as client:
        client.socket.settimeout(0.2)
        try:
            for piece in pieces:
                client.socket.sendall(piece)
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65536):
                pass
        except (ConnectionError, TimeoutError):
            pass


@given(st.binary(min_size=1, max_size=200))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_do_no_harm(broker: BrokerProcess, data: bytes) -> None:
    send_and_leave(broker, data)
    assert broker.running


@given(st.sampled_from(sorted(HANDLERS)), st.integers(0, 18), st.binary(max_size=100))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bodies_of_every_api_do_no_harm(broker: BrokerProcess, key: int, version: int, body: bytes) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + b"\xff\xff" + body
    send_and_leave(broker, len(frame).to_bytes(4, "big") + frame)
    assert broker.running


# These may wait for as long as the nonsense says, so nobody waits with them.
WAITING_KEYS = {1, 11, 14, 68}


# kio writes the requests, and knows nothing of our own APIs.
@pytest.mark.parametrize("key", sorted(module.API.key for module in MODULES))
def test_well_formed_nonsense_of_every_version_is_answered_or_refused(broker: BrokerProcess, key: int) -> None:
    low, high = HANDLERS[key].API.versions
    shape = message_shape(key, "request")
    for version in range(low, high + 1):
        for seed in range(3):
            value = message_value(shape, version, random.Random(seed * 100 + version))
            frame = request_frame(key, version, value)
            if key in WAITING_KEYS:
                with RawClient(broker.kafka) as client:
                    client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
            else:
                send_and_leave(broker, len(frame).to_bytes(4, "big") + frame)
    is_well(broker)
    assert "Traceback" not in broker.output


def test_truncated_requests_do_no_harm(broker: BrokerProcess) -> None:
    frame = request_frame(METADATA, 12, {"topics": [{"name": "cut"}], "allow_auto_topic_creation": False})
    whole = len(frame).to_bytes(4, "big") + frame
    for end in range(len(whole)):
        send_and_leave(broker, whole[:end])
        shorter = frame[:end]
        send_and_leave(broker, len(shorter).to_bytes(4, "big") + shorter)
    is_well(broker)


def test_oversized_requests_are_refused_before_they_cost_memory(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_LIMITS_REQUEST_BYTES_MAX=17 * MIB)
    before = rss_bytes(broker)
    for size in (17 * MIB + 1, 2**31 - 1, 0, -1):
        with RawClient(broker.kafka) as client:
            client.socket.sendall(size.to_bytes(4, "big", signed=True))
            assert client.is_closed_by_broker()
    assert "at most 17825792 are allowed" in broker.output
    assert rss_bytes(broker) - before < 8 * MIB
    is_well(broker)


def test_announced_but_unsent_bytes_cost_no_memory(start_broker: StartBroker) -> None:
    broker = start_broker()
    before = rss_bytes(broker)
    clients = [RawClient(broker.kafka) for _ in range(200)]
    for client in clients:
        client.socket.sendall((90 * MIB).to_bytes(4, "big") + b"\0\0\0\7")
    is_well(broker)
    assert rss_bytes(broker) - before < 64 * MIB
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize("key", [METADATA, 12, 8])
def test_a_length_that_lies_costs_no_memory(broker: BrokerProcess, key: int) -> None:
    """kio's own reader ends the process here."""
    low, high = HANDLERS[key].API.versions
    before = rss_bytes(broker)
    for version in range(low, high + 1):
        for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff" * 9 + b"\x01"):
            frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff\0" + length * 4
            send_and_leave(broker, len(frame).to_bytes(4, "big") + frame)
    assert rss_bytes(broker) - before < 16 * MIB
    is_well(broker)


def test_clients_that_read_nothing_cannot_fill_the_memory(start_broker: StartBroker) -> None:
    """Slow consumers: each asks for megabytes again and again and takes none of them."""
    broker = start_broker(GOQUEUE_LIMITS_ANSWER_BYTES_MAX=32 * MIB, GOQUEUE_LIMITS_UNSENT_BYTES_MAX=4 * MIB)
    with RawClient(broker.kafka) as writer:
        writer.create_topic("big")
        for _ in range(20):
            assert writer.produce("big", batch(bytes(MIB)), acks=1)["error_code"] == 0
    before = rss_bytes(broker)
    read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 20 * MIB}
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.kafka)) for _ in range(40)]
        for client in clients:
            # One that leaves much unread while memory is short is turned away, perhaps in the middle of asking.
            with suppress(ConnectionError):
                for _ in range(20):
                    topics = [{"topic": "big", "partitions": [read]}]
                    client.send(FETCH, 12, max_bytes=20 * MIB, min_bytes=1, topics=topics)
        peak = _peak(lambda: rss_bytes(broker), seconds=3)
        assert peak - before < 150 * MIB, f"{(peak - before) // MIB} MiB more"
        is_well(broker)


def test_one_client_too_many_is_turned_away(start_broker: StartBroker) -> None:
    broker = start_broker(GOQUEUE_LIMITS_CONNECTIONS_MAX=5)
    clients = [RawClient(broker.kafka) for _ in range(5)]
    for client in clients:
        assert client.call(API_VERSIONS, 3, **SOFTWARE)["error_code"] == 0
    with RawClient(broker.kafka) as late:
        assert late.is_closed_by_broker()
    clients[0].socket.close()
    deadline = time.monotonic() + 5
    while True:
        with RawClient(broker.kafka) as late:
            late.send(API_VERSIONS, 3, **SOFTWARE)
            if not late.is_closed_by_broker():
                break
        assert time.monotonic() < deadline
    for client in clients[1:]:
        client.socket.close()


def test_requests_of_one_connection_are_answered_in_order(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as client:
        client.create_topic("pipeline")
        kinds = [PRODUCE, FETCH, METADATA, PRODUCE, API_VERSIONS] * 40
        sent = []
        for at, key in enumerate(kinds):
            if key == PRODUCE:
                data = [{"name": "pipeline", "partition_data": [{"index": 0, "records": batch(b"%d" % at)}]}]
                sent.append((key, 9, client.send(PRODUCE, 9, acks=-1 if at % 2 else 1, timeout=9000, topic_data=data)))
            elif key == FETCH:
                read = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": MIB}
                topics = [{"topic": "pipeline", "partitions": [read]}]
                sent.append((key, 12, client.send(FETCH, 12, max_bytes=MIB, min_bytes=1, max_wait=100, topics=topics)))
            elif key == METADATA:
                sent.append((key, 9, client.send(METADATA, 9, topics=[{"name": "pipeline"}])))
            else:
                sent.append((key, 3, client.send(API_VERSIONS, 3, **SOFTWARE)))
        replies = [client.receive(*one) for one in sent]
        offsets = [
            reply["responses"][0]["partition_responses"][0]["base_offset"]
            for reply, key in zip(replies, kinds, strict=True)
            if key == PRODUCE
        ]
        assert offsets == list(range(80))
        values = [record.value for record in records_of(client.fetch("pipeline")["records"])]
        assert values == [b"%d" % at for at, key in enumerate(kinds) if key == PRODUCE]


def test_without_acks_nothing_is_answered_and_errors_close_the_connection(broker: BrokerProcess) -> None:
    with RawClient(broker.kafka) as client:
        client.create_topic("silent")
        data = [{"name": "silent", "partition_data": [{"index": 0, "records": batch(b"x")}]}]
        client.send(PRODUCE, 9, acks=0, timeout=1000, topic_data=data)
        assert client.call(API_VERSIONS, 3, **SOFTWARE)["error_code"] == 0
        assert len(records_of(client.fetch("silent")["records"])) == 1
        wrong = [{"name": "silent", "partition_data": [{"index": 7, "records": batch(b"x")}]}]
        client.send(PRODUCE, 9, acks=0, timeout=1000, topic_data=wrong)
        assert client.is_closed_by_broker()


def _peak(measure: Callable[[], int], seconds: float) -> int:
    peak = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        peak = max(peak, measure())
        time.sleep(0.02)
    return peak
