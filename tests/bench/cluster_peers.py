"""Clusters of three nodes on this machine: GoQueue with its etcd, and Apache Kafka with three KRaft nodes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.bench.peers.peer_kafka import ApacheKafka, format_storage, start_command, write_properties
from tests.bench.peers.servers import free_port, running
from tests.e2e.cluster.real_nodes import real_cluster
from tests.e2e.kafka_raw import METADATA, RawClient

NODES = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that answers. The faults are functions of a node's number."""

    address: str
    # The parent process of each node.
    pids: Sequence[int]
    kill_broker: Callable[[int], None]
    kill_node: Callable[[int], None]

    def cpu_seconds(self) -> float:
        """Processor time of all processes of all nodes so far."""
        total = 0.0
        for pid in self.pids:
            with suppress(psutil.NoSuchProcess):
                parent = psutil.Process(pid)
                for one in (parent, *parent.children(recursive=True)):
                    times = one.cpu_times()
                    total += times.user + times.system
        return total


@dataclass(frozen=True, slots=True)
class ClusterPeer:
    """One kind of cluster, as the benchmark sees it."""

    name: str
    # What `acks=all` means: on the disk of every in-sync replica, or in the memory of their kernels.
    synced: bool
    # Whether something outlives a broker that dies, and tells the others.
    has_supervisor: bool
    start: Callable[[Path], AbstractContextManager[RunningCluster]]


def cluster_peers(*, synced: bool) -> tuple[list[ClusterPeer], str | None]:
    """GoQueue, and Apache Kafka if it is installed; and why it is not."""
    peers = [ClusterPeer("GoQueue", synced, True, lambda home: _goqueue(home, synced=synced))]
    reason = ApacheKafka().missing()
    if reason is None:
        peers.append(ClusterPeer("Apache Kafka", synced, False, _kafka))
    return peers, reason


@contextmanager
def _goqueue(home: Path, *, synced: bool) -> Iterator[RunningCluster]:
    settings = f'\n[durability]\nacks_all = "{"synced" if synced else "written"}"\n'
    with real_cluster(home, settings=settings) as cluster:
        nodes = {node.number: node for node in cluster.nodes}
        yield RunningCluster(
            cluster.bootstrap_servers,
            [node.pid for node in cluster.nodes],
            kill_broker=lambda number: nodes[number].kill_broker(),
            kill_node=lambda number: nodes[number].kill(),
        )


@contextmanager
def _kafka(home: Path) -> Iterator[RunningCluster]:
    controllers = {number: f"127.0.0.1:{free_port()}" for number in NODES}
    with ExitStack() as stack:
        starts = []
        for number in NODES:
            folder, address = home / str(number), f"127.0.0.1:{free_port()}"
            folder.mkdir(parents=True)
            properties = write_properties(folder, number, address, controllers)
            format_storage(properties)
            starts.append(running(start_command(properties), folder, address, _knows_all))
        # At once: a node answers only when it knows the others.
        with ThreadPoolExecutor(len(starts)) as pool:
            servers = list(pool.map(stack.enter_context, starts))
        pids = {number: server.pid for number, server in zip(NODES, servers, strict=True)}

        def kill(number: int) -> None:
            os.kill(pids[number], signal.SIGKILL)

        yield RunningCluster(",".join(server.address for server in servers), list(pids.values()), kill, kill)


def _knows_all(address: str) -> bool:
    with RawClient(address) as client:
        return len(client.call(METADATA, 4, topics=[], allow_auto_topic_creation=False)["brokers"]) == len(NODES)
