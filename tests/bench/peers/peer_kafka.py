"""Apache Kafka: one KRaft node from its jars, with the JVM options of its own start script."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which

from tests.bench.peers.servers import CACHE, INSTALL, Server, free_port, running
from tests.e2e.kafka_raw import METADATA, RawClient

JARS = CACHE / "kafka"
JVM = [
    "-server",
    "-Xmx1G",
    "-Xms1G",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
]
CLUSTER_ID = "R29RdWV1ZUJlbmNobWFyaw"


class ApacheKafka:
    """See `servers.Peer`."""

    name = "Apache Kafka"
    load = "load_kafka"
    pace = 1_000_000
    durability = "flush.messages=1, acks=all"
    offers = frozenset({"latency", "durable", "fan-out", "partitions", "rebalance"})

    def missing(self) -> str | None:
        if which("java") is None:
            return "needs Java 17: apt-get install openjdk-17-jre-headless"
        return None if list(JARS.glob("kafka_2.13-*.jar")) else f"needs Kafka's jars: {INSTALL}"

    def version(self) -> str:
        return next(JARS.glob("kafka_2.13-*.jar")).stem.removeprefix("kafka_2.13-")

    @contextmanager
    def start(self, home: Path, *, durable: bool) -> Iterator[Server]:
        address, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        properties = home / "server.properties"
        properties.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@{controller}\n"
            f"listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n"
            f"advertised.listeners=PLAINTEXT://{address}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={home / 'data'}\n"
            "offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\n"
            "auto.create.topics.enable=false\n"
            "share.coordinator.state.topic.replication.factor=1\nshare.coordinator.state.topic.min.isr=1\n"
            # Not a minute after a topic was deleted, when somebody else is being measured.
            "log.segment.delete.delay.ms=100\n"
        )
        java = ["java", *JVM, "-cp", f"{JARS}/*"]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
        began = time.monotonic()
        subprocess.run(tool, check=True, capture_output=True)
        formatted = time.monotonic() - began
        with running([*java, "kafka.Kafka", str(properties)], home, address, knows_itself) as server:
            yield replace(server, prepare_seconds=formatted)


def knows_itself(address: str) -> bool:
    """Whether a client would find the broker: it is in its own metadata."""
    with RawClient(address) as client:
        return bool(client.call(METADATA, 4, topics=[], allow_auto_topic_creation=False)["brokers"])
