"""The field that an error blames is one that the request has, under the name that the request gives it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.e2e.http import Http
from tests.e2e.process import BrokerProcess

from goqueue.errors import GoQueueError, InvalidConfig, InvalidGroupId, InvalidRequest
from goqueue.servers.http.app import ROUTES
from goqueue.servers.http.fields import BODY, field_in, names_of
from goqueue.servers.http.openapi import document
from goqueue.servers.http.route import Route

LONG = "g" * 300
REPEATED = {"value": 2, "deduplication_id": "a"}


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    http = Http(broker.http)
    if http.ask("GET", "/topics/blamed").status == 404:
        http.post("/topics", {"name": "blamed", "num_partitions": 2})
    return http


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        # The same mistake has another name in each request.
        ("GET", f"/groups/{LONG}", None, "group"),
        ("POST", f"/groups/{LONG}/offsets", {"offsets": {"blamed": {"0": 1}}}, "group"),
        ("POST", "/topics/blamed/receive", {"group": LONG}, "group"),
        ("POST", "/topics/a%20b/messages", {"value": 1}, "topic"),
        ("POST", "/topics", {"name": "a b"}, "name"),
        ("POST", "/topics/__mine/messages", {"value": 1}, "topic"),
        ("POST", "/topics", {"name": "__mine"}, "name"),
        ("POST", "/topics", {"name": "wide", "num_partitions": 99_999}, "num_partitions"),
        ("PATCH", "/topics/blamed", {"num_partitions": 1}, "num_partitions"),
        ("POST", "/topics", {"name": "odd", "config": {"retention.ms": "soon"}}, "config.retention.ms"),
        ("PATCH", "/topics/blamed", {"config": {"retention.sm": "1"}}, "config.retention.sm"),
        ("POST", "/messages/ack", {"receipt_handle": "nonsense"}, "receipt_handle"),
        ("GET", "/topics/blamed/partitions/x/messages", None, "partition"),
        ("DELETE", "/topics/blamed/delayed/x/1", None, "slot_partition"),
        ("POST", "/groups/blamed/offsets/reset", {"to": {"timestamp": "x"}}, "to.timestamp"),
        ("POST", "/groups/not-there/offsets/reset", {"to": "latest"}, "group"),
        ("PATCH", "/groups/blamed/policy", {"retries_max": -1}, "retries_max"),
        # A list with one message is a list.
        ("POST", "/topics/blamed/messages", {"messages": [{"value": 1, "partition": 9}]}, "messages[0].partition"),
        ("POST", "/topics/blamed/messages", {"messages": [{"value": 1}], "partition": 9}, "partition"),
        ("POST", "/topics/blamed/messages", {"messages": [{"value": 1, "priority": "no"}]}, "messages[0].priority"),
        ("POST", "/topics/blamed/messages", {"messages": [{"value": 1, "timestamp": "x"}]}, "messages[0].timestamp"),
        ("POST", "/topics/blamed/messages", {"messages": [{"value": 1}, REPEATED]}, "messages[1].deduplication_id"),
        ("POST", "/topics/blamed/messages", {"value": 1, "timestamp": 9_999_999_999_999}, "timestamp"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_as_the_request_has_it(
    http: Http, method: str, path: str, body: dict[str, Any] | None, field: str
) -> None:
    _, error = http.refused(method, path, body)

    assert error.get("field") == field, error


def test_each_message_of_many_is_blamed_by_its_own_place(http: Http) -> None:
    """Some are for later, so that the places of the rest are not those in what is published at once."""
    sent = [
        {"value": "later", "delay": "1h"},
        {"value": "too new", "timestamp": 9_999_999_999_999},
        {"value": "now"},
        {"value": "%%%", "encoding": "base64"},
    ]

    answer = http.ask("POST", "/topics/blamed/messages", {"messages": sent})

    assert answer.status == 207
    assert [one.get("error", {}).get("field") for one in answer.body["results"]] == [
        None,
        "messages[1].timestamp",
        None,
        "messages[3].value",
    ]


def test_one_bad_message_does_not_hide_that_the_others_are_held_back(http: Http) -> None:
    sent = [{"value": "later", "delay": "1h"}, {"value": "%%%", "encoding": "base64"}]

    answer = http.ask("POST", "/topics/blamed/messages", {"messages": sent})

    held, refused = answer.body["results"]
    assert (answer.status, held["delayed"], refused["error"]["field"]) == (207, True, "messages[1].value")
    http.delete(f"/topics/blamed/delayed/{held['slot']}")


def test_each_receipt_of_many_is_blamed_by_its_own_place(http: Http) -> None:
    http.post("/topics/blamed/messages", {"value": "a", "partition": 0})
    (message,) = http.post("/topics/blamed/receive", {"group": "blaming", "limit": 1, "wait": "5s"})["messages"]

    answer = http.ask("POST", "/messages/ack", {"receipts": [message["receipt_handle"], "nonsense"]})

    assert [one.get("error", {}).get("field") for one in answer.body["results"]] == [None, "receipts[1]"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_whatever_is_blamed_behind_a_route_is_a_name_of_its_requests(route: Route) -> None:
    names = names_of(route)
    promised = document(ROUTES, "1")["paths"][route.path][route.method.lower()]
    documented = {one["name"] for one in promised.get("parameters", [])}
    assert documented <= names

    inside = ["group_id", "name", "topic", "partitions", "receipt_handle", "visibility_timeout", "session_timeout_ms"]
    for error in [
        *[InvalidRequest("no", field=one) for one in inside],
        InvalidGroupId(LONG),
        InvalidConfig("no", field="a.b"),
    ]:
        blamed = field_in(names, error)
        assert blamed is None or blamed.partition(".")[0] in names

    assert field_in(names, GoQueueError("no")) is None
    assert field_in(names, InvalidRequest("no", field=BODY)) == BODY
