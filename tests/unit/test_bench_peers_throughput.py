"""Throughput beside other brokers: every server is woken right before each timed turn, and nobody gains by it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.bench import null_broker
from tests.bench.peers import __main__ as harness
from tests.bench.peers import throughput, turns
from tests.bench.peers.common import Wrong, expected_checksum
from tests.bench.peers.findings import Measured
from tests.bench.peers.peer_null import NullBroker, StoringNullBroker
from tests.bench.peers.scale import FULL, QUICK, SMOKE, Scale
from tests.bench.peers.servers import Server
from tests.bench.peers.turns import Run

SCALE = replace(QUICK, rounds=1, throughput_rounds=2, close_rounds=0, messages={1000: 50_000}, part_seconds=1)


class Started:
    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        yield Server("nowhere", os.getpid(), 0.1, home)


class Broker(Started):
    load, durability, offers = "", "none", frozenset({"partitions"})

    def __init__(self, name: str, pace: int = 1_000_000) -> None:
        self.name, self.pace = name, pace


class Ceiling(Started, NullBroker):
    pass


class StoringCeiling(Started, StoringNullBroker):
    pass


class Clients:
    """Stand-ins for the client scripts, which note what each was asked for."""

    def __init__(self, broken: str = "", at_turn: int = 0) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.topics: list[str] = []
        self._broken, self._at_turn = broken, at_turn

    def caller(self, peer, server, topic):
        there: list[int] = []
        self.topics.append(topic)

        def call(function, **arguments):
            count = arguments.get("count", 0)
            self.calls.append((peer.name, function, count))
            if function == "produce":
                there.append(count)
                if peer.name == self._broken and len(self.produced(peer.name)) == self._at_turn:
                    raise Wrong("3 messages were not acknowledged")
            stored = {"count": sum(there)}
            read = {"count": count, "seconds": 1.0, "checksum": count and expected_checksum(1000, count)}
            return {"create": {}, "produce": {"seconds": 1.0}, "stored": stored, "consume": read, "delete": {}}[
                function
            ]

        return call

    def produced(self, name: str) -> list[int]:
        return [count for peer, function, count in self.calls if (peer, function) == (name, "produce")]

    def turns(self) -> list[tuple[str, int]]:
        return [(peer, count) for peer, function, count in self.calls if function == "produce"]


def measured(monkeypatch, clients: Clients, *peers, scale: Scale = SCALE, workload=None) -> Measured:
    monkeypatch.setattr(throughput, "caller", clients.caller)
    monkeypatch.setattr(turns.os, "sync", lambda: None)
    with Run(peers, scale, None, lambda step: None) as run:
        return run.measure("one", workload or (lambda one: throughput.throughput(one, 1000)))


def test_every_server_null_brokers_too_is_woken_right_before_each_timed_turn(monkeypatch):
    clients = Clients()

    measured(monkeypatch, clients, Broker("ours"), Broker("slow", pace=20_000), Ceiling(), StoringCeiling())

    null, storing = "null broker", "null broker that stores"
    warm_up = [("ours", 50_000), ("slow", 14_000), (null, 50_000), (storing, 50_000)]
    first = [
        *(("ours", 5_000), ("ours", 50_000), ("slow", 1_000), ("slow", 14_000)),
        *((null, 5_000), (null, 50_000), (storing, 5_000), (storing, 50_000)),
    ]
    second = [
        *((storing, 5_000), (storing, 50_000), (null, 5_000), (null, 50_000)),
        *(("slow", 1_000), ("slow", 14_000), ("ours", 5_000), ("ours", 50_000)),
    ]
    assert clients.turns() == [*warm_up, *first, *second]


def test_a_waking_leaves_no_figure_and_no_topic(monkeypatch):
    clients = Clients()

    found = measured(monkeypatch, clients, Broker("ours"), Ceiling())

    assert [(one.peer, one.round, one.figures["messages"]) for one in found.samples] == [
        *(("ours", 0, 50_000), ("null broker", 0, 50_000), ("null broker", 1, 50_000), ("ours", 1, 50_000)),
    ]
    ours = [function for peer, function, _ in clients.calls if peer == "ours"]
    timed, woken = ["create", "produce", "stored", "consume", "delete"], ["create", "produce", "consume", "delete"]
    assert ours == [*timed, *[*woken, *timed] * 2]
    real = [topic for topic in clients.topics if topic.startswith(turns.TOPIC)]
    assert len(set(real)) == 5


def test_a_peer_that_fails_while_it_is_woken_has_failed_in_the_workload(monkeypatch):
    # Its first turn warms up, then it is woken and timed; it fails when it is woken again.
    clients = Clients(broken="bad", at_turn=4)

    found = measured(monkeypatch, clients, Broker("good"), Broker("bad"))

    assert [(one.peer, one.reason) for one in found.failures] == [("bad", "Wrong: 3 messages were not acknowledged")]
    assert [(one.peer, one.round) for one in found.samples] == [("good", 0), ("good", 1)]
    assert clients.produced("bad") == [50_000, 5_000, 50_000, 5_000]


def test_messages_that_come_back_damaged_while_waking_are_a_failure_too(monkeypatch):
    clients = Clients()
    monkeypatch.setattr(throughput, "expected_checksum", lambda size, count: -1 if count == 5_000 else checksum(count))

    found = measured(monkeypatch, clients, Broker("ours"))

    assert [one.reason for one in found.failures] == [f"Wrong: checksum: {checksum(5_000)} instead of -1"]
    assert found.samples == []
    assert clients.produced("ours") == [50_000, 5_000]


def checksum(count: int) -> int:
    return expected_checksum(1000, count)


def test_servers_are_woken_for_partitions_too(monkeypatch):
    clients = Clients()

    found = measured(
        monkeypatch, clients, Broker("ours"), workload=lambda run: throughput.partitions(run, count_of_partitions=10)
    )

    # Each partition has a thousand messages before the timed ones.
    assert clients.produced("ours") == [10_000, 50_000, 5_000, 10_000, 50_000]
    assert [one.workload for one in found.samples] == ["10 partitions"]


def test_a_smoke_run_wakes_nobody(monkeypatch):
    clients = Clients()

    measured(monkeypatch, clients, Broker("ours"), scale=replace(SMOKE, messages={1000: 2_000}))

    assert clients.produced("ours") == [2_000]


def test_throughput_has_more_rounds_than_the_rest_unless_a_number_is_asked_for():
    asked = Namespace(scale="quick", rounds=2, log_gib=None)

    scales = (QUICK, FULL, harness._scale(asked))
    assert [(one.rounds, one.throughput_rounds, one.close_rounds) for one in scales] == [
        (3, 4, 7),
        (5, 7, 6),
        (2, 2, 0),
    ]


def test_brokers_with_the_same_client_have_more_rounds_than_the_others(monkeypatch):
    clients = Clients()

    found = measured(monkeypatch, clients, Broker("ours"), Ceiling(), scale=replace(SCALE, close_rounds=3))

    rounds = {peer: [one.round for one in found.samples if one.peer == peer] for peer in ("ours", "null broker")}
    assert rounds == {"ours": [0, 1], "null broker": [0, 1, 2, 3, 4]}


def test_a_null_broker_that_stores_deletes_its_files_when_it_is_told_to_and_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(null_broker, "FILE_BYTES", 10)
    broker = null_broker.StoringNullBroker(bytes(20), 1, tmp_path)
    broker.written = 10
    produce = request_of(
        topic_data=[request_of(name="bench", partition_data=[request_of(index=0, records=b"12345678")])]
    )

    for _ in range(4):
        broker.reply_0(produce)
    before = sorted(path.name for path in tmp_path.iterdir())
    answer = broker.reply_20(request_of(topic_names=["bench"]))
    after = list(tmp_path.iterdir())
    broker.reply_0(produce)

    assert before == ["0.null", "1.null"]
    assert answer == {"responses": [{"name": "bench"}]}
    assert after == []
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"12345678"]


def request_of(**fields: object) -> SimpleNamespace:
    return SimpleNamespace(**fields)


@pytest.mark.parametrize(("count", "waking"), [(1_000_000, 100_000), (84_000, 8_000), (16_000, 1_000), (1_000, 1_000)])
def test_a_tenth_of_the_work_wakes_in_whole_sets_of_payloads(count, waking):
    assert throughput.waking_count(count) == waking
