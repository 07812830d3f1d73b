"""Trace ids: those that records bring along, and those that follow from places."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.tracing.context import Places, TraceContext, context_of, is_trace_id, parse_traceparent
from goqueue.tracing.sampling import Sampler, is_sampled

EXAMPLE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TOPIC = UUID(int=7)
offsets = st.integers(0, 2**56 - 1)
partitions = st.integers(0, 2**24 - 1)


def test_a_traceparent_is_read_and_written_as_w3c_has_it() -> None:
    found = parse_traceparent(EXAMPLE)
    assert found == TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)
    assert found.is_sampled
    assert str(found) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
    ],
)
def test_what_is_not_a_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_a_later_version_may_have_further_parts() -> None:
    assert parse_traceparent("cc" + EXAMPLE[2:] + "-what-the-future-holds") is not None


def test_the_last_traceparent_of_a_record_counts() -> None:
    other = EXAMPLE.replace("4bf9", "0000")
    assert context_of((("traceparent", other.encode()), ("a", None), ("traceparent", EXAMPLE.encode()))) == (
        parse_traceparent(EXAMPLE)
    )
    assert context_of((("traceparent", b"\xff"),)) is None
    assert context_of(()) is None


@given(partitions, offsets)
def test_an_id_that_follows_from_a_place_leads_back_to_it(partition: int, offset: int) -> None:
    places = Places("cluster")
    trace_id = places.trace_id(TOPIC, partition, offset)
    assert is_trace_id(trace_id)
    assert places.place_of(trace_id, [UUID(int=1), TOPIC]) == (TOPIC, partition, offset)
    assert places.place_of(trace_id, [UUID(int=1)]) is None


def test_the_same_place_of_another_cluster_has_another_id() -> None:
    assert Places("one").trace_id(TOPIC, 0, 0) != Places("two").trace_id(TOPIC, 0, 0)


def test_neighbours_are_sampled_as_if_their_ids_were_random() -> None:
    places = Places("cluster")
    taken = sum(is_sampled(places.trace_id(TOPIC, 3, offset), 0.1) for offset in range(10_000))
    assert 900 < taken < 1100


@given(offsets, st.floats(0, 1), st.floats(0, 1))
def test_what_a_small_rate_takes_a_larger_one_takes_too(offset: int, one: float, other: float) -> None:
    trace_id = Places("cluster").trace_id(TOPIC, 0, offset)
    if is_sampled(trace_id, min(one, other)):
        assert is_sampled(trace_id, max(one, other))


def test_a_topic_has_its_own_rate_or_that_of_the_node() -> None:
    sampler = Sampler(0.0, {TOPIC: 1.0}.get)
    assert sampler.takes(TOPIC, "f" * 32)
    assert not sampler.takes(UUID(int=8), "0" * 31 + "1")
