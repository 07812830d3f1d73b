"""Brokers for end-to-end tests: one per module, or as many as a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.e2e.companions import NODES, end_left_over_clusters
from tests.e2e.one_node import reason_to_leave_out
from tests.e2e.process import BrokerProcess

StartBroker = Callable[..., BrokerProcess]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Against three nodes, tests that are about one are skipped with the reason."""
    for item in items if NODES > 1 else ():
        if (reason := reason_to_leave_out(item.nodeid)) is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _companions_end() -> None:
    """Before a test begins, nodes are killed whose broker has ended with an earlier one."""
    end_left_over_clusters()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker that the tests of one module share; leave it running."""
    process = BrokerProcess(tmp_path_factory.mktemp("broker")).start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Start a broker of this test's own; settings are given as GOQUEUE_* variables."""
    started: list[BrokerProcess] = []

    def start(**environment: object) -> BrokerProcess:
        settings = {name: str(value) for name, value in environment.items()}
        process = BrokerProcess(tmp_path_factory.mktemp("broker"), environment=settings)
        started.append(process)
        return process.start()

    yield start
    for process in started:
        # Frozen processes are thawed by SIGKILL, and a test has asked for its clean stop by now.
        process.kill()
