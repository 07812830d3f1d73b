"""Clients that ask for much and read nothing: memory stays bounded, and others are served."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psutil
import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.kafka_raw import RawClient
from tests.e2e.process import BrokerProcess
from tests.unit.servers.kafka.batches import batch

MIB = 1024 * 1024
READERS = 60


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    started = start_broker(
        GOQUEUE_LIMITS_ANSWER_BYTES_MAX=48 * MIB,
        GOQUEUE_LIMITS_ANSWER_WAIT_MS_MAX=300,
        GOQUEUE_LIMITS_UNREAD_ANSWER_MS_MAX=3000,
    )
    with RawClient(started.kafka) as writer:
        writer.create_topic("big", 4)
        for at in range(40):
            assert writer.produce("big", batch(os.urandom(MIB)), partition=at % 4, acks=1)["error_code"] == 0
    return started


def ask(broker: BrokerProcess, stack: ExitStack, request: str) -> list[socket.socket]:
    """As many connections as there are readers; each sends the request twice and reads nothing."""
    host, port = broker.http.rsplit(":", 1)
    made = []
    for _ in range(READERS):
        one = stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect((host, int(port)))
        one.sendall(request.encode() * 2)
        made.append(one)
    return made


def watched(broker: BrokerProcess, seconds: float) -> Iterator[int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert Http(broker.http).get("/healthz")
        yield int(psutil.Process(broker.pid).memory_info().rss)
        time.sleep(0.05)


@pytest.mark.parametrize(
    "path",
    [
        "/topics/big/messages?from=earliest&limit=1000&max_bytes=50000000",
        "/topics/big/partitions/1/messages?from=earliest&limit=1000&max_bytes=50000000",
        "/topics/big/messages/stream?from=earliest",
    ],
)
def test_readers_that_do_not_read_take_no_more_than_their_share_and_are_closed(
    broker: BrokerProcess, path: str
) -> None:
    before = psutil.Process(broker.pid).memory_info().rss
    with ExitStack() as stack:
        ask(broker, stack, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        peak = max(watched(broker, 4))
        assert peak - before < 300 * MIB, f"{(peak - before) // MIB} MiB more"
        assert until(lambda: "closing connection" in broker.output)


def test_a_large_answer_is_whole_though_it_is_made_in_pieces(broker: BrokerProcess) -> None:
    reply = Http(broker.http).get("/topics/big/messages?from=earliest&limit=1000&max_bytes=20000000")
    sizes = {len(one["value"]) for one in reply["messages"]}
    assert len(reply["messages"]) >= 16
    assert sizes == {-(-MIB // 3) * 4}, "every value is there, as base64"
    assert set(reply["next_offsets"]) == {"0", "1", "2", "3"}
    times = [one["timestamp"] for one in reply["messages"]]
    assert times == sorted(times)


def test_a_large_receive_is_whole_and_each_message_has_its_receipt(broker: BrokerProcess) -> None:
    body = {"group": "workers", "limit": 20, "max_bytes": 50_000_000}
    reply = Http(broker.http).post("/topics/big/receive", body)
    assert reply["count"] == len(reply["messages"]) > 1
    assert all(one["receipt_handle"] for one in reply["messages"])


def until(condition: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
