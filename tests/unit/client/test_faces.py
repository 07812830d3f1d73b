"""The blocking client has every call of the asynchronous one, and policies take durations."""

from __future__ import annotations

import inspect
from datetime import timedelta

import pytest

from goqueue.client import Client, sync
from goqueue.client.admin import delayed
from goqueue.client.admin.requests import policy_body
from goqueue.client.blocking.delayed import DelayedMessages, Schedules


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("asynchronous", "blocking"),
    [(Client, sync.Client), (delayed.DelayedMessages, DelayedMessages), (delayed.Schedules, Schedules)],
)
def test_the_blocking_face_has_the_same_calls(asynchronous, blocking):
    assert public(asynchronous) == public(blocking)


@pytest.mark.parametrize("name", ["topics", "alter_policy", "read", "tail", "transactions", "settle"])
def test_a_blocking_call_has_the_parameters_and_the_docstring_of_the_other(name):
    one, other = getattr(Client, name), getattr(sync.Client, name)

    assert list(inspect.signature(one).parameters) == list(inspect.signature(other).parameters)
    assert one.__doc__ == other.__doc__


def test_a_policy_takes_durations_in_every_form():
    body = policy_body({"visibility": "1m", "backoff": 0.5, "backoff_max": timedelta(minutes=5), "ttl": None})

    assert body == {"visibility_ms": 60_000, "backoff_ms": 500, "backoff_ms_max": 300_000, "ttl_ms": None}


def test_a_policy_in_milliseconds_is_deprecated():
    with pytest.warns(DeprecationWarning, match="visibility_ms is deprecated: write visibility="):
        assert policy_body({"visibility_ms": 1500, "retries_max": 3}) == {"visibility_ms": 1500, "retries_max": 3}
