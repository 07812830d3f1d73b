"""Stateless reads of one partition by priority, over HTTP, the client and the command line."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.e2e.http import Http
from tests.e2e.kafka_raw import RawClient
from tests.unit.codec.builders import raw_batch

from goqueue.client.sync import connect
from goqueue.codec.compression import Codec, compress

GOQUEUE = Path(sys.executable).parent / "goqueue"
LANES = ["low", "critical", "normal"]
numbers = itertools.count()


@pytest.fixture
def http(broker):
    return Http(broker.http)


def make_topic(http, **config):
    name = f"lanes-{next(numbers)}"
    http.post("/topics", {"name": name, "num_partitions": 2, "config": config})
    return name


def publish(http, topic, *lanes):
    """One batch, each message named after its lane."""
    messages = [{"value": lane, "priority": lane, "partition": 1} for lane in lanes]
    results = http.post(f"/topics/{topic}/messages", {"messages": messages})["results"]
    assert [one.get("error") for one in results] == [None] * len(lanes)


def path(topic, order, query=""):
    return f"/topics/{topic}/partitions/1/messages/{order}?{query}"


def places(read):
    return [(one["priority"], one["offset"]) for one in read["messages"]]


def test_a_strict_read_gives_the_most_urgent_lane_first_over_all_batches(http):
    topic = make_topic(http)
    publish(http, topic, *LANES)
    publish(http, topic, *LANES)

    read = http.get(path(topic, "priority"))

    assert places(read) == [("critical", 1), ("critical", 4), ("normal", 2), ("normal", 5), ("low", 0), ("low", 3)]
    assert read["next_offsets"] == dict.fromkeys(["critical", "high", "normal", "low", "background"], 6)
    assert (read["high_watermark"], "unreadable" in read) == (6, False)
    assert http.get(path(topic, "priority"))["messages"] == read["messages"], "nothing is kept"


def test_a_fair_read_goes_round_by_the_topics_weights_and_begins_anew_each_time(http):
    topic = make_topic(http, **{"goqueue.lane.weights": "2,1,1,1,1"})
    publish(http, topic, *["low"] * 5, *["normal"] * 5, *["critical"] * 5)

    read = http.get(path(topic, "fair", "limit=8"))

    # Weights 2, 1 and 1, and a message costs 1.
    assert [one["value"][0] for one in read["messages"]] == list("ccnlccnl")
    following = json.dumps(read["next_offsets"], separators=(",", ":")).replace('"', "%22")
    rest = http.get(path(topic, "fair", f"offsets={following}"))
    assert [one["value"][0] for one in rest["messages"]] == list("cnlnlnl")
    assert sorted(one["offset"] for one in read["messages"] + rest["messages"]) == list(range(15))


@pytest.mark.parametrize("order", ["priority", "fair"])
def test_pages_of_a_read_give_every_message_once(http, order):
    topic = make_topic(http)
    for _ in range(4):
        publish(http, topic, *LANES)
    whole = places(http.get(path(topic, order)))
    seen, given = [], None
    while True:
        query = "limit=5" if given is None else "limit=5&offsets=" + ",".join(f"{k}:{v}" for k, v in given.items())
        page = http.get(path(topic, order, query))
        seen += places(page)
        if page["next_offsets"] == given:
            break
        given = page["next_offsets"]
    assert sorted(seen) == sorted(whole)
    assert len(seen) == 12
    if order == "priority":
        assert seen == whole


def test_a_read_begins_at_its_offset_and_ends_with_its_bytes(http):
    topic = make_topic(http)
    publish(http, topic, *LANES, *LANES)

    assert places(http.get(path(topic, "priority", "offset=3"))) == [("critical", 4), ("normal", 5), ("low", 3)]
    assert places(http.get(path(topic, "priority", "max_bytes=9"))) == [("critical", 1), ("critical", 4)]
    assert places(http.get(path(topic, "priority", "from=latest"))) == []
    (first, *_) = http.get(path(topic, "priority", "encoding=base64"))["messages"]
    assert (first["value"], first["encoding"]) == ("Y3JpdGljYWw=", "base64")


def test_compressed_batches_of_kafka_clients_and_aborted_transactions(broker, http):
    topic = make_topic(http, **{"goqueue.priority.headers": "true"})

    def send(producer):
        for lane in LANES:
            producer.produce(topic, lane, headers={"goqueue-priority": lane}, partition=1)

    config = {"bootstrap.servers": broker.kafka, "linger.ms": 200, "log_level": 0}
    for codec in ("gzip", "zstd"):
        producer = Producer({**config, "compression.type": codec})
        send(producer)
        assert producer.flush(15) == 0
    producer = Producer({**config, "transactional.id": topic})
    producer.init_transactions(15)
    producer.begin_transaction()
    send(producer)
    producer.abort_transaction(15)
    publish(http, topic, "critical")

    read = http.get(path(topic, "priority"))

    end = read["high_watermark"]
    expected = [("critical", 1), ("critical", 4), ("critical", end - 1)]
    expected += [("normal", 2), ("normal", 5), ("low", 0), ("low", 3)]
    assert places(read) == expected
    assert sorted(places(http.get(path(topic, "fair")))) == sorted(expected)
    assert set(read["next_offsets"].values()) == {end}


def test_an_unreadable_batch_is_passed_over_and_named_once(broker, http):
    topic = f"lanes-{next(numbers)}"
    http.post("/topics", {"name": topic, "num_partitions": 1})
    http.publish(topic, "before")
    with RawClient(broker.kafka) as client:
        batch = raw_batch(compress(Codec.GZIP, b"\x01" * 60), count=3, attributes=Codec.GZIP)
        assert client.produce(topic, batch)["error_code"] == 0
    http.post(f"/topics/{topic}/messages", {"messages": [{"value": "behind", "priority": "critical"}]})

    read = http.get(f"/topics/{topic}/partitions/0/messages/priority")

    assert places(read) == [("critical", 4), ("normal", 0)]
    (hole,) = read["unreadable"]
    assert (hole["first_offset"], hole["last_offset"]) == (1, 3)


def test_an_emptied_partition_gives_nothing_and_names_what_it_lost(http):
    topic = make_topic(http)
    publish(http, topic, *LANES)
    http.post(f"/topics/{topic}/partitions/1/truncate", {"before_offset": 3})

    read = http.get(path(topic, "fair"))
    assert (read["messages"], set(read["next_offsets"].values())) == ([], {3})
    assert http.refused("GET", path(topic, "fair", "offset=0"))[0] == 416
    publish(http, topic, "low", "critical")
    assert places(http.get(path(topic, "priority"))) == [("critical", 4), ("low", 3)]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_the_order_is_the_same_after_a_restart(start_broker, ending):
    broker = start_broker()
    http = Http(broker.http)
    topic = make_topic(http)
    publish(http, topic, *LANES)
    publish(http, topic, *LANES)
    before = [http.get(path(topic, order)) for order in ("priority", "fair")]

    getattr(broker, ending)()
    broker.start()

    http = Http(broker.http)
    assert [http.get(path(topic, order)) for order in ("priority", "fair")] == before
    assert len(before[0]["messages"]) == 6


def test_the_statistics_tell_how_fast_each_lane_comes_and_goes(http):
    topic = make_topic(http)
    publish(http, topic, *LANES, *LANES)
    http.post(f"/topics/{topic}/receive", {"group": "g", "limit": 2, "wait": "5s"})

    (row,) = http.get(f"/priority/stats?topic={topic}")["topics"][topic]["partitions"]["1"]

    lane = row["lanes"]["critical"]
    assert (lane["enqueued_total"], lane["delivered_total"], lane["in_flight"], lane["ready"]) == (2, 2, 2, 0)
    assert lane["enqueued_per_second"] > 0
    assert lane["delivered_per_second"] > 0
    assert lane["last_served_at"] > 0
    low = row["lanes"]["low"]
    assert (low["enqueued_total"], low["delivered_per_second"], low["last_served_at"], low["ready"]) == (2, 0, None, 2)


def test_a_large_page_is_read_whole(http):
    topic = make_topic(http)
    for lane in LANES:
        messages = [{"value": "x" * 1000, "priority": lane, "partition": 1} for _ in range(700)]
        http.post(f"/topics/{topic}/messages", {"messages": messages})

    for order in ("priority", "fair"):
        read = http.get(path(topic, order, "limit=10000"))
        assert sorted(one["offset"] for one in read["messages"]) == list(range(2100))
        assert set(read["next_offsets"].values()) == {2100}
    assert places(http.get(path(topic, "priority", "limit=10000")))[700] == ("normal", 1400)


@pytest.mark.parametrize(
    "query",
    ["offsets=urgent:1", "offsets=low:1,low:2", "offsets=1", "offset=1&offsets=low:1", "limit=10001", "wait=1s"],
)
def test_a_query_that_cannot_be_meant_is_refused(http, query):
    status, error = http.refused("GET", path(make_topic(http), "priority", query))
    assert status == 400
    assert query.rpartition("&")[2].partition("=")[0] in str(error)


def test_the_client_and_the_command_line_read_by_priority(broker, http, tmp_path):
    topic = make_topic(http)
    publish(http, topic, *LANES)
    publish(http, topic, *LANES)

    with connect(f"http://{broker.http}") as client:
        messages, following = client.read_lanes(topic, 1, limit=3)
        more, following = client.read_lanes(topic, 1, offsets=following)
        assert [one.offset for one in messages + more] == [1, 4, 2, 5, 0, 3]
        assert client.read_lanes(topic, 1, order="fair", offsets=following) == ([], following)

    environment = {**os.environ, "GOQUEUE_SERVER": f"http://{broker.http}", "HOME": str(tmp_path)}

    def consume(*more):
        command = [GOQUEUE, "consume", topic, *more]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)

    shown = consume("--partition", "1", "--order", "priority").stdout.split()
    assert shown == ["critical", "critical", "normal", "normal", "low", "low"]
    assert sorted(consume("--partition", "1", "--order", "fair", "-n", "4").stdout.split())[:1] == ["critical"]
    refused = consume("--order", "fair")
    assert (refused.returncode, "--partition" in refused.stderr) == (2, True)
