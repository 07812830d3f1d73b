"""One request's bytes become its answer's bytes, and nothing a stranger sends breaks more than itself."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.codec.kafka.schema import message_shape
from goqueue.errors import CoordinatorUnavailable, MalformedRequest, TopicNotFound
from goqueue.histogram import BUCKETS_SECONDS
from goqueue.servers.kafka import registry
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.request_times import RequestTimes
from goqueue.servers.services import Services

from .stub_handlers import API_VERSIONS, HEARTBEAT, METADATA, stub

# Of the services, only that they are bound to whoever calls.
NO_SERVICES = cast("Services", SimpleNamespace(for_caller=lambda _caller: None))


def dispatcher(key: int, versions: tuple[int, int], handle: Any, **more: Any) -> Dispatcher:
    return Dispatcher(NO_SERVICES, stub(key, versions, handle, **more))


def answer_of(one: Dispatcher, key: int, version: int, **fields: Any) -> dict[str, Any]:
    answered = one.take(request_frame(key, version, fields, correlation_id=9), Peer("10.0.0.7"))
    assert isinstance(answered, list)
    return read_response(key, version, b"".join(answered)[4:], correlation_id=9)


def test_a_handler_that_answers_at_once_is_answered_at_once() -> None:
    one = dispatcher(HEARTBEAT, (0, 4), lambda context, request: {"error_code": 27})
    assert answer_of(one, HEARTBEAT, 4)["error_code"] == 27


def test_the_handler_learns_who_asks_and_in_which_version() -> None:
    seen = []
    one = dispatcher(HEARTBEAT, (0, 4), lambda context, request: seen.append((context, request)) or {})
    answer_of(one, HEARTBEAT, 3, group_id="g", generation_id=5)
    (context, request) = seen[0]
    assert (context.api_version, context.client_id, context.client_host) == (3, "test", "10.0.0.7")
    assert (request.group_id, request.generation_id, request.group_instance_id) == ("g", 5, None)


async def test_a_handler_that_must_wait_is_answered_later() -> None:
    async def handle(context: Any, request: Any) -> dict[str, Any]:
        return {"error_code": 1}

    later = dispatcher(HEARTBEAT, (0, 4), handle).take(request_frame(HEARTBEAT, 0, {}), Peer("h"))
    assert isinstance(later, Later)
    frame = await later.frame
    assert frame is not None
    assert read_response(HEARTBEAT, 0, b"".join(frame)[4:])["error_code"] == 1


def test_a_handler_may_keep_silent() -> None:
    assert dispatcher(HEARTBEAT, (0, 4), lambda *_: None).take(request_frame(HEARTBEAT, 0, {}), Peer("h")) is None


def test_an_error_of_ours_is_told_by_its_number() -> None:
    def handle(context: Any, request: Any) -> dict[str, Any]:
        raise CoordinatorUnavailable("gone")

    assert answer_of(dispatcher(HEARTBEAT, (0, 4), handle), HEARTBEAT, 4)["error_code"] == 15


def test_a_bug_costs_one_request_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def handle(context: Any, request: Any) -> dict[str, Any]:
        return {"error_code": 1 // 0}

    with caplog.at_level(logging.ERROR):
        assert answer_of(dispatcher(HEARTBEAT, (0, 4), handle), HEARTBEAT, 4)["error_code"] == -1
    assert "ZeroDivisionError" in caplog.text


async def test_an_error_after_a_wait_is_told_in_the_same_way() -> None:
    async def handle(context: Any, request: Any) -> dict[str, Any]:
        raise CoordinatorUnavailable("gone")

    later = dispatcher(HEARTBEAT, (0, 4), handle).take(request_frame(HEARTBEAT, 0, {}), Peer("h"))
    assert isinstance(later, Later)
    assert read_response(HEARTBEAT, 0, b"".join(await later.frame or ())[4:])["error_code"] == 15


def test_an_error_for_which_the_response_has_no_room_closes_the_connection() -> None:
    def handle(context: Any, request: Any) -> dict[str, Any]:
        raise TopicNotFound("x")

    with pytest.raises(MalformedRequest, match="cannot be answered"):
        dispatcher(METADATA, (0, 12), handle).take(request_frame(METADATA, 1, {}), Peer("h"))


def test_an_answer_that_cannot_be_written_closes_the_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = dispatcher(HEARTBEAT, (0, 4), lambda *_: {"error_kode": 1})
    with caplog.at_level(logging.ERROR), pytest.raises(MalformedRequest, match="cannot be answered"):
        one.take(request_frame(HEARTBEAT, 0, {}), Peer("h"))
    assert "error_kode" in caplog.text


@pytest.mark.parametrize(("key", "version"), [(4711, 0), (-1, 0), (10_000, 0), (HEARTBEAT, 5), (HEARTBEAT, -1)])
def test_what_was_never_advertised_closes_the_connection(key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + bytes(6)
    with pytest.raises(MalformedRequest, match="is not supported"):
        dispatcher(HEARTBEAT, (0, 4), lambda *_: {}).take(frame, Peer("h"))


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    frame = API_VERSIONS.to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(3) + b"\x07" + b"\xff\xff" + b"garbage"
    answered = Dispatcher(NO_SERVICES).take(frame, Peer("h"))
    assert isinstance(answered, list)
    assert read_response(API_VERSIONS, 0, b"".join(answered)[4:], correlation_id=7) == {
        "error_code": 35,
        "api_keys": [{"api_key": API_VERSIONS, "min_version": 0, "max_version": 4}],
    }


@given(blob=st.binary(max_size=80), key=st.sampled_from(sorted(registry.HANDLERS)), version=st.integers(0, 18))
@settings(max_examples=400, deadline=None)
def test_random_bodies_are_answered_or_close_the_connection(blob: bytes, key: int, version: int) -> None:
    handlers = {}
    for one, module in registry.HANDLERS.items():
        handlers |= stub(one, module.API.versions, lambda *_: {})
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff" + blob
    try:
        answered = Dispatcher(NO_SERVICES, handlers).take(frame, Peer("h"))
    except MalformedRequest:
        return
    assert isinstance(answered, list)


def test_every_handler_speaks_only_versions_whose_shape_is_known() -> None:
    for key, module in registry.HANDLERS.items():
        known = message_shape(key, "request").versions
        assert module.API.versions[0] in known, module.API
        assert module.API.versions[1] in known, module.API


def test_the_registry_is_in_the_order_of_the_keys_and_names_no_api_twice() -> None:
    keys = [module.API.key for module in registry.MODULES]
    assert keys == sorted(set(keys))


class Watch:
    """A timer that moves by what the test says."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def took(times: RequestTimes, api: str) -> list[float]:
    """The bounds of the buckets that a request of the API was counted in."""
    counts = dict(times.items())["kafka", api].counts
    return [bound for bound, count in zip((*BUCKETS_SECONDS, float("inf")), counts, strict=True) for _ in range(count)]


def test_the_time_of_an_answer_is_counted_under_its_api() -> None:
    times, watch = RequestTimes(), Watch()

    def handle(context: Any, request: Any) -> dict[str, Any]:
        watch.seconds += 0.004
        if request.generation_id == 1:
            raise CoordinatorUnavailable
        return {}

    one = Dispatcher(NO_SERVICES, stub(HEARTBEAT, (0, 4), handle), times=times, timer=watch)
    answer_of(one, HEARTBEAT, 4)
    answer_of(one, HEARTBEAT, 4, generation_id=1)

    assert took(times, "Stub12") == [0.005, 0.005]


async def test_an_answer_that_takes_time_is_counted_with_all_of_it() -> None:
    times, watch = RequestTimes(), Watch()

    async def handle(context: Any, request: Any) -> dict[str, Any]:
        watch.seconds += 0.7
        return {}

    one = Dispatcher(NO_SERVICES, stub(HEARTBEAT, (0, 4), handle), times=times, timer=watch)
    later = one.take(request_frame(HEARTBEAT, 0, {}), Peer("h"))
    assert isinstance(later, Later)
    assert times.items() == []
    await later.frame

    assert took(times, "Stub12") == [1.0]
