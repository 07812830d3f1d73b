"""The first of three machines is started, and stopped again before the others come."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.e2e.cluster.real_nodes import RealNode, port_options
from tests.e2e.cluster.test_replace import goqueue, until
from tests.etcd_server import require_etcd

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

STOP_SECONDS_MAX = 10


def test_it_says_what_it_waits_for_and_ends_in_order_when_it_is_stopped_meanwhile(tmp_path: Path) -> None:
    require_etcd()
    goqueue("cluster", "init", str(tmp_path / "cluster"), "--nodes", "3", *port_options())
    node = RealNode(1, tmp_path / "cluster" / "node1.toml")
    node.start()
    try:
        until(lambda: "which needs 2 of nodes 1, 2, 3" in node.log.read_text(), "it says what it waits for")
        began = time.monotonic()
        assert node.stop() == 0, node.log.read_text()
        assert time.monotonic() - began < STOP_SECONDS_MAX
    finally:
        node.kill()
    assert "BootstrapFailed" not in node.log.read_text()
