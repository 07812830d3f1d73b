"""Publishing and reading over HTTP."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import time
import urllib.request
from contextlib import ExitStack
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from tests.e2e.http import Http

names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture
def http(broker):
    return Http(broker.http)


@pytest.fixture
def topic(http):
    """A topic with one partition, since order counts within one."""
    name = next(names)
    http.post("/topics", {"name": name, "num_partitions": 1})
    return name


def read(http, topic, query="from=earliest"):
    return http.get(f"/topics/{topic}/partitions/0/messages?{query}")


def test_one_message_goes_in_and_comes_out(http, topic):
    reply = http.post(f"/topics/{topic}/messages", {"value": "hello", "key": "k", "headers": {"trace": "7"}})

    assert reply["results"] == [{"partition": 0, "offset": 0, "timestamp": reply["results"][0]["timestamp"]}]
    (message,) = read(http, topic)["messages"]
    assert (message["key"], message["value"], message["headers"]) == ("k", "hello", {"trace": "7"})


def test_every_route_is_served_under_v1_too(http, topic):
    http.post(f"/v1/topics/{topic}/messages", {"value": "hello"})

    assert http.get(f"/v1/topics/{topic}/partitions/0/messages")["next_offset"] == 1


def test_the_reply_names_the_level_of_safety_that_was_reached(http, topic):
    for acks in ("none", "leader", "all"):
        assert http.post(f"/topics/{topic}/messages", {"value": "x", "acks": acks})["acks"] == acks


def test_any_bytes_survive_as_base64(http, topic):
    every_byte = bytes(range(256))
    encoded = base64.b64encode(every_byte).decode()

    http.post(
        f"/topics/{topic}/messages",
        {"value": encoded, "key": encoded, "headers": {"h": encoded}, "encoding": "base64"},
    )

    (message,) = read(http, topic)["messages"]
    assert message["encoding"] == "base64"
    assert message["value"] == message["key"] == message["headers"]["h"] == encoded


def test_json_values_are_stored_as_they_were_written(http, topic):
    body = (
        b'{"messages": [{"value": {"b": 1,  "a": [1.50, null]}}, {"value": 7}, {"value": null}, {"value": "\\u00e9"}]}'
    )

    answer = http.ask("POST", f"/topics/{topic}/messages", body)

    assert answer.status == 200
    values = [message["value"] for message in read(http, topic)["messages"]]
    assert values == ['{"b": 1,  "a": [1.50, null]}', "7", None, "é"]


def test_messages_that_fail_do_not_hide_behind_a_200(http, topic):
    answer = http.ask(
        "POST",
        f"/topics/{topic}/messages",
        {"messages": [{"value": "good"}, {"value": "x", "partition": 9}, {"value": "!", "encoding": "base64"}]},
    )

    assert answer.status == 207
    good, unplaced, undecodable = answer.body["results"]
    assert good["offset"] == 0
    assert (unplaced["error"]["code"], unplaced["status"]) == ("partition_not_found", 404)
    assert undecodable["error"]["field"] == "messages[2].value"
    assert answer.body["count"] == 1


def test_a_retry_with_its_sequence_is_stored_once_and_answers_the_first_offsets(http, topic):
    producer = http.post("/producers/init")
    body = {
        "messages": [{"value": "a"}, {"value": "b"}],
        "partition": 0,
        "producer_id": producer["producer_id"],
        "producer_epoch": producer["epoch"],
        "sequence": 0,
    }

    first = http.post(f"/topics/{topic}/messages", body)
    again = http.post(f"/topics/{topic}/messages", body)

    assert [r["offset"] for r in again["results"]] == [r["offset"] for r in first["results"]] == [0, 1]
    assert again["duplicate"] is True
    assert "duplicate" not in first
    assert read(http, topic)["next_offset"] == 2


def test_a_gap_in_the_sequence_is_refused(http, topic):
    producer_id = http.post("/producers/init")["producer_id"]
    body = {"value": "a", "partition": 0, "producer_id": producer_id, "producer_epoch": 0}
    http.post(f"/topics/{topic}/messages", {**body, "sequence": 0})

    status, error = http.refused("POST", f"/topics/{topic}/messages", {**body, "sequence": 5})

    assert (status, error["code"]) == (409, "out_of_order_sequence")


def test_a_topic_is_made_by_its_first_message(http):
    name = next(names)

    http.publish(name, "hello")

    assert http.get(f"/topics/{name}")["partitions"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"worth": 1}, "worth"),
        ({}, "value"),
        ({"messages": []}, "messages"),
        ({"messages": [{"value": 1}], "value": 2}, "messages"),
        ({"value": 1, "key": 5}, "key"),
        ({"value": 1, "acks": "some"}, "acks"),
        ({"value": 1, "partition": -1}, "partition"),
        ({"value": 1, "producer_id": 1}, "producer_epoch"),
        ({"messages": [{"value": 1}, {"key": "k"}]}, "messages[1]"),
    ],
)
def test_a_bad_publish_names_the_field_and_stores_nothing(http, topic, body, field):
    status, error = http.refused("POST", f"/topics/{topic}/messages", body)

    assert status == 400
    assert error["field"].startswith(field)
    assert read(http, topic)["next_offset"] == 0


def test_a_body_that_is_not_json_is_refused_as_such(http, topic):
    status, error = http.refused("POST", f"/topics/{topic}/messages", b"{not json")

    assert (status, error["field"]) == (400, "body")


def test_a_body_above_16_megabytes_is_refused(http, topic):
    status, error = http.refused(
        "POST", f"/topics/{topic}/messages", b'{"value": "' + b"x" * (17 * 1024 * 1024) + b'"}'
    )

    assert (status, error["field"]) == (413, "body")


def test_reading_pages_through_a_partition_by_offset(http, topic):
    http.publish(topic, *range(25))

    values, offset = [], 0
    while True:
        page = read(http, topic, f"offset={offset}&limit=10")
        if not page["messages"]:
            break
        values += [int(message["value"]) for message in page["messages"]]
        offset = page["next_offset"]

    assert values == list(range(25))
    assert page["high_watermark"] == 25


def test_reading_starts_at_a_time(http, topic):
    stamped = [{"value": str(number), "timestamp": 1_700_000_000_000 + number} for number in range(10)]
    http.post(f"/topics/{topic}/messages", {"messages": stamped})

    page = read(http, topic, "timestamp=1700000000007")

    assert [message["value"] for message in page["messages"]] == ["7", "8", "9"]


def test_an_offset_beyond_the_end_is_out_of_range(http, topic):
    status, error = http.refused("GET", f"/topics/{topic}/partitions/0/messages?offset=5")

    assert (status, error["code"]) == (416, "offset_out_of_range")


def test_a_topic_read_merges_its_partitions_by_time(http):
    name = next(names)
    http.post("/topics", {"name": name, "num_partitions": 3})
    sent = [{"value": str(n), "partition": n % 3, "timestamp": 1_700_000_000_000 + n} for n in range(12)]
    http.post(f"/topics/{name}/messages", {"messages": sent})

    reply = http.get(f"/topics/{name}/messages")

    assert [message["value"] for message in reply["messages"]] == [str(n) for n in range(12)]
    assert reply["next_offsets"] == {"0": 4, "1": 4, "2": 4}


def test_a_waiting_read_answers_as_soon_as_a_message_comes(http, topic):
    with urllib.request.urlopen(f"{http.base}/topics/{topic}/messages/stream?from=latest&limit=1", timeout=30) as tail:
        http.publish(topic, "now")
        line = next(line for line in tail if line.strip())

    assert json.loads(line)["value"] == "now"


def test_server_sent_events_resume_where_they_were_cut(http, topic):
    http.publish(topic, "a", "b", "c")
    events = {"Accept": "text/event-stream", "Last-Event-ID": "0:1"}
    request = urllib.request.Request(f"{http.base}/topics/{topic}/messages/stream?limit=1", headers=events)

    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()

    assert response.headers["Content-Type"].startswith("text/event-stream")
    event_id, data = text.strip().split("\n")
    assert event_id == "id: 0:2"
    assert json.loads(data.removeprefix("data: "))["value"] == "c"


@pytest.mark.parametrize("strange", ["\u00c2\u00b2:\u00c2\u00b2", "0:" + "9" * 5000, "-1:x", "0"])
def test_an_event_id_that_is_not_ours_is_passed_over(http, topic, strange):
    http.publish(topic, "a")
    url = f"{http.base}/topics/{topic}/messages/stream?limit=1"
    request = urllib.request.Request(url, headers={"Last-Event-ID": strange})

    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.loads(response.read())["value"] == "a"


def test_a_stream_whose_topic_goes_is_cut_off_and_never_gets_a_second_answer(broker, http, topic):
    http.publish(topic, "a")
    host, _, port = broker.http.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as caller:
        caller.sendall(f"GET /topics/{topic}/messages/stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received = b""
        while b'"value":"a"' not in received:
            received += caller.recv(65536)
        http.delete(f"/topics/{topic}")
        while more := caller.recv(65536):
            received += more

    assert received.count(b"HTTP/1.1") == 1
    assert not received.endswith(b"0\r\n\r\n")


def test_a_client_that_hangs_up_ends_its_long_poll(broker, http, topic):
    host, _, port = broker.http.rpartition(":")
    with ExitStack() as stack:
        callers = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(20)]
        for caller in callers:
            caller.sendall(f"GET /topics/{topic}/messages?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        # Those of other tests' clients come and go meanwhile, so these are told apart by their ports.
        ports = {caller.getsockname()[1] for caller in callers}
        eventually(lambda: served_ports(broker.pid) >= ports)

    eventually(lambda: not served_ports(broker.pid) & ports)


def served_ports(pid):
    import psutil

    return {one.raddr.port for one in psutil.Process(pid).net_connections(kind="tcp") if one.raddr}


def eventually(condition, seconds=15):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_records_before_an_offset_can_be_deleted(http, topic):
    http.publish(topic, *range(10))

    assert http.post(f"/topics/{topic}/partitions/0/truncate", {"before_offset": 4})["earliest"] == 4
    assert read(http, topic)["messages"][0]["offset"] == 4


def test_a_request_id_is_echoed_or_made(http):
    assert http.ask("GET", "/version", headers={"X-Request-Id": "mine"}).headers["X-Request-Id"] == "mine"
    assert http.ask("GET", "/version").headers["X-Request-Id"]


class TestPriorities:
    @pytest.mark.parametrize(
        ("said", "shown"), [("critical", "critical"), (1, "high"), (2, "normal"), (None, "normal")]
    )
    def test_a_priority_comes_back_by_name_wherever_it_is_read(self, http, topic, said, shown):
        http.post(f"/topics/{topic}/messages", {"value": "v", "priority": said, "partition": 0})

        by_topic = http.get(f"/topics/{topic}/messages?from=earliest")["messages"]
        by_partition = http.get(f"/topics/{topic}/partitions/0/messages?from=earliest")["messages"]

        # What is normal is not worth a field.
        assert [one.get("priority", "normal") for one in [*by_topic, *by_partition]] == [shown, shown]

    def test_bytes_that_are_no_text_have_a_priority_too(self, http, topic):
        body = {"value": "AAH/", "encoding": "base64", "priority": "low", "headers": {"h": "AAH/"}}
        http.post(f"/topics/{topic}/messages", body)

        (message,) = http.get(f"/topics/{topic}/messages?from=earliest")["messages"]

        assert (message["priority"], message["headers"]["h"]) == ("low", "AAH/")

    @pytest.mark.parametrize("wrong", [5, -1, "urgent"])
    def test_a_lane_that_does_not_exist_is_refused(self, http, topic, wrong):
        status, error = http.refused("POST", f"/topics/{topic}/messages", {"value": "v", "priority": wrong})

        assert (status, error["field"]) == (400, "priority")


class TestDeduplication:
    @pytest.fixture
    def watched(self, http, topic):
        http.patch(f"/topics/{topic}", {"config": {"goqueue.dedup.window.ms": "300000"}})
        return topic

    def test_a_repeat_is_answered_with_the_first_ones_place(self, http, watched):
        body = {"value": "v", "deduplication_id": "order-1"}
        first = http.post(f"/topics/{watched}/messages", body)
        again = http.post(f"/topics/{watched}/messages", body)

        assert again["duplicate"]
        assert not first.get("duplicate")
        place = {name: first["results"][0][name] for name in ("partition", "offset", "timestamp")}
        assert again["results"] == [{**place, "duplicate": True}]
        assert http.get(f"/topics/{watched}")["total_messages"] == 1

    def test_each_of_several_messages_is_told_apart(self, http, watched):
        http.post(f"/topics/{watched}/messages", {"value": "v", "deduplication_id": "a"})
        messages = [{"value": "v", "deduplication_id": one} for one in ("a", "b", "b")]

        results = http.post(f"/topics/{watched}/messages", {"messages": messages})["results"]

        assert [one.get("duplicate", False) for one in results] == [True, False, True]
        assert results[1]["offset"] == results[2]["offset"]

    def test_a_topic_without_a_window_refuses_an_id_instead_of_ignoring_it(self, http, topic):
        status, error = http.refused("POST", f"/topics/{topic}/messages", {"value": "v", "deduplication_id": "a"})

        assert (status, error["field"]) == (400, "deduplication_id")
        assert "goqueue.dedup.window.ms" in error["hint"]

    def test_a_message_for_later_with_an_id_is_refused_and_the_others_are_not(self, http, watched):
        late = {"value": "late", "deduplication_id": "a", "delay": "1h"}
        path = f"/topics/{watched}/messages"

        status, error = http.refused("POST", path, late)
        assert (status, error["field"]) == (400, "deduplication_id")
        assert "window" in error["message"]

        by_header = {"value": "late", "headers": {"goqueue-dedup-id": "a"}, "delay": "1h"}
        sent = [{"value": "now", "deduplication_id": "a"}, late, by_header, {"value": "later", "delay": "1h"}]
        answer = http.ask("POST", path, {"messages": sent})
        assert answer.status == 207
        now, refused, refused_too, later = answer.body["results"]
        assert [refused["error"]["field"], refused_too["error"]["field"]] == [
            "messages[1].deduplication_id",
            "messages[2].deduplication_id",
        ]
        assert (now["offset"], later["delayed"]) == (0, True)
        assert [one["slot"] for one in http.get(f"/topics/{watched}/delayed")["messages"]] == [later["slot"]]

    def test_a_message_that_is_due_already_may_have_an_id(self, http, watched):
        body = {"value": "v", "deduplication_id": "a", "delay": "0s"}
        results = [http.post(f"/topics/{watched}/messages", body)["results"][0] for _ in range(2)]

        assert [one.get("duplicate", False) for one in results] == [False, True]
        assert http.get(f"/topics/{watched}")["total_messages"] == 1

    def test_ids_are_known_after_kill_9(self, start_broker):
        broker = start_broker()
        http = Http(broker.http)
        http.post("/topics", {"name": "watched", "config": {"goqueue.dedup.window.ms": "300000"}})
        body = {"value": "v", "deduplication_id": "order-1", "acks": "all"}
        http.post("/topics/watched/messages", body)

        broker.kill()
        broker.start()

        assert Http(broker.http).post("/topics/watched/messages", body)["duplicate"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"value": "\xff"}', "value"),
        (b'{"value": {"name": "\xff"}}', "value"),
        (b'{"value": "\xff", "encoding": "base64"}', "value"),
        (b'{"key": "\xff", "value": "fine"}', "body"),
    ],
)
def test_text_that_is_not_utf_8_is_refused_and_nothing_is_stored(http, topic, body, field):
    status, error = http.refused("POST", f"/topics/{topic}/messages", body)

    assert (status, error["field"]) == (400, field)
    assert "not valid UTF-8" in error["message"]
    assert read(http, topic)["messages"] == []


def test_text_that_is_not_utf_8_fails_alone_among_several_messages(http, topic):
    answer = http.ask("POST", f"/topics/{topic}/messages", b'{"messages": [{"value": "fine"}, {"value": "\xff"}]}')

    assert (answer.status, answer.body["count"]) == (207, 1)
    assert answer.body["results"][1]["error"]["field"] == "messages[1].value"


def test_a_body_that_is_nested_too_deeply_is_refused(http, topic):
    status, error = http.refused(
        "POST", f"/topics/{topic}/messages", b'{"value": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    )

    assert (status, error["message"]) == (400, "the body is nested too deeply")


@pytest.mark.parametrize("written", ["2026-04-15T12:30:00.250Z", "2026-04-15T14:30:00.250+02:00", 1776256200250])
def test_a_message_takes_its_timestamp_as_a_number_or_as_a_time(http, written):
    topic = f"stamped-{abs(hash(written))}"
    http.post("/topics", {"name": topic, "num_partitions": 1})
    http.post(f"/topics/{topic}/messages", {"value": "x", "timestamp": written})
    assert [one["timestamp"] for one in http.get(f"/topics/{topic}/messages")["messages"]] == [1776256200250]


def test_a_timestamp_that_is_no_time_is_refused_by_its_field(http):
    http.post("/topics", {"name": "badly-stamped", "num_partitions": 1})
    status, error = http.refused("POST", "/topics/badly-stamped/messages", {"value": "x", "timestamp": "yesterday"})
    assert (status, error["field"]) == (400, "timestamp")


class TestReadingOnByNextOffsets:
    @pytest.mark.parametrize("write", ["json", "pairs"])
    def test_a_loop_reads_every_message_of_a_topic_once(self, http, write):
        """Partitions are of different lengths, and one is empty when the loop begins."""
        topic = f"read-on-{write}"
        http.post("/topics", {"name": topic, "num_partitions": 4})
        sent = [{"value": str(n), "partition": 0 if n % 5 else n % 3} for n in range(50)]
        http.post(f"/topics/{topic}/messages", {"messages": sent})

        found, query = [], "from=earliest"
        for turn in range(100):
            answer = http.get(f"/topics/{topic}/messages?limit=7&{query}")
            found += [one["value"] for one in answer["messages"]]
            if not answer["messages"]:
                break
            offsets = answer["next_offsets"]
            written = json.dumps(offsets) if write == "json" else ",".join(f"{p}:{o}" for p, o in offsets.items())
            query = urlencode({"offsets": written})
            if turn == 1:
                late = {"messages": [{"value": "late-3", "partition": 3}, {"value": "late-0", "partition": 0}]}
                http.post(f"/topics/{topic}/messages", late)

        assert sorted(found) == sorted([*map(str, range(50)), "late-3", "late-0"])

    def test_partitions_that_are_not_named_begin_where_the_rest_of_the_query_says(self, http):
        http.post("/topics", {"name": "read-on-some", "num_partitions": 2})
        http.post(
            "/topics/read-on-some/messages", {"messages": [{"value": f"{n}", "partition": n % 2} for n in range(6)]}
        )

        def values(query):
            return sorted(one["value"] for one in http.get(f"/topics/read-on-some/messages?{query}")["messages"])

        assert values("offsets=1:2") == ["0", "2", "4", "5"]
        assert values("offsets=1:2&from=latest") == ["5"]
        assert values("offsets=1:2&partition=1") == ["5"]

    @pytest.mark.parametrize(
        "query",
        ["offsets=5", "offsets=0:x", "offsets=", "offsets=9:0", "offsets=0:1,0:2", "offsets=0:1&offset=1&partition=0"],
    )
    def test_offsets_that_name_no_place_are_refused(self, http, topic, query):
        status, error = http.refused("GET", f"/topics/{topic}/messages?{query}")

        assert (status, error["field"]) == (400, "offsets")


class TestTimesInReads:
    """2023-11-14T22:13:20Z is 1700000000000."""

    WRITTEN = (
        "1700000000007",
        "2023-11-14T22:13:20.007Z",
        "2023-11-14T23:13:20.007%2B01:00",
        "2023-11-14T23:13:20.007+01:00",
    )

    @pytest.fixture
    def stamped(self, http):
        http.post("/topics", {"name": (name := f"stamped-{uuid4().hex[:8]}"), "num_partitions": 1})
        sent = [{"value": str(number), "timestamp": 1_700_000_000_000 + number} for number in range(10)]
        http.post(f"/topics/{name}/messages", {"messages": sent})
        return name

    @pytest.mark.parametrize("written", WRITTEN)
    def test_every_read_takes_a_number_or_a_time(self, http, stamped, written):
        for path in (f"/topics/{stamped}/messages", f"/topics/{stamped}/partitions/0/messages"):
            assert [one["offset"] for one in http.get(f"{path}?timestamp={written}")["messages"]] == [7, 8, 9]
        found = http.get(f"/topics/{stamped}/partitions/0/offset?timestamp={written}")
        assert found == {"offset": 7, "timestamp": 1_700_000_000_007}
        address = f"{http.base}/topics/{stamped}/messages/stream?from=earliest&to_timestamp={written}"
        with urllib.request.urlopen(address, timeout=30) as lines:
            assert [json.loads(line)["offset"] for line in lines if line.strip()] == list(range(8))

    @pytest.mark.parametrize("written", [1_700_000_000_007, "2023-11-14T22:13:20.007Z"])
    def test_offsets_are_reset_to_a_number_or_a_time(self, http, stamped, written):
        http.post(f"/groups/{stamped}/offsets", {"offsets": {stamped: {"0": 1}}})

        answer = http.post(f"/groups/{stamped}/offsets/reset", {"topic": stamped, "to": {"timestamp": written}})

        assert [(one["from"], one["to"]) for one in answer["changes"]] == [(1, 7)]

    @pytest.mark.parametrize("written", ["yesterday", "2023-11-14", "-5", "2023-11-14T22:13:20", "99999999999999999"])
    def test_what_is_no_time_is_refused_by_its_field(self, http, stamped, written):
        for path, field in (
            (f"/topics/{stamped}/messages?timestamp=", "timestamp"),
            (f"/topics/{stamped}/partitions/0/offset?timestamp=", "timestamp"),
            (f"/topics/{stamped}/messages/stream?to_timestamp=", "to_timestamp"),
        ):
            status, error = http.refused("GET", path + written)
            assert (status, error["field"]) == (400, field)
        body = {"topic": stamped, "to": {"timestamp": written}}
        status, error = http.refused("POST", f"/groups/{stamped}/offsets/reset", body)
        assert (status, error["field"]) == (400, "to.timestamp")
