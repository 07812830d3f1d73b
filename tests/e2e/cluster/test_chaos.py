"""Chaos: nodes are killed, frozen, cut off and lose their disks while clients of every kind work. Nothing is lost.

`make chaos MINUTES=30 SEED=7` runs it for that long; the seed decides which fault comes when. With `FAULTS=freeze,mute`
it draws from those only.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from math import ceil
from pathlib import Path
from random import Random
from typing import Protocol

import pytest
from tests.e2e import transfers
from tests.e2e.campaign.run import Run
from tests.e2e.cluster.faults import LOSSES, possible_faults
from tests.e2e.cluster.loads.by_aiokafka import AiokafkaLoad
from tests.e2e.cluster.loads.by_java import JavaLoad, has_java
from tests.e2e.cluster.loads.metadata_changes import MetadataLoad
from tests.e2e.cluster.loads.numbered import NumberedMessages
from tests.e2e.cluster.network import can_have_namespaces
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster
from tests.e2e.cluster.target import ClusterTarget
from tests.e2e.cluster.test_cluster_smoke import create
from tests.e2e.cluster.workload import QueueLoad, StreamLoad
from tests.e2e.transfer_load import TransferLoad

MINUTES = float(os.environ.get("MINUTES", "2"))
SEED = int(os.environ.get("SEED", "1"))
FAULTS = os.environ.get("FAULTS", "")
# A run of half an hour has at least a million acknowledged messages.
MINUTES_OF_A_MILLION = 30
STREAM_PER_SECOND = 1200


class Load(Protocol):
    """A client that works while nodes fail."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def check(self) -> None: ...

    def figures(self) -> str: ...


def disturb(cluster: RealCluster, seconds: float) -> Counter[str]:
    """Faults of one node after the other, as the seed draws them; gives how often each happened."""
    rng = Random(SEED)
    faults = possible_faults(cluster)
    if FAULTS:
        faults = [one for one in faults if one.__name__ in FAULTS.split(",")]
    happened: Counter[str] = Counter()
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        # Each of them once before any comes again.
        least = min(happened[one.__name__] for one in faults)
        fault = rng.choice([one for one in faults if happened[one.__name__] == least])
        node = rng.choice(cluster.nodes)
        happened[fault.__name__] += 1
        print(f"{time.monotonic() - began:.0f} s, seed {SEED}: {fault.__name__} node {node.number}", flush=True)
        fault(cluster, node, rng)
        if fault in LOSSES or rng.random() < 0.5:
            cluster.wait_whole()
        time.sleep(rng.uniform(0, 3))
    cluster.wait_ready()
    cluster.wait_whole()
    return happened


def loads_beside(cluster: RealCluster, directory: Path) -> list[Load]:
    """What runs beside the campaign: clients of every kind, transfers, changes of metadata."""
    servers = cluster.bootstrap_servers
    for topic in ("stream", "client-jobs", "by-aiokafka", "by-java"):
        create(cluster, topic)
    for number in range(transfers.TOPICS):
        create(cluster, f"accounts-{number}", transfers.PARTITIONS)
    found: list[Load] = [
        StreamLoad(servers, "stream", per_second=STREAM_PER_SECOND),
        QueueLoad(cluster.urls, "client-jobs"),
        AiokafkaLoad(servers, "by-aiokafka"),
        TransferLoad(ClusterTarget(cluster, SEED + 1), SEED, by_kafka=2, by_http=1, read_pause_seconds=3),
        MetadataLoad(cluster.nodes, SEED),
    ]
    if has_java():
        found.append(JavaLoad(servers, "by-java", directory / "java.log"))
    else:
        print("without the Java client: it needs a JDK, and Kafka's jars (make peers-install)")
    return found


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_nothing_acknowledged_is_lost_whatever_happens_to_one_node_at_a_time(tmp_path: Path) -> None:
    namespaces = can_have_namespaces()
    if not namespaces:
        print("network namespaces are not allowed here: nodes are killed and frozen, but not cut off")
    # In half an hour more than a GB is written: only the faults may fill a disk.
    size = f"{1 + ceil(MINUTES / 15)}g"
    with real_cluster(tmp_path, namespaces=namespaces, disks=True, disk_size=size) as cluster:
        run = Run(ClusterTarget(cluster, SEED), SEED)
        beside = loads_beside(cluster, tmp_path)
        for one in beside:
            one.start()
        happened: Counter[str] = Counter()
        found: list[str] = []

        def disturbance() -> None:
            happened.update(disturb(cluster, MINUTES * 60))
            for one in beside:
                for step in (one.stop, one.check):
                    try:
                        step()
                    except AssertionError as problem:
                        found.append(str(problem))

        try:
            problems = run.execute(disturbance) + found
        finally:
            for one in beside:
                if isinstance(one, JavaLoad):
                    one.kill()
            print(run.figures())
            print(f"faults: {dict(happened)}")
            print("\n".join(one.figures() for one in beside))
            for node in cluster.nodes:
                print(f"disk of node {node.number}: {node.disk.largest() if node.disk is not None else 'not its own'}")
        assert problems == [], "\n".join(problems)
    if MINUTES >= MINUTES_OF_A_MILLION:
        acknowledged = sum(one.acknowledged_count for one in beside if isinstance(one, NumberedMessages))
        assert acknowledged + run.campaign.acknowledged >= 1_000_000
