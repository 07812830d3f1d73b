"""Apache Kafka with three KRaft nodes, each broker and controller, as processes that can fail and be started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.bench.peers.peer_kafka import format_storage, start_command, write_properties
from tests.bench.peers.servers import free_port
from tests.e2e.cluster.network import NUMBERS, Network
from tests.e2e.kafka_raw import METADATA, RawClient

START_SECONDS_MAX = 120.0


class KafkaNode:
    """One node, in the network namespace that is given, or on loopback."""

    def __init__(self, home: Path, number: int, address: str, controllers: Mapping[int, str], enter: list[str]) -> None:
        self.number = number
        self.address = address
        self._home = home
        home.mkdir(parents=True)
        self._properties = write_properties(home, number, address, dict(controllers))
        format_storage(self._properties)
        self._enter = enter
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of its virtual machine."""
        assert self._process is not None, f"node {self.number} does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it; `wait` says when it answers."""
        with (self._home / "server.log").open("ab") as log:
            command = [*self._enter, *start_command(self._properties)]
            self._process = subprocess.Popen(
                command, cwd=self._home, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait(self) -> None:
        """Wait until it answers and knows all nodes."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._knows_all():
            if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                tail = (self._home / "server.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"node {self.number} of Apache Kafka does not answer:\n{tail}")
            time.sleep(0.1)

    def stop(self) -> None:
        """A controlled shutdown: it hands over what it leads."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START_SECONDS_MAX)
            self._process = None

    def kill(self) -> None:
        """kill -9, also of one that is frozen."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _knows_all(self) -> bool:
        try:
            with RawClient(self.address) as client:
                found = client.call(METADATA, 4, topics=[], allow_auto_topic_creation=False)["brokers"]
        except (OSError, EOFError):
            return False
        return len(found) == len(NUMBERS)


@contextmanager
def kafka_cluster(home: Path, network: Network | None) -> Iterator[dict[int, KafkaNode]]:
    """Three nodes that answer; they are killed at the end."""
    hosts = {number: "127.0.0.1" if network is None else network.host(number) for number in NUMBERS}
    controllers = {number: f"{hosts[number]}:{free_port()}" for number in NUMBERS}
    with ExitStack() as stack:
        nodes = {}
        for number in NUMBERS:
            enter = [] if network is None else ["ip", "netns", "exec", network.namespace(number)]
            address = f"{hosts[number]}:{free_port()}"
            nodes[number] = KafkaNode(home / str(number), number, address, controllers, enter)
            stack.callback(nodes[number].kill)
        # At once: a node answers only when it knows the others.
        for node in nodes.values():
            node.start()
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(KafkaNode.wait, nodes.values()))
        yield nodes
