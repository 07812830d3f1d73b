"""One Spark session for all tests of a process, and a broker beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from tests.e2e.process import BrokerProcess

pytest.importorskip("pyspark", reason="needs goqueue[spark]")

_numbers = count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a JVM run in `make test-spark`, where one session serves them all."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.path.name == "test_spark_docs.py":
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as users get it."""
    import goqueue.pipeline

    home = str(tmp_path_factory.mktemp("spark"))
    settings = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
    # Sockets of py4j and of dead Python workers are closed by the collector, not by us.
    session = goqueue.pipeline.session("tests", master="local[2]", home=home, config=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that compacts within a moment."""
    process = BrokerProcess(
        tmp_path_factory.mktemp("broker"), environment={"GOQUEUE_LOG_RETENTION_CHECK_MS": "200"}
    ).start()
    yield process
    process.stop()


@pytest.fixture
def topic(broker: BrokerProcess) -> Callable[..., str]:
    """Make a topic of a name that nobody has used."""
    from tests.e2e.kafka_raw import RawClient

    def make(partitions: int = 1, **config: str) -> str:
        name = f"t{next(_numbers)}-{os.getpid()}"
        with RawClient(broker.kafka) as raw:
            raw.create_topic(name, partitions, **config)
        return name

    return make


@pytest.fixture
def read(spark: Any, broker: BrokerProcess) -> Callable[..., Any]:
    """A table of a topic; options by name, with _ for the dot."""

    def load(topic: str, **options: Any) -> Any:
        reader = spark.read.format("goqueue").option("subscribe", topic)
        if "path" not in options or options.get("transport"):
            reader = reader.option("kafka.bootstrap.servers", broker.kafka)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    return load
