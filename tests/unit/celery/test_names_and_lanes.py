from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.celery.names import queue_of, topic_of
from goqueue.celery.outgoing import due_at, lane_of, publish_body
from goqueue.ids import parse_user_topic_name


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("celery", "celery"),
        ("my_queue.high-prio", "my_queue.high-prio"),
        ("celery@host", "celery_x40_host"),
        ("a_x40_b", "a_x5f_x40_b"),
        ("__private", "_x5f__private"),
        ("_:", "_x5f__x3a_"),
        ("..", "_x2e__x2e_"),
        ("größe", "gr_xf6__xdf_e"),
    ],
)
def test_what_a_topic_refuses_is_escaped(queue, topic):
    assert topic_of(queue) == topic
    assert queue_of(topic) == queue


@given(st.text(min_size=1, max_size=20))
def test_every_name_becomes_a_topic_and_can_be_read_back(queue):
    topic = topic_of(queue)

    assert parse_user_topic_name(topic) == topic
    assert queue_of(topic) == queue


def test_priorities_are_lanes_and_nine_is_the_most_urgent():
    lanes = [lane_of(number) for number in range(1, 10)]

    assert lanes == ["background", "low", "low", "normal", "normal", "high", "high", "critical", "critical"]
    assert [lane_of(unset) for unset in (None, 0, "x", -3)] == ["normal"] * 4
    assert lane_of(200) == "critical"


def test_a_task_with_an_eta_is_held_back_by_the_broker_until_then():
    eta = datetime.now(UTC) + timedelta(days=400)

    body = publish_body({"headers": {"eta": eta.isoformat()}, "properties": {"priority": 9}, "body": ""})

    assert datetime.fromisoformat(body["deliverAt"]) == eta
    assert body["priority"] == "critical"


@pytest.mark.parametrize("eta", [None, "", "soon", "2001-01-01T00:00:00+00:00"])
def test_without_an_eta_to_come_a_message_is_published_at_once(eta):
    assert due_at(eta) is None
