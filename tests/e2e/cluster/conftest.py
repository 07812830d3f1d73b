"""A cluster of real processes for the tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.e2e.cluster.real_nodes import RealCluster, real_cluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with real_cluster(tmp_path_factory.mktemp("shared-nodes")) as found:
        yield found
