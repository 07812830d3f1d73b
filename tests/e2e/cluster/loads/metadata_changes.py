"""Changes of metadata through every node: topics that all clients share are created, altered and deleted.

One order explains all answers (see `linearizable.py`). The checker tries every order of what overlaps, so clients go on
to other topics now and then.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence

from tests.e2e.cluster.linearizable import Kind, Operation, Outcome, is_linearizable
from tests.e2e.cluster.real_nodes import RealNode

# So many topics are used at a time, for so long. They stay, and every node that comes back has to catch up with them.
TOPICS = 1
TOPIC_SECONDS = 15.0
_END_SECONDS_MAX = 60.0


class MetadataLoad:
    """A client for each node, until they are told to stop."""

    def __init__(self, nodes: Sequence[RealNode], seed: int) -> None:
        self._nodes = nodes
        stop = threading.Event()
        self._stop = stop
        self._clients = [Client(node, seed, stop) for node in nodes]
        self.counts = dict.fromkeys(Outcome, 0)

    def start(self) -> None:
        """Begin."""
        for one in self._clients:
            one.start()

    def stop(self) -> None:
        """Ask for no more."""
        self._stop.set()
        for one in self._clients:
            one.join(_END_SECONDS_MAX)
            assert not one.is_alive(), "a client of the metadata hangs"
            assert not one.failed, one.failed

    def check(self) -> None:
        """Every topic has a history that is explained by one order."""
        for topic in sorted({topic for one in self._clients for topic in one.histories}):
            history = [one for client in self._clients for one in client.histories.get(topic, [])]
            history.append(final_read(self._nodes[0], topic))
            for one in history:
                self.counts[one.outcome] += 1
            assert is_linearizable(history), f"{topic}: {sorted(history, key=lambda one: one.began)}"

    def figures(self) -> str:
        """For the report."""
        return "changes of metadata: " + ", ".join(f"{count} {one.value}" for one, count in self.counts.items())


class Client(threading.Thread):
    """Asks one node for changes of topics that all clients share."""

    def __init__(self, node: RealNode, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._rng = random.Random(f"{seed} {node.number}")
        self._stop_asked = stop
        self.histories: dict[str, list[Operation]] = {}
        self.failed = ""

    def run(self) -> None:
        try:
            self._work()
        except Exception as problem:  # noqa: BLE001 - a thread has nobody above it
            self.failed = f"{type(problem).__name__}: {problem}"

    def _work(self) -> None:
        count = 0
        began_first = time.monotonic()
        while not self._stop_asked.is_set():
            count += 1
            round_number = int((time.monotonic() - began_first) / TOPIC_SECONDS)
            topic = f"metadata-{round_number}-{self._rng.randrange(TOPICS)}"
            kind = self._rng.choice((Kind.CREATE, Kind.CREATE, Kind.DELETE, Kind.ALTER, Kind.ALTER))
            number = 1_000_000 + self._node.number * 1_000_000 + count
            began = time.monotonic()
            try:
                outcome = self._ask(kind, topic, number)
            except ConnectionRefusedError:
                # Nothing was sent: the broker is being started again.
                self._stop_asked.wait(0.2)
                continue
            ended = time.monotonic() if outcome is not Outcome.UNKNOWN else math.inf
            self.histories.setdefault(topic, []).append(Operation(kind, number, outcome, began, ended))
            self._stop_asked.wait(self._rng.uniform(0.05, 0.3))

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
                return Outcome.DONE
        except urllib.error.HTTPError as refusal:
            with refusal:
                status, text = refusal.code, refusal.read().decode()
            if status in {404, 409}:
                return Outcome.REFUSED
            if status < 500:
                raise AssertionError(f"{method} {path}: {status} {text}") from refusal
            return Outcome.UNKNOWN
        except urllib.error.URLError as problem:
            if isinstance(problem.reason, ConnectionRefusedError):
                raise problem.reason from problem
            return Outcome.UNKNOWN
        except OSError:
            return Outcome.UNKNOWN


def final_read(node: RealNode, topic: str) -> Operation:
    """What is there in the end."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"{node.http}/topics/{topic}", timeout=20) as response:
            number = int(json.loads(response.read())["config"]["retention.ms"])
    except urllib.error.HTTPError as refusal:
        with refusal:
            status = refusal.code
        if status != 404:
            raise
        # As good as a change that is refused.
        return Operation(Kind.ALTER, 0, Outcome.REFUSED, began, time.monotonic())
    return Operation(Kind.READ, number, Outcome.DONE, began, time.monotonic())
