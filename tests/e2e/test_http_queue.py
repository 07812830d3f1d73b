"""Queues over HTTP: receipts, retries, dead letters, priority, policies; what survives kill -9."""

from __future__ import annotations

import itertools
import json
import socket
import time

import pytest
from tests.e2e.http import Http
from tests.e2e.test_groups_wire import LIST, Wire

numbers = itertools.count()


@pytest.fixture
def http(broker):
    return Http(broker.http)


@pytest.fixture
def topic(http):
    name = f"queued-{next(numbers)}"
    http.post("/topics", {"name": name, "num_partitions": 1})
    return name


@pytest.fixture
def group(topic):
    return f"workers-of-{topic}"


def take(http, topic, group, **fields):
    return http.post(f"/topics/{topic}/receive", {"group": group, "wait": "5s", **fields})["messages"]


def until(condition, seconds=10.0):
    """What the condition gives once it gives something."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
    return found


def letters(http, topic, query=""):
    return http.get(f"/topics/{topic}/dlq{query}")["letters"]


class TestReceiving:
    def test_a_message_comes_with_a_receipt_and_is_hidden_from_others(self, http, topic, group):
        http.publish(topic, "a")

        (message,) = take(http, topic, group)

        assert (message["value"], message["delivery_count"], message["priority"]) == ("a", 1, "normal")
        assert message["receipt_handle"].startswith(f"{topic}:0:0:1:")
        assert message["visible_until"] > time.time() * 1000
        assert take(http, topic, group, wait="0") == []

    def test_two_groups_are_independent(self, http, topic, group):
        http.publish(topic, "a")
        take(http, topic, group)

        (message,) = take(http, topic, f"{group}-too")

        assert message["value"] == "a"

    def test_one_slow_message_does_not_hold_up_the_others(self, http, topic, group):
        http.publish(topic, *"abc")

        assert [one["value"] for one in take(http, topic, group, limit=1)] == ["a"]
        assert [one["value"] for one in take(http, topic, group)] == ["b", "c"]

    def test_a_group_has_a_name_without_being_given_one(self, http, topic):
        http.publish(topic, "a")

        assert http.post(f"/topics/{topic}/receive")["group"] == "default"

    def test_a_message_whose_time_is_up_comes_again_and_its_old_receipt_is_stale(self, http, topic, group):
        http.publish(topic, "a")
        (first,) = take(http, topic, group, visibility="100ms")

        (again,) = take(http, topic, group)

        assert again["delivery_count"] == 2
        status, error = http.refused("POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]})
        assert (status, error["code"]) == (410, "receipt_expired")

    @pytest.mark.parametrize(
        ("action", "fields"),
        [("ack", {}), ("nack", {}), ("reject", {"reason": "bad"}), ("visibility", {"visibility": "1m"})],
    )
    def test_an_answer_that_comes_too_late_is_told_so_though_nobody_else_has_the_message(
        self, http, topic, group, action, fields
    ):
        http.publish(topic, "a")
        (first,) = take(http, topic, group, visibility="0s")

        receipt = {"receipt_handle": first["receipt_handle"]}
        status, error = http.refused("POST", f"/messages/{action}", {**receipt, **fields})

        assert (status, error["code"]) == (410, "receipt_expired")
        (again,) = take(http, topic, group)
        assert (again["value"], again["delivery_count"]) == ("a", 2)
        http.post("/messages/ack", {"receipt_handle": again["receipt_handle"]})
        assert take(http, topic, group, wait="0") == []

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"limit": 0}, "limit"),
            ({"visibility": "soon"}, "visibility"),
            ({"wait": "1 year"}, "wait"),
            ({"x": 1}, "x"),
        ],
    )
    def test_a_request_that_means_nothing_is_refused_by_its_field(self, http, topic, fields, field):
        status, error = http.refused("POST", f"/topics/{topic}/receive", fields)

        assert (status, error["field"]) == (400, field)

    def test_a_topic_that_is_not_there_is_refused(self, http):
        assert http.refused("POST", "/topics/nowhere/receive")[0] == 404

    def test_a_caller_that_hangs_up_leaves_nothing_leased(self, broker, http, topic, group):
        """The next message goes to whoever still waits for it, as if the other had never asked."""
        take(http, topic, group, wait="0")
        body = json.dumps({"group": group, "wait": "30s"}).encode()
        head = (
            f"POST /topics/{topic}/receive HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        host, port = broker.http.split(":")
        gone = [socket.create_connection((host, int(port))) for _ in range(3)]
        for one in gone:
            one.sendall(head + body)
        # Whoever waits is seen by nobody, so a request that comes back shows that those before it are waiting.
        take(http, topic, group, wait="300ms")
        for one in gone:
            one.close()
        take(http, topic, group, wait="300ms")

        http.publish(topic, "a")

        (message,) = take(http, topic, group)
        assert (message["value"], message["delivery_count"]) == ("a", 1)


class TestSettling:
    def test_an_acked_message_is_done_and_the_group_moves_on(self, http, topic, group):
        http.publish(topic, "a", "b")
        first, second = take(http, topic, group)

        done = http.post("/messages/ack", {"receipt_handle": second["receipt_handle"]})
        assert (done["success"], done["action"], done["committed_offset"], done["offset_advanced"]) == (
            True,
            "acked",
            0,
            False,
        )
        done = http.post("/messages/ack", {"receipt_handle": first["receipt_handle"], "durable": True})
        assert (done["committed_offset"], done["offset_advanced"], done["in_flight_count"]) == (2, True, 0)
        assert http.get(f"/groups/{group}/offsets")["total_lag"] == 0
        assert take(http, topic, group, wait="0") == []

    def test_an_unknown_receipt_is_404_and_nonsense_is_400(self, http, topic, group):
        http.publish(topic, "a")
        (message,) = take(http, topic, group)
        receipt = message["receipt_handle"]
        elsewhere = receipt.replace(topic, "no-such-topic")

        assert http.refused("POST", "/messages/ack", {"receipt_handle": elsewhere})[0] == 404
        assert http.refused("POST", "/messages/ack", {"receipt_handle": "nonsense"})[0] == 400
        assert http.refused("POST", "/messages/ack", {})[1]["field"] == "receipt_handle"
        assert http.refused("POST", "/messages/ack", {"receipt_handle": receipt, "receipts": [receipt]})[0] == 400

    def test_several_receipts_have_a_result_each_and_207_says_that_some_failed(self, http, topic, group):
        http.publish(topic, *range(3))
        receipts = [one["receipt_handle"] for one in take(http, topic, group)]
        http.post("/messages/ack", {"receipts": receipts[:1]})

        answer = http.ask("POST", "/messages/ack", {"receipts": [*receipts, "nonsense"]})

        assert answer.status == 207
        assert [one["success"] for one in answer.body["results"]] == [False, True, True, False]
        assert [one.get("status") for one in answer.body["results"]] == [410, None, None, 400]
        assert (answer.body["succeeded"], answer.body["failed"]) == (2, 2)
        assert [one["receipt_handle"] for one in answer.body["results"]] == [*receipts, "nonsense"]

    def test_a_nacked_message_comes_again_after_its_delay(self, http, topic, group):
        http.publish(topic, "a")
        (message,) = take(http, topic, group)

        answer = http.post(
            "/messages/nack", {"receipt_handle": message["receipt_handle"], "delay": "200ms", "error": "busy"}
        )

        assert (answer["action"], answer["delivery_count"]) == ("requeued", 1)
        assert "reason" not in answer
        (again,) = take(http, topic, group)
        assert time.time() * 1000 >= answer["next_visible_at"]
        assert again["delivery_count"] == 2

    def test_more_time_can_be_asked_for_and_given_back(self, http, topic, group):
        http.publish(topic, "a")
        (message,) = take(http, topic, group, visibility="2s")
        receipt = message["receipt_handle"]

        longer = http.post("/messages/visibility", {"receipt_handle": receipt, "extension_seconds": 60})
        assert longer["action"] == "extended"
        assert 59_000 < longer["new_deadline"] - time.time() * 1000 <= 60_000
        assert 59_000 < longer["extended_by"] <= 60_000
        assert http.refused("POST", "/messages/visibility", {"receipt_handle": receipt})[0] == 400

        released = http.post("/messages/visibility", {"receipt_handle": receipt, "visibility": "0"})
        assert released["action"] == "released"
        assert len(take(http, topic, group)) == 1


class TestDeadLetters:
    def test_a_rejected_message_is_a_dead_letter_with_its_history(self, http, topic, group):
        http.post(f"/topics/{topic}/messages", {"key": "k", "value": "poison", "headers": {"trace": "7"}})
        (message,) = take(http, topic, group, client_id="worker-1")

        answer = http.post("/messages/reject", {"receipt_handle": message["receipt_handle"], "error": "no such user"})

        assert (answer["action"], answer["dlq_topic"]) == ("rejected", f"{topic}.dlq")
        (letter,) = until(lambda: letters(http, topic))
        assert (letter["topic"], letter["partition"], letter["offset"]) == (topic, 0, 0)
        assert (letter["group"], letter["consumer"], letter["delivery_count"]) == (group, "worker-1", 1)
        assert (letter["reason"], letter["error"]) == ("rejected", "no such user")
        assert answer["reason"] == "rejected"
        assert (letter["message"]["key"], letter["message"]["value"]) == ("k", "poison")
        assert letter["message"]["headers"]["trace"] == "7"

    def test_error_and_reason_are_two_names_for_one_text(self, http, topic, group):
        http.publish(topic, "a")
        (message,) = take(http, topic, group)
        receipt = {"receipt_handle": message["receipt_handle"]}

        for route, body, field in (
            ("reject", {}, "error"),
            ("reject", {"error": "one", "reason": "another"}, "reason"),
            ("nack", {"error": "one", "reason": "another"}, "reason"),
        ):
            status, refusal = http.refused("POST", f"/messages/{route}", {**receipt, **body})
            assert (status, refusal["field"]) == (400, field)

        http.post("/messages/reject", {**receipt, "reason": "by the other name"})
        (letter,) = until(lambda: letters(http, topic))
        assert (letter["reason"], letter["error"]) == ("rejected", "by the other name")

    def test_a_message_that_keeps_failing_dies_after_its_retries(self, http, topic, group):
        take(http, topic, group, wait="0")
        http.patch(f"/groups/{group}/policy", {"retries_max": 2, "visibility_ms": 300, "backoff_ms": 10})
        http.publish(topic, "a")

        (first,) = take(http, topic, group)
        requeued = http.post("/messages/nack", {"receipt_handle": first["receipt_handle"], "reason": "the first time"})
        (second,) = take(http, topic, group)
        # Nobody says anything about the second delivery: it ends by itself.
        (third,) = take(http, topic, group)
        last = http.post("/messages/nack", {"receipt_handle": third["receipt_handle"], "reason": "the last time"})

        assert [one["delivery_count"] for one in (first, second, third)] == [1, 2, 3]
        assert (requeued["action"], last["action"], last["dlq_topic"]) == ("requeued", "dlq", f"{topic}.dlq")
        (letter,) = until(lambda: letters(http, topic))
        assert letter["delivery_count"] == 3
        assert (letter["reason"], letter["error"]) == ("retries_exhausted", "the last time")
        assert last["reason"] == "retries_exhausted"
        assert take(http, topic, group, wait="0") == []

    def test_letters_are_filtered_by_what_they_are(self, http, topic, group):
        http.post(
            f"/topics/{topic}/messages",
            {"messages": [{"key": str(n), "value": n, "headers": {"tenant": "a" if n % 2 else "b"}} for n in range(4)]},
        )
        for message in take(http, topic, group):
            http.post("/messages/reject", {"receipt_handle": message["receipt_handle"], "reason": "bad"})
        until(lambda: len(letters(http, topic)) == 4)

        def keys(query):
            return [one["message"]["key"] for one in letters(http, topic, query)]

        assert keys("?key=2") == ["2"]
        assert keys("?header=tenant%3Da") == ["1", "3"]
        assert keys("?header=tenant") == ["0", "1", "2", "3"]
        assert keys("?group=nobody") == []
        assert keys(f"?since={int(time.time() * 1000) + 60_000}") == []
        page = http.get(f"/topics/{topic}/dlq?limit=3")
        rest = http.get(f"/topics/{topic}/dlq?limit=3&cursor={page['cursor']}")
        assert [one["message"]["key"] for one in [*page["letters"], *rest["letters"]]] == ["0", "1", "2", "3"]
        assert "cursor" not in rest

    def test_a_redrive_sends_back_what_is_meant_once(self, broker, http, topic, group):
        self._kill(http, topic, group, 6)

        def redrive(**fields):
            http.post(f"/topics/{topic}/dlq/redrive", fields)
            return until(lambda: (one := http.get(f"/topics/{topic}/dlq/redrive"))["state"] != "running" and one)

        dry = redrive(dry_run=True, header="half=1")
        assert (dry["state"], dry["matched"], dry["redriven"], dry["total"]) == ("done", 3, 0, 6)
        some = redrive(header="half=1", headers={"mended": "yes", "half": None})
        assert (some["matched"], some["redriven"], some["failed"]) == (3, 3, 0)
        assert redrive(header="half=1")["matched"] == 0
        rest = redrive(all_groups=True)
        assert (rest["scanned"], rest["redriven"]) == (3, 3)
        assert redrive()["redriven"] == 0
        # The group in which the broker itself reads dead letters is shown to those who ask for it.
        assert "goqueue-redrive" not in [one["id"] for one in http.get("/groups")["groups"]]
        assert "goqueue-redrive" in [one["id"] for one in http.get("/groups?internal=true")["groups"]]
        with Wire(broker.kafka) as wire:
            listed = [one["group_id"] for one in wire.ask(LIST, 5, states_filter=[], types_filter=[])["groups"]]
        # A node of a cluster lists the groups that it coordinates.
        assert group in listed or broker.is_cluster
        assert "goqueue-redrive" not in listed

        back = http.get(f"/topics/{topic}/messages?from=earliest")["messages"][6:]
        assert sorted(int(one["value"]) for one in back) == list(range(6))
        mended = [one for one in back if one["headers"].get("mended") == "yes"]
        assert sorted(int(one["value"]) for one in mended) == [1, 3, 5]
        assert all("half" not in one["headers"] for one in mended)
        assert all(one["headers"]["goqueue-dlq-topic"] == topic for one in back)
        assert [one["value"] for one in take(http, topic, group)] == [one["value"] for one in back]

    def test_a_redrive_reaches_only_the_group_in_which_a_message_died_unless_asked(self, http, topic, group):
        self._kill(http, topic, group, 4)
        other = f"{group}-other"
        received = take(http, topic, other, limit=10)
        assert len(received) == 4
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in received]})

        def redrive(**fields):
            http.post(f"/topics/{topic}/dlq/redrive", fields)
            return until(lambda: (one := http.get(f"/topics/{topic}/dlq/redrive"))["state"] != "running" and one)

        assert redrive(limit=2)["redriven"] == 2
        assert take(http, topic, other) == []
        assert [one["delivery_count"] for one in take(http, topic, group, limit=10)] == [1, 1]
        assert len(http.get(f"/topics/{topic}/messages?from=earliest")["messages"]) == 4, "nothing was appended"
        assert redrive(limit=1, headers={"mended": "yes"})["redriven"] == 1
        assert take(http, topic, other) == []
        assert len(take(http, topic, group, limit=10)) == 1
        assert redrive(all_groups=True)["redriven"] == 1
        assert len(take(http, topic, other)) == 1
        assert len(take(http, topic, group, limit=10)) == 1

    def test_letters_are_sent_elsewhere_when_their_topic_is_gone(self, http, topic, group):
        self._kill(http, topic, group, 2)
        http.post("/topics", {"name": f"{topic}-new", "num_partitions": 1})
        http.delete(f"/topics/{topic}")

        http.post(f"/topics/{topic}/dlq/redrive", {"to": f"{topic}-new"})
        done = until(lambda: (one := http.get(f"/topics/{topic}/dlq/redrive"))["state"] != "running" and one)

        assert (done["state"], done["redriven"]) == ("done", 2)
        assert len(http.get(f"/topics/{topic}-new/messages?from=earliest")["messages"]) == 2

    def test_a_redrive_keeps_to_its_rate_and_can_be_stopped(self, http, topic, group):
        self._kill(http, topic, group, 100)

        http.post(f"/topics/{topic}/dlq/redrive", {"per_second": 5})
        assert http.refused("POST", f"/topics/{topic}/dlq/redrive")[0] == 409
        until(lambda: http.get(f"/topics/{topic}/dlq/redrive")["redriven"])
        stopped = http.delete(f"/topics/{topic}/dlq/redrive")

        assert (stopped["state"], stopped["redriven"]) == ("cancelled", 50)

    def test_dead_letters_can_be_deleted(self, http, topic, group):
        self._kill(http, topic, group, 3)

        assert http.delete(f"/topics/{topic}/dlq")["purged"] == 3
        assert letters(http, topic) == []
        assert http.delete(f"/topics/{topic}/dlq")["purged"] == 0

    def test_a_topic_that_never_had_any_has_none(self, http, topic):
        assert http.get(f"/topics/{topic}/dlq") == {
            "topic": topic,
            "dlq_topic": f"{topic}.dlq",
            "total": 0,
            "letters": [],
        }
        assert http.refused("GET", "/topics/nowhere/dlq")[0] == 404

    def _kill(self, http, topic, group, count):
        messages = [{"value": n, "headers": {"half": str(n % 2)}} for n in range(count)]
        http.post(f"/topics/{topic}/messages", {"messages": messages})
        receipts = [one["receipt_handle"] for one in take(http, topic, group, limit=count)]
        http.post("/messages/reject", {"receipts": receipts, "reason": "bad"})
        until(lambda: len(letters(http, topic, "?limit=1000")) == count)


class TestPriorities:
    def test_the_urgent_comes_first_and_every_lane_is_counted(self, http, topic, group):
        lanes = ["background", "low", "normal", "high", "critical"]
        http.post(f"/topics/{topic}/messages", {"messages": [{"value": one, "priority": one} for one in lanes]})

        stats = self._lanes(http, topic, group, take(http, topic, group, limit=1))
        assert [one["value"] for one in take(http, topic, group)] == list(reversed(lanes))[1:]

        assert stats["critical"]["in_flight"] == 1
        assert [stats[one]["ready"] for one in lanes] == [1, 1, 1, 1, 0]

    def _lanes(self, http, topic, group, taken):
        assert [one["priority"] for one in taken] == ["critical"]
        found = http.get("/priority/stats")["topics"][topic]["partitions"]["0"]
        (row,) = [one for one in found if one["group"] == group]
        return row["lanes"]


class TestMembers:
    def test_members_of_a_queue_take_from_their_partitions_by_receipts(self, http, group):
        name = f"{group}-wide"
        http.post("/topics", {"name": name, "num_partitions": 2})
        member = http.post(f"/groups/{group}/join", {"topics": [name]})
        http.publish(name, *range(6))
        query = f"member_id={member['member_id']}&generation={member['generation']}&timeout=5s"

        seen = []
        while len(seen) < 6:
            polled = http.get(f"/groups/{group}/poll?{query}")["messages"]
            http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in polled]})
            seen += [int(one["value"]) for one in polled]

        assert sorted(seen) == list(range(6))
        described = http.get(f"/groups/{group}")
        assert (described["mode"], described["sharing"]) == ("queue", "exclusive")
        assert sum(row["lag"] for row in described["offsets"]) == 0

    @pytest.mark.parametrize("way", ["join", "join/cooperative"])
    def test_members_that_share_take_from_every_partition(self, http, topic, group, way):
        wish = {"topics": [topic], "sharing": "shared"}
        members = [http.post(f"/groups/{group}/{way}", wish) for _ in range(3)]
        http.publish(topic, *range(3))

        got = []
        for member in members:
            body = {"member_id": member["member_id"], "generation": member["generation"], "limit": 1}
            got += http.post(f"/groups/{group}/poll", {**body, "timeout_ms": 5000})["messages"]

        assert sorted(int(one["value"]) for one in got) == [0, 1, 2]

    def test_what_a_member_held_goes_to_others_when_it_leaves(self, http, topic, group):
        http.publish(topic, "a")
        member = http.post(f"/groups/{group}/join", {"topics": [topic]})
        body = {"member_id": member["member_id"], "generation": member["generation"], "timeout_ms": 5000}
        assert len(http.post(f"/groups/{group}/poll", body)["messages"]) == 1

        http.post(f"/groups/{group}/leave", {"member_id": member["member_id"]})

        assert len(take(http, topic, group)) == 1

    def test_messages_of_one_key_come_one_after_the_other(self, http, topic, group):
        member = http.post(f"/groups/{group}/join", {"topics": [topic], "key_ordered": True})
        http.post(f"/topics/{topic}/messages", {"messages": [{"key": k, "value": v} for k, v in ["a1", "a2", "b1"]]})
        body = {"member_id": member["member_id"], "generation": member["generation"], "timeout_ms": 5000}

        first = http.post(f"/groups/{group}/poll", body)["messages"]
        assert [one["key"] + one["value"] for one in first] == ["a1", "b1"]
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in first]})
        second = http.post(f"/groups/{group}/poll", body)["messages"]
        assert [one["key"] + one["value"] for one in second] == ["a2"]

    def test_a_group_is_a_queue_or_a_stream_for_good(self, http, topic, group):
        take(http, topic, group, wait="0")
        offsets = {"offsets": {topic: {"0": 0}}}
        member = http.post(f"/groups/{group}/join", {"topics": [topic]})

        status, error = http.refused("POST", f"/groups/{group}/join", {"topics": [topic], "mode": "stream"})
        assert (status, error["code"]) == (409, "group_mode_mismatch")
        identity = {"member_id": member["member_id"], "generation": member["generation"]}
        assert http.refused("POST", f"/groups/{group}/offsets", {**offsets, **identity})[0] == 409
        assert http.refused("POST", f"/groups/{group}/offsets", offsets)[0] == 409

        stream = f"{group}-stream"
        http.post(f"/groups/{stream}/join", {"topics": [topic], "mode": "stream"})
        assert http.refused("POST", f"/topics/{topic}/receive", {"group": stream})[0] == 409
        assert http.refused("POST", f"/groups/{stream}/join", {"topics": [topic]})[0] == 409

    def test_an_empty_queue_group_can_be_wound_back(self, http, topic, group):
        http.publish(topic, "a", "b")
        http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in take(http, topic, group)]})

        http.post(f"/groups/{group}/offsets/reset", {"topic": topic, "to": "earliest"})

        assert [one["value"] for one in take(http, topic, group)] == ["a", "b"]


class TestPolicies:
    def test_a_group_overrides_its_topic_and_takes_it_back(self, http, topic, group):
        take(http, topic, group, wait="0")
        http.patch(f"/topics/{topic}", {"config": {"delivery.max.retries": "7"}})

        changed = http.patch(f"/groups/{group}/policy", {"visibility_ms": 5000})
        assert changed["overrides"] == {"visibility_ms": 5000}
        found = http.get(f"/groups/{group}/policy?topic={topic}")["effective"]
        assert (found["visibility_ms"], found["retries_max"]) == (5000, 7)
        assert http.get(f"/groups/{group}/policy")["effective"]["retries_max"] == 3
        http.publish(topic, "a")
        (message,) = take(http, topic, group)
        assert message["visible_until"] - time.time() * 1000 < 5001

        assert http.patch(f"/groups/{group}/policy", {"visibility_ms": None})["overrides"] == {}

    def test_a_policy_that_cannot_be_is_refused_by_its_field(self, http, topic, group):
        take(http, topic, group, wait="0")

        assert http.refused("PATCH", f"/groups/{group}/policy", {"retries_max": -1})[1]["field"] == "retries_max"
        assert (
            http.refused("PATCH", f"/groups/{group}/policy", {"retry_max": 1})[1]["hint"]
            == "did you mean 'retries_max'?"
        )
        assert http.refused("GET", "/groups/nobody-at-all/policy")[0] == 404

    def test_the_statistics_tell_what_was_done(self, http, topic, group):
        http.publish(topic, "a", "b")
        before = http.get("/reliability/stats")
        first, _ = take(http, topic, group)
        http.post("/messages/ack", {"receipt_handle": first["receipt_handle"]})

        after = http.get("/reliability/stats")

        assert after["ack_manager"]["acked_total"] == before["ack_manager"]["acked_total"] + 1
        assert after["visibility_tracker"]["in_flight"] == before["visibility_tracker"]["in_flight"] + 1
        (row,) = [one for one in after["queues"] if one["group"] == group]
        assert (row["topic"], row["in_flight"], row["consumers"]) == (topic, 1, {"http": 1})


def test_after_kill_9_what_was_acked_stays_acked_and_what_was_held_comes_back(start_broker):
    broker = start_broker()
    http = Http(broker.http)
    http.post("/topics", {"name": "jobs", "num_partitions": 3})
    http.publish("jobs", *range(300), acks="all")
    taken: list[dict] = []
    while len(taken) < 200:
        taken += take(http, "jobs", "workers", limit=100, visibility="2s")
    acked, held = taken[::2], taken[1::2]
    # At once, so that what is held is held until the broker dies, however slow its disk.
    http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in acked], "durable": True})

    broker.kill()
    broker.start()

    http = Http(broker.http)
    expected = set(range(300)) - {int(one["value"]) for one in acked}
    counts: dict[int, int] = {}
    deadline = time.monotonic() + 30
    while len(counts) < len(expected):
        assert time.monotonic() < deadline, sorted(expected - counts.keys())
        taken = take(http, "jobs", "workers", limit=100, wait="1s")
        for one in taken:
            counts[int(one["value"])] = one["delivery_count"]
        if taken:
            http.post("/messages/ack", {"receipts": [one["receipt_handle"] for one in taken]})
    assert counts.keys() == expected
    assert all(counts[int(one["value"])] == 2 for one in held)
    assert take(http, "jobs", "workers", wait="0") == []
