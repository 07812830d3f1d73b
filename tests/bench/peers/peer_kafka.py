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
_JAVA = ["java", *JVM, "-cp", f"{JARS}/*"]
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
        properties = write_properties(home, 1, address, {1: controller})
        began = time.monotonic()
        format_storage(properties)
        formatted = time.monotonic() - began
        with running(start_command(properties), home, address, knows_itself) as server:
            yield replace(server, prepare_seconds=formatted)


def write_properties(home: Path, node_id: int, address: str, controllers: dict[int, str]) -> Path:
    """The settings of one node, which is broker and controller; every controller is a node like it."""
    copies = min(3, len(controllers))
    voters = ",".join(f"{number}@{controller}" for number, controller in controllers.items())
    properties = home / "server.properties"
    properties.write_text(
        f"process.roles=broker,controller\nnode.id={node_id}\n"
        f"controller.quorum.voters={voters}\n"
        f"listeners=PLAINTEXT://{address},CONTROLLER://{controllers[node_id]}\n"
        f"advertised.listeners=PLAINTEXT://{address}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={home / 'data'}\n"
        f"offsets.topic.replication.factor={copies}\ngroup.initial.rebalance.delay.ms=0\n"
        "auto.create.topics.enable=false\n"
        f"share.coordinator.state.topic.replication.factor={copies}\nshare.coordinator.state.topic.min.isr=1\n"
        # Not a minute after a topic was deleted, when somebody else is being measured.
        "log.segment.delete.delay.ms=100\n"
    )
    return properties


def format_storage(properties: Path) -> None:
    """Make the empty directory one that the node starts with."""
    tool = [*_JAVA, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
    subprocess.run(tool, check=True, capture_output=True)


def start_command(properties: Path) -> list[str]:
    """What runs the node."""
    return [*_JAVA, "kafka.Kafka", str(properties)]


def knows_itself(address: str) -> bool:
    """Whether a client would find the broker: it is in its own metadata."""
    with RawClient(address) as client:
        return bool(client.call(METADATA, 4, topics=[], allow_auto_topic_creation=False)["brokers"])
