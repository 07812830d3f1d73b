"""Brokers with a gRPC listener, and stock clients of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.e2e.grpc.api import Api
from tests.e2e.grpc.over_grpc import BROKERS
from tests.e2e.process import BrokerProcess

StartBroker = Callable[..., BrokerProcess]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with gRPC, shared by a module."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker"), environment={"GOQUEUE_GRPC_REFLECTION": "true"})
    process.grpc = "127.0.0.1:0"
    process.start()
    BROKERS.append(process)
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def api(broker: BrokerProcess) -> Iterator[Api]:
    """A stock client of the module's broker."""
    client = Api(broker.grpc)
    yield client
    client.close()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Start a broker with gRPC of this test's own; settings are given as GOQUEUE_* variables."""
    started: list[BrokerProcess] = []

    def start(**environment: object) -> BrokerProcess:
        settings = {name: str(value) for name, value in environment.items()}
        process = BrokerProcess(tmp_path_factory.mktemp("broker"), environment=settings)
        process.grpc = "127.0.0.1:0"
        started.append(process)
        BROKERS.append(process)
        return process.start()

    yield start
    for process in started:
        process.kill()
