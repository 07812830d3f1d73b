"""Prepared transactions on a real broker: HTTP, the command line, kill -9, and what Kafka's readers see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess
from tests.e2e.transactional_clients import read_aiokafka, read_confluent, read_kafka_python, wait_for

from goqueue.records import TopicPartition


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http)


def stage(http: Http, path: str, task: str, topic: str, *values: str, partition: int = 0) -> dict[str, Any]:
    opened = http.post(f"/prepared/{path}/participants", {"task": task})
    fields = {"producer_id": opened["producer_id"], "producer_epoch": opened["producer_epoch"], "sequence": 0}
    body = {**fields, "partition": partition, "acks": "all", "messages": [{"value": value} for value in values]}
    http.post(f"/topics/{topic}/messages", body)
    return {"task": task, "producer_id": opened["producer_id"], "producer_epoch": opened["producer_epoch"]}


def test_an_epoch_is_seen_when_it_is_committed_and_only_its_counted_tasks(broker: BrokerProcess, http: Http) -> None:
    http.post("/topics", {"name": "staged", "num_partitions": 2})
    counted = stage(http, "query/1", "0-a", "staged", "first", "second")
    other = stage(http, "query/1", "1-a", "staged", "third", partition=1)
    stage(http, "query/1", "1-b", "staged", "not counted", partition=1)
    places = [TopicPartition("staged", partition) for partition in (0, 1)]
    assert [read_confluent(broker.kafka, place) for place in places] == [[], []]
    outcome = http.post("/prepared/query/1/commit", {"participants": [counted, other["task"]]})
    assert outcome == {"status": "committed", "already_decided": False, "committed": 2, "aborted": 1}
    wait_for(lambda: read_confluent(broker.kafka, places[0]), [b"first", b"second"])
    wait_for(lambda: read_confluent(broker.kafka, places[1]), [b"third"])
    assert read_aiokafka(broker.kafka, places[1], 1) == [b"third"]
    assert read_kafka_python(broker.kafka, places[1], 1) == [b"third"]
    again = http.post("/prepared/query/1/commit", {"participants": ["0-a"]})
    assert (again["already_decided"], again["committed"]) == (True, 0)
    assert http.post("/prepared/query/1/participants", {"task": "late"})["already_committed"]
    row = http.get("/prepared/query")
    assert (row["last_committed_epoch"], row["committed_epochs"]) == (1, [[1, 1]])


def test_refusals_say_what_is_wrong(http: Http) -> None:
    http.post("/topics", {"name": "refused", "num_partitions": 1})
    assert http.refused("GET", "/prepared/nobody")[1]["code"] == "writer_not_found"
    assert http.refused("POST", "/prepared/r/x/abort")[1]["field"] == "epoch"
    status, error = http.refused("POST", "/prepared/r/1/commit", {"participants": ["gone"]})
    assert (status, error["code"]) == (404, "participant_not_found")
    first = stage(http, "r/1", "0", "refused", "x")
    http.post("/prepared/r/1/participants", {"task": "0"})
    status, error = http.refused("POST", "/prepared/r/1/commit", {"participants": [first]})
    assert (status, error["code"]) == (409, "transaction_fenced")
    message = {**first, "sequence": 1, "partition": 0, "value": "late"}
    del message["task"]
    status, error = http.refused("POST", "/topics/refused/messages", message)
    assert status == 409
    http.post("/prepared/r/2/commit", {"participants": []})
    status, error = http.refused("POST", "/prepared/r/1/commit", {"participants": []})
    assert (status, error["code"]) == (409, "transaction_fenced")
    status, error = http.refused("POST", "/prepared/r/2/abort")
    assert (status, error["code"]) == (409, "invalid_transaction_state")


def test_the_command_line_lists_and_aborts_what_is_staged(broker: BrokerProcess, http: Http) -> None:
    def goqueue(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("goqueue")), *arguments]
        environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
        return done.stdout

    http.post("/topics", {"name": "abandoned", "num_partitions": 1})
    stage(http, "left/3", "0-a", "abandoned", "x")
    assert "left" in goqueue("prepared", "list")
    assert "abandoned-0" in goqueue("prepared", "describe", "left")
    assert "aborted 1 participants" in goqueue("prepared", "abort", "left", "3", "--force")
    wait_for(lambda: http.get("/prepared/left")["participants"] if _known(http, "left") else [], [])
    assert read_confluent(broker.kafka, TopicPartition("abandoned", 0)) == []


def _known(http: Http, writer: str) -> bool:
    return any(row["writer"] == writer for row in http.get("/prepared")["writers"])


def test_what_was_staged_and_decided_survives_kill_9(start_broker: StartBroker) -> None:
    broker = start_broker()
    http = Http(broker.http)
    http.post("/topics", {"name": "survives", "num_partitions": 1})
    place = TopicPartition("survives", 0)
    one = stage(http, "spark/1", "0-a", "survives", "one")
    http.post("/prepared/spark/1/commit", {"participants": [one]})
    two = stage(http, "spark/2", "0-a", "survives", "two")
    broker.kill()
    broker.start()
    wait_for(lambda: read_confluent(broker.kafka, place), [b"one"])
    assert http.post("/prepared/spark/1/commit", {"participants": [one]})["already_decided"]
    assert http.post("/prepared/spark/2/commit", {"participants": [two]})["committed"] == 1
    wait_for(lambda: read_confluent(broker.kafka, place), [b"one", b"two"])
