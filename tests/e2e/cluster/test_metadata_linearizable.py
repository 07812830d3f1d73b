"""Changes of metadata through every node, while nodes are killed: one order explains all answers."""

from __future__ import annotations

import json
import math
import random
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.cluster.linearizable import Kind, Operation, Outcome, is_linearizable
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster

TOPICS = 12
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


class Client(threading.Thread):
    """Asks one node for changes of topics that all clients share."""

    def __init__(self, node: RealNode, seed: int, until: float) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._rng = random.Random(seed)
        self._until = until
        self._seed = seed
        self.histories: dict[str, list[Operation]] = {}

    def run(self) -> None:
        count = 0
        while time.monotonic() < self._until:
            count += 1
            topic = f"shared-{self._rng.randrange(TOPICS)}"
            kind = self._rng.choice((Kind.CREATE, Kind.CREATE, Kind.DELETE, Kind.ALTER, Kind.ALTER))
            number = 1_000_000 + self._seed * 100_000 + count
            began = time.monotonic()
            try:
                outcome = self._ask(kind, topic, number)
            except ConnectionRefusedError:
                # Nothing was sent: the broker is being started again.
                time.sleep(0.2)
                continue
            ended = time.monotonic() if outcome is not UNKNOWN else math.inf
            self.histories.setdefault(topic, []).append(Operation(kind, number, outcome, began, ended))
            # Few enough for the checker, which tries every order of what overlaps.
            time.sleep(self._rng.uniform(0.05, 0.3))

    def _ask(self, kind: Kind, topic: str, number: int) -> Outcome:
        settings = {"config": {"retention.ms": str(number)}}
        if kind is Kind.CREATE:
            return self._call("POST", "/topics", {"name": topic, "num_partitions": 1, **settings})
        if kind is Kind.DELETE:
            return self._call("DELETE", f"/topics/{topic}", None)
        return self._call("PATCH", f"/topics/{topic}", settings)

    def _call(self, method: str, path: str, body: object) -> Outcome:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._node.http}{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20):
                return DONE
        except urllib.error.HTTPError as refusal:
            with refusal:
                status = refusal.code
            if status in {404, 409}:
                return REFUSED
            if status < 500:
                raise
            return UNKNOWN
        except urllib.error.URLError as problem:
            if isinstance(problem.reason, ConnectionRefusedError):
                raise problem.reason from problem
            return UNKNOWN
        except OSError:
            return UNKNOWN


def final_reads(cluster: RealCluster, topics: set[str]) -> dict[str, Operation]:
    """What is there in the end."""
    found: dict[str, Operation] = {}
    for topic in topics:
        began = time.monotonic()
        try:
            with urllib.request.urlopen(f"{cluster.nodes[0].http}/topics/{topic}", timeout=20) as response:
                number = int(json.loads(response.read())["config"]["retention.ms"])
        except urllib.error.HTTPError as refusal:
            with refusal:
                status = refusal.code
            if status != 404:
                raise
            # As good as a change that is refused.
            found[topic] = Operation(Kind.ALTER, 0, REFUSED, began, time.monotonic())
            continue
        found[topic] = Operation(Kind.READ, number, DONE, began, time.monotonic())
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_changes_through_every_node_have_one_order_while_brokers_are_killed(tmp_path: Path) -> None:
    rng = random.Random(1)
    with real_cluster(tmp_path) as cluster:
        until = time.monotonic() + SECONDS
        clients = [Client(node, seed, until) for seed, node in enumerate(cluster.nodes)]
        for one in clients:
            one.start()
        while time.monotonic() < until - 10:
            time.sleep(rng.uniform(3, 8))
            rng.choice(cluster.nodes).kill_broker()
        for one in clients:
            one.join(60)
            assert not one.is_alive(), "a client hangs"
        cluster.wait_ready()
        topics = {topic for one in clients for topic in one.histories}
        last = final_reads(cluster, topics)
        counts = dict.fromkeys(Outcome, 0)
        for topic in sorted(topics):
            history = [one for client in clients for one in client.histories.get(topic, [])] + [last[topic]]
            for one in history:
                counts[one.outcome] += 1
            assert is_linearizable(history), f"{topic}: {sorted(history, key=lambda one: one.began)}"
        print({outcome.value: count for outcome, count in counts.items()})
        assert counts[DONE] > 50
