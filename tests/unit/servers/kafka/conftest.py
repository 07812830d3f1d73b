"""A broker in memory, asked with the bytes of requests and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import structs
from tests.unit.codec.kafka.kio_values import read_response, request_frame

from goqueue.config import Config
from goqueue.node.assemble import assemble
from goqueue.servers.kafka.connections.peer import Peer
from goqueue.servers.kafka.dispatch import Dispatcher, Later
from goqueue.servers.services import Services
from goqueue.testing.clock import ManualClock, seeded_rng
from goqueue.testing.memory_files import MemoryFiles
from goqueue.testing.sim_loop import InlineOffload

Call = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
async def services(config: Config, clock: ManualClock) -> AsyncIterator[Services]:
    node = assemble(config, files=MemoryFiles(), clock=clock, rng=seeded_rng(1), offload=InlineOffload())
    running = await node.start()
    identity = structs.replace(running.services.identity, kafka_host="broker.test", kafka_port=9092)
    cluster = running.services.cluster
    cluster._here = cluster._here._replace(host="broker.test", port=9092)
    yield structs.replace(running.services, identity=identity)
    await node.stop()


@pytest.fixture
def call(services: Services) -> Call:
    """call(api key, version, **fields of the request) -> the response as kio reads it."""
    dispatcher, peer = Dispatcher(services), Peer("127.0.0.1")

    async def ask(key: int, version: int, **fields: Any) -> dict[str, Any]:
        answered = dispatcher.take(request_frame(key, version, fields), peer)
        if isinstance(answered, Later):
            answered = await answered.frame
        assert answered is not None, "no answer was sent"
        return read_response(key, version, b"".join(answered)[4:])

    return ask
