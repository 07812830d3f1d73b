"""A pipeline reads from and writes to a cluster of three nodes while one of them is killed: every row, once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster
from tests.e2e.spark.command import Command, run
from tests.e2e.spark.kafka_truth import truth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PARTITIONS = 3
ROWS_BEFORE, ROWS_AT_LEAST = 300, 900
PIPELINE = """
name: copy
broker: {broker}
checkpoint: {home}/state
trigger: {trigger}
settings: {{spark.sql.shuffle.partitions: "2"}}
sources:
  events: {{topic: events, max_per_batch: 100}}
sinks:
  - topic: {{name: out, topic: copy, key: "CAST(key AS STRING)"}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    with real_cluster(tmp_path / "nodes") as found:
        admin = AdminClient({"bootstrap.servers": found.bootstrap_servers})
        topics = [NewTopic(name, PARTITIONS, 3) for name in ("events", "copy")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield found


class Load(threading.Thread):
    """Numbers as keys and values, each acknowledged by the cluster before it counts as sent."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": True, "linger.ms": 20}
        )
        self.sent = 0
        self.acknowledged: set[int] = set()
        self.errors: list[str] = []
        self._ends = threading.Event()

    def run(self) -> None:
        while not self._ends.wait(0.02):
            self._send()
            self._producer.poll(0)

    def _send(self) -> None:
        number = self.sent
        self.sent += 1

        def told(error: object, _message: object) -> None:
            if error is None:
                self.acknowledged.add(number)
            else:
                self.errors.append(f"{number}: {error}")

        self._producer.produce("events", str(number), str(number), on_delivery=told)

    def end(self) -> None:
        self._ends.set()
        self.join()
        assert self._producer.flush(120) == 0


@pytest.mark.parametrize("killed", [0, 1])
def test_a_stream_writes_every_row_once_while_a_node_is_killed(
    cluster: RealCluster, tmp_path: Path, killed: int
) -> None:
    """Node 1 is the first that a client asks, and any of the three may lead the coordinator of the sink."""
    file = tmp_path / "copy.yaml"
    file.write_text(PIPELINE.format(broker=cluster.bootstrap_servers, home=tmp_path, trigger="500ms"))
    load = Load(cluster.bootstrap_servers)
    node = cluster.nodes[killed]
    command = Command(tmp_path, "pipeline", "run", file, "--master", "local[2]", "--quiet")
    try:
        load.start()
        command.until(lambda: _written(cluster) >= ROWS_BEFORE, every_s=1.0)
        node.kill()
        at_kill = _written(cluster)
        # It goes on without the node.
        command.until(lambda: _written(cluster) >= max(at_kill + 200, ROWS_AT_LEAST), every_s=1.0)
        load.end()
        run(tmp_path, "pipeline", "stop", file, "--wait", "120s")
        assert command.wait() == 0, command.output
    finally:
        load.end()
        command.kill()
    file.write_text(file.read_text().replace("trigger: 500ms", "trigger: available-now"))
    run(tmp_path, "pipeline", "run", file, "--master", "local[2]", "--quiet")

    assert load.errors == []
    found = sorted(int(row[4] or b"-1") for row in truth(cluster.bootstrap_servers, "copy", PARTITIONS))
    print(f"\nnode {killed + 1} killed after {at_kill} rows; {load.sent} sent, {len(found)} written")
    assert found == sorted(load.acknowledged)
    assert found == list(range(load.sent))


def _written(cluster: RealCluster) -> int:
    """How many rows a committed reader sees; none while nobody answers."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return len(truth(cluster.bootstrap_servers, "copy", PARTITIONS))
        except AssertionError:
            if time.monotonic() > deadline:
                return 0
