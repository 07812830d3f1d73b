"""Fixtures for pytest: a broker for a test, a broker for all of them, and a clock to advance.

    def test_a_delayed_message_comes_in_time(goqueue_broker, goqueue_clock):
        client = goqueue_broker.client()
        ...
        goqueue_clock.advance(hours=1)

Installed with GoQueue, so pytest loads this file in every run of every project beside it. It
therefore imports nothing of the broker until a test asks for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from goqueue.testing.broker_clock import BrokerClock
    from goqueue.testing.embedded_broker import EmbeddedBroker, Setting
    from goqueue.worker import Worker
    from goqueue.worker.testing import TestWorker


@pytest.fixture(scope="session")
def goqueue_settings() -> Mapping[str, Setting]:
    """Settings of the brokers: define a fixture of this name to change them."""
    return {}


@pytest.fixture
def goqueue_broker(goqueue_new_broker: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """A broker for this test alone, empty, whose clock stands still until it is advanced."""
    return goqueue_new_broker()


@pytest.fixture
def goqueue_clock(goqueue_broker: EmbeddedBroker) -> BrokerClock:
    """The clock of `goqueue_broker`."""
    return goqueue_broker.clock


@pytest.fixture(scope="session")
def goqueue_session_broker(
    goqueue_settings: Mapping[str, Setting], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedBroker]:
    """A broker that all tests of the run share, on the machine's time."""
    from goqueue.testing.embedded_broker import EmbeddedBroker

    directory = tmp_path_factory.mktemp("goqueue")
    with EmbeddedBroker(directory, settings=goqueue_settings, manual_clock=False) as broker:
        yield broker


@pytest.fixture
def goqueue_new_broker(
    goqueue_settings: Mapping[str, Setting], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., EmbeddedBroker]]:
    """A function that starts one more broker: `goqueue_new_broker(settings={"broker.default_partitions": 1})`."""
    from goqueue.testing.embedded_broker import EmbeddedBroker

    with ExitStack() as stack:

        def start(*, settings: Mapping[str, Setting] | None = None, **options: Any) -> EmbeddedBroker:
            directory = tmp_path_factory.mktemp("goqueue")
            merged = {**goqueue_settings, **(settings or {})}
            return stack.enter_context(EmbeddedBroker(directory, settings=merged, **options))

        yield start


@pytest.fixture
def goqueue_eager() -> Iterator[Callable[[Worker], Worker]]:
    """A function that lets tasks of an app run where they are sent, without a broker: `goqueue_eager(app)`."""
    changed: list[tuple[Worker, bool]] = []

    def make_eager(app: Worker) -> Worker:
        changed.append((app, app.eager))
        app.eager = True
        return app

    yield make_eager
    for app, before in reversed(changed):
        app.eager = before


@pytest.fixture
def goqueue_worker(goqueue_broker: EmbeddedBroker) -> Iterator[Callable[[Worker], TestWorker]]:
    """A function that runs tasks of an app through `goqueue_broker`: `goqueue_worker(app).run()`."""
    from goqueue.worker.testing import TestWorker

    with ExitStack() as stack:

        def start(app: Worker) -> TestWorker:
            worker = TestWorker(app, goqueue_broker.http_url)
            stack.callback(worker.close)
            return worker

        yield start
