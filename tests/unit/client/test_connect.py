"""Where a client connects to, and what it will not take for an address or a list."""

from __future__ import annotations

import pytest

from goqueue.client import connect
from goqueue.client.transport import Transport


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://broker/", "http://broker"),
        ("https://broker:1", "https://broker:1"),
    ],
)
def test_a_host_and_port_alone_are_an_address(given, address):
    assert Transport(given).server == address


def test_an_address_of_another_protocol_is_refused_at_once():
    with pytest.raises(ValueError, match="http://127\\.0\\.0\\.1:8080"):
        connect("kafka://127.0.0.1:9092")


async def test_a_string_is_not_taken_for_a_list_of_topics():
    async with connect() as client:
        with pytest.raises(TypeError, match="list of names"):
            client.consumer("group", "orders")


def test_of_many_requests_that_fail_together_one_moves_on_to_the_next_address():
    transport = Transport("http://first:1,http://second:1,http://third:1")
    for _ in range(3):
        transport.next_server("http://first:1")
    assert transport.server == "http://second:1"
