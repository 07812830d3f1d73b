"""Our reader and writer of messages agree with kio's, for every version of every API."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.codec.kafka import messages_from_kio
from goqueue.codec.kafka.decode import decoder, read_header, response_decoder, skip_tags
from goqueue.codec.kafka.encode import encoder, request_encoder
from goqueue.codec.kafka.schema import MESSAGES_FILE, message_shape
from goqueue.errors import MalformedRequest

from .kio_values import as_plain, message_value, request_bytes, response_value

VERSIONS = [
    (key, version)
    for key in messages_from_kio.API_KEYS
    for version in range(message_shape(key, "request").versions.first, message_shape(key, "request").versions.last + 1)
]
ROUNDS = 5


def test_the_file_of_shapes_is_what_kio_says() -> None:
    assert MESSAGES_FILE.read_text() == messages_from_kio.render()


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_requests_that_kio_writes_are_read_alike(key: int, version: int) -> None:
    shape = message_shape(key, "request")
    for seed in range(ROUNDS):
        value = message_value(shape, version, Random(seed))
        request = decoder(key, version)(memoryview(request_bytes(shape, version, value)), 0)
        assert as_plain(request, shape.fields, version) == value


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_responses_that_we_write_are_read_alike_by_kio(key: int, version: int) -> None:
    shape = message_shape(key, "response")
    for seed in range(ROUNDS):
        value = message_value(shape, version, Random(seed))
        frame = b"".join(encoder(key, version)(77, _with_views(value)))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert int.from_bytes(frame[4:8], "big") == 77
        body = frame[9:] if shape.is_flexible(version) and key != 18 else frame[8:]
        assert response_value(shape, version, body) == value


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_what_a_client_writes_a_broker_reads_and_the_other_way_round(key: int, version: int) -> None:
    asked, answered = message_shape(key, "request"), message_shape(key, "response")
    for seed in range(ROUNDS):
        value = message_value(asked, version, Random(seed))
        frame = memoryview(b"".join(request_encoder(key, version)(77, "me", _with_views(value))))[4:]
        header = read_header(frame)
        assert header[:4] == (key, version, 77, "me")
        body = skip_tags(frame, header.end) if asked.is_flexible(version) else header.end
        assert as_plain(decoder(key, version)(frame, body), asked.fields, version) == value

        reply = message_value(answered, version, Random(seed))
        frame = memoryview(b"".join(encoder(key, version)(78, _with_views(reply))))[4:]
        correlation_id, response = response_decoder(key, version)(frame)
        assert (correlation_id, as_plain(response, answered.fields, version)) == (78, reply)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_an_empty_reply_is_written_with_defaults(key: int, version: int) -> None:
    frame = b"".join(encoder(key, version)(1, {}))
    shape = message_shape(key, "response")
    response_value(shape, version, frame[9:] if shape.is_flexible(version) and key != 18 else frame[8:])


def test_large_records_are_sent_from_where_they_lie_and_small_ones_together() -> None:
    large, small = [memoryview(bytes(5000)), memoryview(bytes(2000))], [memoryview(bytes(70))] * 9
    rows = [{"partition_index": 0, "records": large}, {"partition_index": 1, "records": small}]
    parts = encoder(1, 12)(1, {"responses": [{"topic": "t", "partitions": rows}]})
    assert [part for part in parts if isinstance(part, memoryview)] == large
    assert len(parts) == 4


def test_a_name_that_no_version_knows_is_a_bug_and_one_of_another_version_is_dropped() -> None:
    encode = encoder(3, 0)
    encode(1, {"throttle_time": 0, "cluster_id": "x"})
    with pytest.raises(AssertionError, match="cluster_ident"):
        encode(1, {"cluster_ident": "x"})


@given(blob=st.binary(max_size=64), case=st.sampled_from(VERSIONS))
@settings(max_examples=1500, deadline=None)
def test_random_bytes_are_read_or_refused_by_name(blob: bytes, case: tuple[int, int]) -> None:
    with suppress(MalformedRequest):
        decoder(*case)(memoryview(blob), 0)


@pytest.mark.parametrize("version", [1, 9])
def test_an_array_longer_than_the_request_costs_no_memory(version: int) -> None:
    # kio's native reader allocates what the length says and takes the process down with it.
    length = b"\x7f\xff\xff\xff" if version == 1 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(MalformedRequest, match="more than the request can hold"):
        decoder(3, version)(memoryview(length + bytes(100)), 0)


def test_a_request_of_endless_tiny_structs_is_refused_before_they_become_objects() -> None:
    count = 300_000
    body = count.to_bytes(4, "big") + bytes(2 * count) + b"\x00"
    with pytest.raises(MalformedRequest, match="more than the request can hold"):
        decoder(3, 4)(memoryview(body), 0)


@given(blob=st.binary(max_size=40))
def test_random_headers_are_read_or_refused_by_name(blob: bytes) -> None:
    with suppress(MalformedRequest):
        header = read_header(memoryview(blob))
        skip_tags(memoryview(blob), header.end)


def _with_views(value: Any) -> Any:
    """Records go in as lists of buffers: cut each in two."""
    if isinstance(value, dict):
        return {
            name: [one[:1], one[1:]] if name == "records" and one is not None else _with_views(one)
            for name, one in value.items()
        }
    return [_with_views(one) for one in value] if isinstance(value, list) else value
