"""Changes of metadata through every node, while nodes are killed: one order explains all answers."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

import pytest
from tests.e2e.cluster.linearizable import Kind, Operation, Outcome, is_linearizable
from tests.e2e.cluster.loads.metadata_changes import MetadataLoad
from tests.e2e.cluster.real_nodes import real_cluster

SECONDS = 60.0
DONE, REFUSED, UNKNOWN = Outcome.DONE, Outcome.REFUSED, Outcome.UNKNOWN


def operation(kind: str, outcome: Outcome, began: float, ended: float, number: int = 1) -> Operation:
    return Operation(Kind(kind), number, outcome, began, math.inf if outcome is UNKNOWN else ended)


@pytest.mark.parametrize(
    ("history", "is_right"),
    [
        ([], True),
        ([operation("create", DONE, 0, 1), operation("create", REFUSED, 2, 3)], True),
        # Two nodes that both believe to have created it.
        ([operation("create", DONE, 0, 2), operation("create", DONE, 1, 3)], False),
        ([operation("create", DONE, 0, 2), operation("delete", DONE, 1, 3), operation("create", DONE, 4, 5)], True),
        # A node that has not heard of it yet says that it is not there.
        ([operation("create", DONE, 0, 1), operation("alter", REFUSED, 2, 3)], False),
        ([operation("create", DONE, 0, 2), operation("alter", REFUSED, 1, 3)], True),
        # What was not answered may have happened, or not.
        ([operation("create", UNKNOWN, 0, 1), operation("create", DONE, 2, 3)], True),
        ([operation("create", UNKNOWN, 0, 1), operation("delete", DONE, 2, 3)], True),
        ([operation("create", UNKNOWN, 0, 1), operation("delete", DONE, 2, 3), operation("alter", DONE, 4, 5)], False),
        # A change that was acknowledged and is lost.
        ([operation("create", DONE, 0, 1), operation("alter", DONE, 2, 3, 7), operation("read", DONE, 4, 5, 1)], False),
        ([operation("create", DONE, 0, 1), operation("alter", DONE, 2, 3, 7), operation("read", DONE, 4, 5, 7)], True),
    ],
)
def test_the_checker_tells_right_from_wrong(history: list[Operation], is_right: bool) -> None:
    assert is_linearizable(history) is is_right


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_changes_through_every_node_have_one_order_while_brokers_are_killed(tmp_path: Path) -> None:
    rng = random.Random(1)
    with real_cluster(tmp_path) as cluster:
        load = MetadataLoad(cluster.nodes, 1)
        load.start()
        until = time.monotonic() + SECONDS - 10
        while time.monotonic() < until:
            time.sleep(rng.uniform(3, 8))
            rng.choice(cluster.nodes).kill_broker()
        load.stop()
        cluster.wait_ready()
        load.check()
        print(load.figures())
        assert load.counts[DONE] > 50
