"""A request of the wrong form is answered with the field and what it may be."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from goqueue.errors import InvalidRequest
from goqueue.forms import form_problem
from goqueue.servers.http.types.common import CreateTopic, Publish, Truncate


def problem(kind: Any, body: str) -> InvalidRequest:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=kind)
    return form_problem(caught.value, kind)


def test_a_field_that_is_almost_one_of_ours_is_answered_with_ours():
    error = problem(CreateTopic, '{"name": "orders", "partitions": 3}')

    assert (str(error), error.field) == ("there is no field 'partitions'", "partitions")
    assert error.hint == "did you mean 'num_partitions'?"


def test_a_field_like_none_of_ours_is_answered_with_all():
    error = problem(Truncate, '{"zzz": 3}')

    assert error.hint == "there are before_offset"


def test_a_field_deep_in_the_body_is_found_there():
    error = problem(Publish, '{"messages": [{"value": 1}, {"values": 2}]}')

    assert (error.field, error.hint) == ("messages[1].values", "did you mean 'value'?")


def test_a_missing_field_is_named():
    error = problem(Truncate, "{}")

    assert (str(error), error.field) == ("'before_offset' is missing", "before_offset")


@pytest.mark.parametrize("acks", ['"quorum"', "1"])
def test_a_value_that_must_be_one_of_a_few_is_answered_with_them(acks):
    error = problem(Publish, f'{{"value": "x", "acks": {acks}}}')

    assert (error.field, error.hint) == ("acks", "use all, leader, none")


@pytest.mark.parametrize("priority", ['"urgent"', "5", "true"])
def test_a_priority_that_does_not_exist_is_answered_with_those_that_do(priority):
    error = problem(Publish, f'{{"messages": [{{"value": "x", "priority": {priority}}}]}}')

    assert (error.field, error.hint) == ("messages[0].priority", "use background, critical, high, low, normal")


def test_a_type_may_bring_a_hint_of_its_own():
    assert problem(Publish, '{"value": "x", "delay": 5}').hint == "write it as 250ms, 5s or 2m"
    assert problem(CreateTopic, '{"name": "two words"}').hint == "use 1 to 245 of A-Z a-z 0-9 . _ -"


def test_the_message_alone_says_which_field_it_is():
    assert str(problem(CreateTopic, '{"name": "a", "num_partitions": 0}')) == "num_partitions: Expected `int` >= 1"


def test_a_body_that_is_no_object_has_no_field():
    error = problem(CreateTopic, "[]")

    assert (str(error), error.field) == ("Expected `object`, got `array`", None)
