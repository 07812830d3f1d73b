"""TLS: GoQueue and Apache Kafka with the same certificate, cipher and client; and nodes among each other.

    python -m tests.bench.security_tls [--quick]

measures the second: two clusters of three nodes, one with TLS between nodes, and clients without TLS in both.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka.admin import AdminClient, NewTopic
from tests.bench.command import command, finish
from tests.bench.measure import Bar, at_least, told
from tests.bench.peers.peer_kafka import (
    ApacheKafka,
    format_storage,
    knows_itself,
    start_command,
    write_properties,
)
from tests.bench.peers.servers import free_port, running
from tests.bench.security_load import TOPIC, Way, consumed, in_turns, produced
from tests.e2e.cluster.real_nodes import real_cluster

# What OpenSSL on both sides agrees on; Kafka's Java would choose another one.
CIPHER = "TLS_AES_256_GCM_SHA384"
# Certificates for the nodes, and clients that need none.
_TLS_BETWEEN_NODES = ("--secure", "--allow-insecure")
_PARTITIONS, _BYTES = 6, 1000


def bars(goqueue: Way, home: Path, messages: int, rounds: int) -> list[Bar]:
    """Produce and fetch over TLS, as multiples of Apache Kafka's; none where it is not installed."""
    missing = ApacheKafka().missing()
    if missing is not None:
        return [told(f"TLS against Apache Kafka is not measured: {missing}", 0)]
    with kafka_with_tls(home) as kafka:
        ways = {"GoQueue": goqueue, "Kafka": kafka}
        for way in ways.values():
            # The JVM compiles what is hot. Twice: a reader takes a message more than it counts.
            produced(way, messages)
            produced(way, messages)
            consumed(way, messages)
        written = in_turns({name: lambda way=way: produced(way, messages) for name, way in ways.items()}, rounds)
        read = in_turns({name: lambda way=way: consumed(way, messages) for name, way in ways.items()}, rounds)
    return [
        at_least("produce over TLS, times Apache Kafka", written.share("GoQueue", "Kafka"), 1.0),
        at_least("fetch over TLS, times Apache Kafka", read.share("GoQueue", "Kafka"), 1.0),
        told("the same by CPU of the broker, produce", written.cpu_share("GoQueue", "Kafka")),
        told("the same by CPU of the broker, fetch", read.cpu_share("GoQueue", "Kafka")),
        told("messages of 100 B produced over TLS, Apache Kafka, per second", median(written.rates["Kafka"]), digits=0),
        told("messages of 100 B fetched over TLS, Apache Kafka, per second", median(read.rates["Kafka"]), digits=0),
    ]


def between_nodes(home: Path, messages: int, rounds: int) -> list[Bar]:
    """Producing with acks=all, three copies: what TLS between nodes costs."""
    with real_cluster(home / "plain") as plain, real_cluster(home / "tls", options=_TLS_BETWEEN_NODES) as tls:
        ways = {}
        for name, cluster in (("open", plain), ("tls", tls)):
            settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}
            admin = AdminClient(settings)
            admin.create_topics([NewTopic(TOPIC, _PARTITIONS, 3)])[TOPIC].result(30)
            ways[name] = Way(settings, tuple(node.pid for node in cluster.nodes))
            produced(ways[name], messages // 4, _BYTES)
        turns = in_turns({name: lambda way=way: produced(way, messages, _BYTES) for name, way in ways.items()}, rounds)
    return [
        told("produce with acks=all, three copies, TLS between nodes, share of plain", turns.share("tls")),
        told("the same by CPU of all nodes and their etcd", turns.cpu_share("tls")),
        told("CPU of all nodes for a message of 1 KB, plain, microseconds", median(turns.cpus["open"])),
        told("CPU of all nodes for a message of 1 KB, TLS, microseconds", median(turns.cpus["tls"])),
        told("messages of 1 KB per second, plain", median(turns.rates["open"]), digits=0),
        told("messages of 1 KB per second, TLS between nodes", median(turns.rates["tls"]), digits=0),
    ]


@contextmanager
def kafka_with_tls(certificates: Path) -> Iterator[Way]:
    """One node with a plain listener, by which it is found, and one with TLS."""
    home = certificates / "kafka"
    home.mkdir()
    plain, secure = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    both = home / "both.pem"
    both.write_bytes((certificates / "server.key").read_bytes() + (certificates / "server.pem").read_bytes())
    properties = write_properties(home, 1, plain, {1: f"127.0.0.1:{free_port()}"})
    text = properties.read_text()
    text = text.replace(f"PLAINTEXT://{plain}", f"PLAINTEXT://{plain},SSL://{secure}")
    properties.write_text(
        f"{text}ssl.keystore.type=PEM\nssl.keystore.location={both}\nssl.cipher.suites={CIPHER}\n"
        "ssl.enabled.protocols=TLSv1.3\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
    )
    format_storage(properties)
    with running(start_command(properties), home, plain, knows_itself) as server:
        settings = {
            "bootstrap.servers": secure,
            "security.protocol": "SSL",
            "ssl.ca.location": str(certificates / "ca.pem"),
        }
        admin = AdminClient({"bootstrap.servers": plain})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        del admin
        yield Way(settings, (server.pid,))


def main() -> int:
    quick = command(__doc__).parse_args().quick
    with tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder:
        sizes = {"messages": 5_000, "rounds": 2} if quick else {"messages": 50_000, "rounds": 5}
        return finish(between_nodes(Path(folder), **sizes), quick=quick)


if __name__ == "__main__":
    sys.exit(main())
