"""Requests are cut out of any stream of bytes, however it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import MalformedRequest
from goqueue.servers.kafka.framing import ARENA_BYTES, FIRST_CAPACITY_BYTES, Framing


def framing(request_bytes_max: int = 10_000_000) -> Framing:
    return Framing(memoryview(bytearray(ARENA_BYTES)), request_bytes_max=request_bytes_max)


def feed(one: Framing, data: bytes, sizes: list[int]) -> list[bytes]:
    """Put the data in as the network would: never more than fits, cut at `sizes`."""
    whole: list[bytes] = []
    while data:
        room = one.room()
        count = min(len(room), len(data), sizes.pop(0) if sizes else len(data))
        room[:count] = data[:count]
        del room
        whole.extend(bytes(request) for request in one.received(count))
        data = data[count:]
    return whole


def frames(*requests: bytes) -> bytes:
    return b"".join(len(request).to_bytes(4, "big") + request for request in requests)


@given(
    requests=st.lists(st.binary(min_size=1, max_size=300), max_size=6),
    sizes=st.lists(st.integers(1, 50), max_size=60),
)
def test_any_cut_of_the_stream_gives_the_same_requests(requests: list[bytes], sizes: list[int]) -> None:
    assert feed(framing(), frames(*requests), sizes) == requests


@given(sizes=st.lists(st.integers(1, 100_000), min_size=1, max_size=3), cut=st.integers(20_000, 300_000))
@settings(max_examples=15, deadline=None)
def test_large_requests_come_out_whole(sizes: list[int], cut: int) -> None:
    requests = [bytes([at]) * size * 7 for at, size in enumerate(sizes)]
    data = frames(*requests)
    assert feed(framing(), data, [cut] * (len(data) // cut)) == requests


@pytest.mark.parametrize("size", [10_001, 2**31 - 1, 0, -1, -(2**31)])
def test_a_length_out_of_bounds_is_refused_before_anything_is_allocated(size: int) -> None:
    one = framing(request_bytes_max=10_000)
    with pytest.raises(MalformedRequest, match="bytes"):
        feed(one, size.to_bytes(4, "big", signed=True), [])
    assert one.held_bytes == 0


def test_memory_follows_what_arrived_and_not_what_was_announced() -> None:
    one = framing(request_bytes_max=100_000_000)
    feed(one, (100_000_000).to_bytes(4, "big") + b"x", [])
    assert one.held_bytes == FIRST_CAPACITY_BYTES
    feed(one, bytes(200_000), [])
    assert one.held_bytes <= 2 * 200_001


def test_a_connection_that_sent_a_large_request_gets_room_for_the_next_at_once() -> None:
    one = framing()
    feed(one, frames(bytes(1_000_000)), [100_000] * 20)
    feed(one, (900_000).to_bytes(4, "big") + b"x", [])
    assert one.held_bytes == 900_000


def test_requests_do_not_change_when_the_shared_buffer_is_used_again() -> None:
    arena = memoryview(bytearray(ARENA_BYTES))
    one, other = (Framing(arena, request_bytes_max=1000) for _ in range(2))
    arena[:9] = frames(b"first")
    (request,) = one.received(9)
    arena[:9] = frames(b"other")
    other.received(9)
    assert request == b"first"


@pytest.mark.parametrize(("data", "said"), [(b"GET / HTTP/1.1", "HTTP"), (b"\x16\x03\x01\x02\x00", "TLS")])
def test_a_client_of_another_protocol_is_told_apart(data: bytes, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        feed(framing(), data, [])
