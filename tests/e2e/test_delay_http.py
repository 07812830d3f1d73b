"""Delayed and recurring messages over HTTP, with kill -9 in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.conftest import StartBroker
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http)


def until(check: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def messages(http: Http, topic: str) -> list[dict[str, Any]]:
    found = http.get(f"/topics/{topic}/messages?from=earliest&limit=1000")["messages"]
    return sorted(found, key=lambda one: one["value"])


def values(http: Http, topic: str) -> list[str]:
    return [one["value"] for one in messages(http, topic)]


def slot_path(topic: str, result: dict[str, Any]) -> str:
    return f"/topics/{topic}/delayed/{result['slot']}"


def test_a_message_is_held_back_and_comes_when_it_is_due(http: Http) -> None:
    before_ms = time.time() * 1000
    [result] = http.post("/topics/later/messages", {"key": "k", "value": "v", "delay": "700ms", "priority": "high"})[
        "results"
    ]
    assert result["delayed"] is True
    # It has no place in its topic yet: what names one is left out, so that nobody reads or commits there.
    assert not {"partition", "offset", "timestamp"} & set(result)
    assert messages(http, "later") == []
    shown = http.get(slot_path("later", result))
    assert (shown["key"], shown["value"], shown["state"], shown["priority"]) == ("k", "v", "pending", "high")
    until(lambda: values(http, "later") == ["v"])
    [delivered] = messages(http, "later")
    assert delivered["timestamp"] >= before_ms + 699
    assert delivered["priority"] == "high"
    # It can be read before the disk has it for sure, and its slot is kept until then; it cannot be taken back any more.
    assert http.refused("DELETE", slot_path("later", result))[0] in {404, 409}
    until(lambda: http.ask("GET", slot_path("later", result)).status == 404)


def test_messages_due_now_and_later_are_answered_in_the_order_sent(http: Http) -> None:
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    results = http.post(
        "/topics/mixed/messages",
        {
            "messages": [
                {"value": "now"},
                {"value": "later", "delay": "1h30m"},
                {"value": "past", "deliverAt": past},
                {"value": "zero", "delay": "0s"},
            ]
        },
    )["results"]
    assert [one.get("delayed", False) for one in results] == [False, True, False, False]
    assert values(http, "mixed") == ["now", "past", "zero"]


def test_list_cancel_put_off_and_deliver_now(http: Http) -> None:
    at = datetime.now(UTC) + timedelta(days=400)
    first, second, third = http.post(
        "/topics/changes/messages",
        {"messages": [{"value": str(number), "deliverAt": at.isoformat()} for number in range(3)]},
    )["results"]
    listed = http.get("/topics/changes/delayed")
    assert [one["slot"] for one in listed["messages"]] == [one["slot"] for one in (first, second, third)]
    assert not {"partition", "offset"} & set(listed["messages"][0])
    assert listed["count"] == 3
    assert http.get("/topics/changes/delayed?limit=1&skip=2")["messages"][0]["slot"] == third["slot"]
    soon = (at - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert http.get(f"/topics/changes/delayed?due_before={soon}")["count"] == 0
    assert http.delete(slot_path("changes", first)) == {"canceled": True, "topic": "changes", "slot": first["slot"]}
    assert http.refused("DELETE", slot_path("changes", first)) == (
        404,
        http.refused("GET", slot_path("changes", first))[1],
    )
    moved = http.patch(slot_path("changes", second), {"delay": "2h"})
    # The whole two hours are left while the clock still shows the millisecond of the call.
    assert moved["time_remaining"].startswith(("2h0m0s", "1h59m"))
    http.post(slot_path("changes", third) + "/now")
    until(lambda: values(http, "changes") == ["2"])
    expected = {"pending": 1, "expired": 0, "scheduled": 3, "delivered": 1, "canceled": 1}
    # It counts as pending until it is safe in its topic, which is a moment after it can be read.
    until(lambda: http.get("/delay/stats")["by_topic"]["changes"] == expected)
    stats = http.get("/delay/stats")
    assert stats["timer_wheel"]["tick_ms"] == 10


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"value": "x", "delay": "soon"}, "delay"),
        ({"value": "x", "deliverAt": "tomorrow"}, "deliverAt"),
        ({"value": "x", "deliverAt": "2030-01-01T00:00:00"}, "deliverAt"),
        ({"value": "x", "delay": "1s", "deliverAt": "2030-01-01T00:00:00Z"}, "deliverAt"),
        ({"value": "x", "delay": "1s", "timestamp": 5}, "timestamp"),
        (
            {"value": "x", "delay": "1s", "partition": 0, "producer_id": 5, "producer_epoch": 0, "sequence": 0},
            "delay",
        ),
        ({"value": "x", "delay": "999999999999d"}, "delay"),
    ],
)
def test_a_delay_that_cannot_be_is_refused_by_field(http: Http, body: dict[str, Any], field: str) -> None:
    status, error = http.refused("POST", "/topics/bad-delay/messages", body)
    assert (status, error["field"]) == (400, field)


def test_kill_9_loses_nothing_and_delivers_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    http = Http(broker.http)
    results = http.post(
        "/topics/survivors/messages",
        {"messages": [{"value": f"{n:03d}", "delay": f"{200 + 20 * n}ms"} for n in range(100)], "partition": 0},
    )["results"]
    http.delete(slot_path("survivors", results[99]))
    for delivered in (10, 30, 50):
        # In the middle of the deliveries.
        until(lambda http=http, delivered=delivered: len(values(http, "survivors")) >= delivered)
        broker.kill()
        broker.start()
        http = Http(broker.http)
    until(lambda: len(values(http, "survivors")) >= 99)
    # A reader may see a message before the disk has the mark that its slot is empty.
    until(lambda: http.get("/delay/stats")["total_pending"] == 0)
    assert values(http, "survivors") == [f"{n:03d}" for n in range(99)]


def test_a_recurring_message_comes_every_second_and_once_per_second_over_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    http = Http(broker.http)
    created = http.post(
        "/schedules",
        {"name": "beat", "cron": "* * * * * *", "topic": "beats", "key": "k", "value": "tick", "missed": "all"},
    )
    assert len(created["next_runs"]) == 3
    until(lambda: len(values(http, "beats")) >= 2)
    broker.kill()
    broker.start()
    http = Http(broker.http)
    until(lambda: len(values(http, "beats")) >= 5)
    [listed] = http.get("/schedules")["schedules"]
    assert listed["runs"] >= 5
    assert http.refused("POST", "/schedules", {**SCHEDULE, "name": "beat"})[0] == 409
    seen = http.get("/schedules/beat")
    http.delete("/schedules/beat")
    first, last = (datetime.fromisoformat(one) for one in (created["next_runs"][0], seen["last_run"]))
    runs = round((last - first).total_seconds()) + 1
    assert seen["runs"] == runs
    until(lambda: http.get("/delay/stats")["total_pending"] == 0)
    # One message for each run, and perhaps one that was on its way when the schedule was deleted.
    assert len(values(http, "beats")) in {runs, runs + 1}
    assert http.get("/schedules") == {"schedules": [], "count": 0}


def test_a_delay_without_a_unit_is_refused_with_what_was_meant(http: Http) -> None:
    status, error = http.refused("POST", "/topics/later/messages", {"value": "v", "delay": "5"})

    assert (status, error["field"]) == (400, "delay")
    assert error["hint"] == "write 5s for seconds, 5ms for milliseconds"


SCHEDULE = {"name": "s", "cron": "0 9 * * MON-FRI", "topic": "t", "value": "v"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cron": "every day"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"missed": "sometimes"}, "missed"),
        ({"cron": "@reboot"}, "cron"),
        ({"topic": "no/slashes"}, "topic"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_by_field(http: Http, change: dict[str, Any], field: str) -> None:
    status, error = http.refused("POST", "/schedules", {**SCHEDULE, **change})
    assert (status, error["field"]) == (400, field)
    assert http.refused("DELETE", "/schedules/none")[0] == 404
