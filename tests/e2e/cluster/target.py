"""A cluster as a campaign sees it: addresses to ask, and a clean restart."""

from __future__ import annotations

import random
from pathlib import Path

from tests.e2e.cluster.real_nodes import RealCluster


class ClusterTarget:
    """Three nodes under load. Every request over HTTP goes to a node that chance chooses, alive or not."""

    is_cluster = True

    def __init__(self, cluster: RealCluster, seed: int) -> None:
        self._cluster = cluster
        self._chance = random.Random(f"{seed} http")

    @property
    def kafka(self) -> str:
        """Every node."""
        return self._cluster.bootstrap_servers

    @property
    def http(self) -> str:
        """One node."""
        return self._chance.choice(self._cluster.nodes).http.removeprefix("http://")

    @property
    def data_dirs(self) -> list[Path]:
        """Of all nodes."""
        return [node.data_dir for node in self._cluster.nodes]

    def restart(self) -> None:
        """One node after the other, as an upgrade does it, and then whole."""
        for node in self._cluster.nodes:
            node.stop()
            node.start()
            self._cluster.wait_ready([node])
        self._cluster.wait_whole()

    def stop(self) -> None:
        """All of them, one after the other."""
        for node in self._cluster.nodes:
            node.stop()
