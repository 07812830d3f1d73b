"""Chaos: nodes are killed, frozen, cut off and lose their disks while clients of every kind work. Nothing is lost.

`make chaos MINUTES=30 SEED=7` runs it for that long; the seed decides which fault comes when. With `FAULTS=freeze,mute`
it draws from those only.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from tests.e2e.campaign.run import Run
from tests.e2e.cluster.faults import LOSSES, possible_faults
from tests.e2e.cluster.network import can_have_namespaces
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster
from tests.e2e.cluster.target import ClusterTarget
from tests.e2e.cluster.test_cluster_smoke import create
from tests.e2e.cluster.workload import QueueLoad, StreamLoad

MINUTES = float(os.environ.get("MINUTES", "2"))
SEED = int(os.environ.get("SEED", "1"))
FAULTS = os.environ.get("FAULTS", "")


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


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_nothing_acknowledged_is_lost_whatever_happens_to_one_node_at_a_time(tmp_path: Path) -> None:
    namespaces = can_have_namespaces()
    if not namespaces:
        print("network namespaces are not allowed here: nodes are killed and frozen, but not cut off")
    with real_cluster(tmp_path, namespaces=namespaces, disks=True) as cluster:
        create(cluster, "stream")
        create(cluster, "client-jobs")
        stream, jobs = StreamLoad(cluster.bootstrap_servers, "stream"), QueueLoad(cluster.urls, "client-jobs")
        run = Run(ClusterTarget(cluster, SEED), SEED)
        stream.start()
        jobs.start()
        happened: Counter[str] = Counter()
        found: list[str] = []

        def disturbance() -> None:
            happened.update(disturb(cluster, MINUTES * 60))
            for step in (stream.stop, jobs.stop, stream.check, jobs.check):
                try:
                    step()
                except AssertionError as problem:
                    found.append(str(problem))

        try:
            problems = run.execute(disturbance) + found
        finally:
            count = sum(map(len, stream.acknowledged.values()))
            print(run.figures())
            print(f"faults: {dict(happened)}")
            print(f"{count} acknowledged, longest gap {stream.longest_gap_seconds:.1f} s, {len(jobs.published)} jobs")
        assert problems == [], "\n".join(problems)
