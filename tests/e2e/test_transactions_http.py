"""Transactions over HTTP and from the command line, seen by HTTP readers and by Kafka's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.transactional_clients import ConfluentTransactional, read_confluent, wait_for

from goqueue.records import TopicPartition


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http)


def producer(http: Http, name: str, **more: Any) -> dict[str, Any]:
    reply = http.post("/producers/init", {"transactional_id": name, **more})
    return {"transactional_id": name, "producer_id": reply["producer_id"], "epoch": reply["epoch"]}


def message(ids: dict[str, Any], topic: str, value: str, sequence: int, **more: Any) -> dict[str, Any]:
    row = {"producer_id": ids["producer_id"], "epoch": ids["epoch"], "topic": topic, "value": value}
    return {**row, "sequence": sequence, **more}


def values(http: Http, topic: str, partition: int = 0) -> list[str]:
    path = f"/topics/{topic}/partitions/{partition}/messages?offset=0"
    return [one["value"] for one in http.get(path)["messages"]]


def test_a_commit_shows_and_an_abort_hides_what_was_published(broker: BrokerProcess, http: Http) -> None:
    http.post("/topics", {"name": "http-tx", "num_partitions": 2})
    ids = producer(http, "http-tx")
    for number, end in enumerate(["commit", "abort", "commit"]):
        begun = http.post("/transactions/begin", ids)
        assert begun["transaction_id"].startswith("txn-")
        for partition in (0, 1):
            reply = http.post(
                "/transactions/publish", message(ids, "http-tx", f"{number}", number, partition=partition)
            )
            assert (reply["partition"], reply["duplicate"]) == (partition, False)
        assert f"{number}" not in values(http, "http-tx")
        assert http.post(f"/transactions/{end}", ids) == {"status": "committed" if end == "commit" else "aborted"}
    for partition in (0, 1):
        wait_for(lambda partition=partition: values(http, "http-tx", partition), ["0", "2"])
        assert read_confluent(broker.kafka, TopicPartition("http-tx", partition)) == [b"0", b"2"]


def test_a_repeated_publish_is_stored_once(http: Http) -> None:
    http.post("/topics", {"name": "http-twice", "num_partitions": 1})
    ids = producer(http, "http-twice")
    http.post("/transactions/begin", ids)
    first = http.post("/transactions/publish", message(ids, "http-twice", "x", 0))
    again = http.post("/transactions/publish", message(ids, "http-twice", "x", 0))
    assert (again["offset"], again["duplicate"]) == (first["offset"], True)
    http.post("/transactions/commit", ids)
    wait_for(lambda: values(http, "http-twice"), ["x"])


def test_a_key_chooses_the_partition_when_asked_to(http: Http) -> None:
    http.post("/topics", {"name": "http-keyed", "num_partitions": 8})
    ids = producer(http, "http-keyed")
    http.post("/transactions/begin", ids)
    places = {
        http.post("/transactions/publish", message(ids, "http-keyed", "x", at, partition=-1, key="k"))["partition"]
        for at in range(3)
    }
    assert len(places) == 1
    status, error = http.refused("POST", "/transactions/publish", message(ids, "http-keyed", "x", 3, partition=-1))
    assert (status, error["field"]) == (400, "key")
    http.post("/transactions/abort", ids)


def test_zombies_strangers_and_those_who_did_not_begin_are_refused(http: Http) -> None:
    http.post("/topics", {"name": "http-zombie", "num_partitions": 1})
    zombie = producer(http, "http-zombie")
    beat = {"transactional_id": "http-zombie", "epoch": zombie["epoch"]}
    assert http.post(f"/producers/{zombie['producer_id']}/heartbeat", beat) == {"status": "ok"}
    assert http.refused("POST", "/transactions/publish", message(zombie, "http-zombie", "x", 0))[0] == 409
    http.post("/transactions/begin", zombie)
    assert http.refused("POST", "/transactions/begin", zombie)[0] == 409
    http.post("/transactions/add-partition", {**zombie, "topic": "http-zombie", "partition": 0})
    successor = producer(http, "http-zombie")
    assert successor["epoch"] > zombie["epoch"]
    for path, body in (
        ("/transactions/commit", zombie),
        ("/transactions/begin", zombie),
        ("/transactions/publish", message(zombie, "http-zombie", "x", 0)),
        (f"/producers/{zombie['producer_id']}/heartbeat", beat),
    ):
        assert http.refused("POST", path, body)[0] == 409, path
    stranger = {"transactional_id": "nobody", "epoch": 0}
    assert http.refused("POST", "/producers/1/heartbeat", stranger)[0] == 404
    assert http.refused("POST", "/transactions/commit", {**stranger, "producer_id": 1})[0] == 409


def test_active_transactions_are_listed_counted_and_aborted_from_the_command_line(
    broker: BrokerProcess, http: Http
) -> None:
    place = TopicPartition("hanging", 0)
    http.post("/topics", {"name": "hanging", "num_partitions": 1})
    kafka = ConfluentTransactional(broker.kafka, "hanging")
    kafka.begin()
    kafka.send(place, [b"x"])
    (row,) = [one for one in http.get("/transactions")["transactions"] if one["transactional_id"] == "hanging"]
    assert (row["state"], row["partitions"]) == ("Ongoing", ["hanging-0"])
    assert http.get("/transactions/stats")["states"]["Ongoing"] >= 1
    assert "hanging" in goqueue(broker, "transactions", "list")
    assert "Ongoing" in goqueue(broker, "transactions", "describe", "hanging")
    assert "aborted" in goqueue(broker, "transactions", "abort", "hanging", "--force")
    wait_for(lambda: http.get("/transactions/hanging")["state"], "CompleteAbort")
    assert read_confluent(broker.kafka, place) == []
    assert http.refused("POST", "/transactions/hanging/abort")[0] == 409


def test_an_abandoned_transaction_is_aborted_when_its_time_is_up(http: Http) -> None:
    http.post("/topics", {"name": "http-slow", "num_partitions": 1})
    ids = producer(http, "http-slow", transaction_timeout_ms=300)
    http.post("/transactions/begin", ids)
    started = time.monotonic()
    http.post("/transactions/publish", message(ids, "http-slow", "x", 0))
    wait_for(lambda: http.get("/transactions/http-slow")["state"], "CompleteAbort")
    assert time.monotonic() - started < 10
    status, error = http.refused("POST", "/transactions/commit", ids)
    assert (status, "open for longer than its timeout of 300 ms" in error["message"]) == (409, True)
    assert values(http, "http-slow") == []


def test_a_producer_whose_id_was_taken_over_is_told_so_and_not_that_it_was_slow(http: Http) -> None:
    ids = producer(http, "http-zombie")
    http.post("/transactions/begin", ids)
    producer(http, "http-zombie")
    status, error = http.refused("POST", "/transactions/commit", ids)
    assert (status, "another producer has taken the transactional id over" in error["message"]) == (409, True)


def test_a_publish_names_its_transaction_as_the_other_requests_do(http: Http) -> None:
    http.post("/topics", {"name": "http-named", "num_partitions": 1})
    ids = producer(http, "http-named")
    http.post("/transactions/begin", ids)
    http.post("/transactions/publish", {**message(ids, "http-named", "x", 0), "transactional_id": "http-named"})
    http.post("/transactions/commit", ids)
    assert values(http, "http-named") == ["x"]


def goqueue(broker: BrokerProcess, *arguments: str) -> str:
    program = str(Path(sys.executable).parent / "goqueue")
    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}", "COLUMNS": "200"}
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_statistics_and_metrics_count_what_transactions_came_to(http: Http) -> None:
    http.post("/topics", {"name": "http-counted", "num_partitions": 1})
    before = http.get("/transactions/stats")
    ids = producer(http, "http-counted")
    for sequence, how in enumerate(["commit", "abort"]):
        http.post("/transactions/begin", ids)
        http.post("/transactions/publish", message(ids, "http-counted", "x", sequence))
        http.post(f"/transactions/{how}", ids)
    wait_for(lambda: http.get("/transactions/http-counted")["state"], "CompleteAbort")
    after = http.get("/transactions/stats")
    counts = {name: after[name] - before[name] for name in ("begun", "committed", "aborted", "markers_written")}
    assert counts == {"begun": 2, "committed": 1, "aborted": 1, "markers_written": 2}
    assert after["sessions"] >= 1
    opened = http.post("/prepared/counted/1/participants", {"task": "0"})
    assert opened["producer_id"] >= 0
    stats = http.get("/transactions/stats")
    assert (stats["prepared_participants"], stats["prepared_writers"]) == (1, 1)
    page = http.ask("GET", "/metrics").body
    text = page if isinstance(page, str) else page.decode()
    assert f'goqueue_transactions_ended_total{{outcome="commit"}} {float(after["committed"])}' in text
    assert "goqueue_transactions_prepared_participants 1.0" in text
    assert "goqueue_transactions_end_seconds_bucket" in text
    http.post("/prepared/counted/1/abort")
