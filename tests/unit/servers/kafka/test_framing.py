"""Requests are cut out of any stream of bytes, however it arrives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import MalformedRequest
from goqueue.servers.kafka.connections.framing import ARENA_BYTES, FIRST_CAPACITY_BYTES, Arena, Framing


def framing(request_bytes_max: int = 10_000_000) -> Framing:
    return Framing(Arena(), request_bytes_max=request_bytes_max)


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


@given(
    sizes=st.lists(st.sampled_from([1, 3, 70_000, 70_001, 90_000, 200_000]), min_size=3, max_size=8),
    cuts=st.lists(st.sampled_from([1, 2, 3, 4, 5, 60_000, 70_000, 70_003, 70_004, 100_000]), max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_large_and_small_requests_come_out_whole_in_any_order(sizes: list[int], cuts: list[int]) -> None:
    requests = [bytes([at + 1]) * size for at, size in enumerate(sizes)]
    assert feed(framing(), frames(*requests), cuts) == requests


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
    arena = Arena()
    one, other = (Framing(arena, request_bytes_max=1000) for _ in range(2))
    one.room()[:9] = frames(b"first")
    (request,) = one.received(9)
    other.room()[:9] = frames(b"other")
    other.received(9)
    assert request == b"first"


def test_large_requests_do_not_change_when_others_are_read() -> None:
    arena = Arena()
    one, other = (Framing(arena, request_bytes_max=1_000_000) for _ in range(2))
    for each in (one, other):
        feed(each, frames(bytes(100_000), bytes(100_000)), [])
    first = frames(b"1" * 100_000)
    one.room()[: len(first)] = first
    (request,) = one.received(len(first))
    feed(other, frames(b"2" * 100_000), [])
    assert request == b"1" * 100_000


def test_after_two_large_requests_the_next_is_read_in_one_piece_and_stays_where_it_is() -> None:
    arena = Arena()
    one = Framing(arena, request_bytes_max=10_000_000)
    feed(one, frames(bytes(300_000), bytes(200_000)), [])
    data = frames(b"x" * 200_000)
    room = one.room()
    assert len(room) == len(data)
    room[:] = data
    (request,) = one.received(len(data))
    assert isinstance(request, memoryview)
    assert request.obj is room.obj
    assert request == b"x" * 200_000


@pytest.mark.parametrize("cut", [50_000, 100_004])
def test_a_request_much_smaller_than_expected_takes_no_more_memory_than_it_has(cut: int) -> None:
    one = framing()
    feed(one, frames(bytes(1_000_000), bytes(1_000_000), bytes(1_000_000)), [])
    data = frames(b"x" * 100_000)
    room = one.room()
    room[:cut] = data[:cut]
    whole = one.received(cut)
    assert one.held_bytes == (0 if whole else 100_000)
    one.room()[: len(data) - cut] = data[cut:]
    whole += one.received(len(data) - cut) if len(data) > cut else []
    assert whole == [b"x" * 100_000]
    assert len(memoryview(whole[0]).obj) == 100_000  # type: ignore[arg-type]


def test_after_a_small_request_none_is_expected_to_be_large() -> None:
    one = framing()
    feed(one, frames(bytes(300_000), bytes(300_000), b"small"), [])
    assert len(one.room()) == ARENA_BYTES


def test_connections_that_wait_hold_no_memory_for_the_large_requests_they_may_send() -> None:
    arena = Arena()
    rooms = []
    for _ in range(3):
        one = Framing(arena, request_bytes_max=1_000_000)
        feed(one, frames(bytes(100_000), bytes(100_000)), [])
        rooms.append(one.room())
        assert one.held_bytes == 0
    assert len({id(room.obj) for room in rooms}) == 1


@pytest.mark.parametrize(("data", "said"), [(b"GET / HTTP/1.1", "HTTP"), (b"\x16\x03\x01\x02\x00", "TLS")])
def test_a_client_of_another_protocol_is_told_apart(data: bytes, said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        feed(framing(), data, [])
