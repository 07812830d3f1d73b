"""A cluster of real processes: `goqueue server` with its own etcd, once per node, and the faults that befall it.

On loopback, nodes can be killed and frozen. As root each can have a network namespace of its own, and can then be cut
off from the others too.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from tests.e2e.cluster.disks import Disk, build_slow_sync, can_mount
from tests.e2e.cluster.network import NUMBERS, Network

START_SECONDS_MAX = 60.0
WHOLE_SECONDS_MAX = 90.0
_GOQUEUE = [sys.executable, "-m", "goqueue"]


class RealNode:
    """One node: its settings file, its process group, the namespace that it runs in, and its disk, if any."""

    def __init__(self, number: int, settings: Path, network: Network | None = None) -> None:
        self.number = number
        self.settings = settings
        self.namespace = None if network is None else network.namespace(number)
        self.disk: Disk | None = None
        self.data_dir = settings.with_suffix("")
        self.etcd_dir = settings.with_suffix(".etcd")
        self.log = settings.with_suffix(".log")
        # What its clients trust, where it uses TLS.
        self.ca = settings.parent / "ca.pem"
        self._process: subprocess.Popen[bytes] | None = None
        self.read_settings()

    def read_settings(self) -> None:
        """Where it listens and keeps its data, as its settings file says now."""
        stored = tomllib.loads(self.settings.read_text())
        kafka, http = str(stored["listeners"]["kafka"]), str(stored["listeners"]["http"])
        self.kafka = kafka.removeprefix("tls://")
        self.http = http.replace("tls://", "https://") if http.startswith("tls://") else f"http://{http}"
        self.etcd = str(stored["metadata"]["listen"])
        self.data_dir = Path(stored["broker"]["data_dir"])

    @property
    def pid(self) -> int:
        """Of its supervisor; broker and etcd are its children."""
        assert self._process is not None, f"node {self.number} was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its processes were started and not killed."""
        return self._process is not None

    def start(self) -> None:
        """Start its supervisor, which starts broker and etcd."""
        inside = [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*inside, *_GOQUEUE, "server", "--config", str(self.settings)],
                stdout=log,
                stderr=log,
                env={**os.environ, **({} if self.disk is None else self.disk.environment)},
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of all its processes at once, as when its machine loses power but its disk's cache survives."""
        if self._process is not None:
            # Processes that are frozen die as well.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_broker(self) -> None:
        """kill -9 of the broker alone; its supervisor starts it again."""
        for pid in self._children():
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"goqueue" in command and b"etcd" not in command.split(b"\0")[0]:
                os.kill(pid, signal.SIGKILL)
                return

    def freeze(self) -> None:
        """SIGSTOP: it answers nobody, and believes for a while that it still leads."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        """To the supervisor, then to broker and etcd, which have process groups of their own, and to their children."""
        if self._process is None:
            return
        os.killpg(self._process.pid, number)
        for one in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def stop(self) -> int:
        """A clean stop: it hands over what it leads. Returns its exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None
        return code

    def is_ready(self) -> bool:
        """Whether it says that it serves."""
        return self.readiness() == ""

    def readiness(self) -> str:
        """Why it does not serve; empty if it does."""
        try:
            context = ssl.create_default_context(cafile=str(self.ca)) if self.http.startswith("https") else None
            with urllib.request.urlopen(f"{self.http}/readyz", timeout=2, context=context):
                return ""
        except urllib.error.HTTPError as refusal:
            with refusal:
                return f"{refusal.code} {refusal.read().decode()}"
        except OSError as problem:
            return str(problem)

    def _children(self) -> list[int]:
        if self._process is None:
            return []
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(one) for one in path.read_text().split()]


class RealCluster:
    """Three nodes."""

    def __init__(self, nodes: Sequence[RealNode], network: Network | None = None) -> None:
        self.nodes = nodes
        self.network = network

    @property
    def bootstrap_servers(self) -> str:
        """For Kafka's clients."""
        return ",".join(one.kafka for one in self.nodes)

    @property
    def urls(self) -> str:
        """For the Python client."""
        return ",".join(one.http for one in self.nodes)

    def start(self) -> None:
        """Start all, and wait until all are ready."""
        for node in self.nodes:
            node.start()
        self.wait_ready()

    def wait_ready(self, nodes: Sequence[RealNode] | None = None) -> None:
        """Until these nodes, or all, are ready."""
        deadline = time.monotonic() + START_SECONDS_MAX
        for node in nodes or self.nodes:
            while not node.is_ready():
                if time.monotonic() > deadline:
                    reason = node.readiness()
                    raise TimeoutError(f"node {node.number} is not ready: {reason}\n{node.log.read_text()[-3000:]}")
                time.sleep(0.1)

    def under_replicated(self) -> list[str]:
        """Partitions that do not have all their replicas in sync, as the first node that answers says."""
        path = "/cluster/partitions?state=under_replicated"
        for node in self.nodes:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{node.http}{path}", timeout=5) as response:
                seen = json.loads(response.read())
                return [f"{one['topic']}-{one['partition']} {one['isr']}" for one in seen["partitions"]]
        return ["nobody answers"]

    def wait_whole(self, seconds_max: float = WHOLE_SECONDS_MAX) -> None:
        """Until every partition has all its replicas in sync."""
        deadline = time.monotonic() + seconds_max
        while left := self.under_replicated():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(left)} partitions are not in sync after {seconds_max} s: {left[:5]}")
            time.sleep(0.3)


@contextlib.contextmanager
def real_cluster(
    directory: Path,
    *,
    namespaces: bool = False,
    disks: bool = False,
    disk_size: str = "1g",
    settings: str = "",
    options: Sequence[str] = (),
) -> Iterator[RealCluster]:
    """A cluster that is ready; at the end every process of it is killed.

    `settings` are added to every node's file, `options` to the command that founds the cluster. With `namespaces` each
    node has a network of its own, with `disks` a disk of `disk_size`, as far as this process may make them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        network: Network | None = None
        arguments = ["--nodes", "3", *port_options()]
        if namespaces:
            network = Network()
            stack.callback(network.remove)
            network.make()
            hosts = [word for number in NUMBERS for word in ("--host", network.host(number))]
            arguments = [*hosts, "--allow-insecure", *port_options()]
        folder = directory / "cluster"
        command = [*_GOQUEUE, "cluster", "init", str(folder), *arguments, *options]
        subprocess.run(command, check=True, capture_output=True)
        file = "node{}/node.toml" if (folder / "node1").is_dir() else "node{}.toml"
        nodes = [RealNode(number, folder / file.format(number), network) for number in NUMBERS]
        library = build_slow_sync(directory) if disks else None
        for node in nodes:
            # Added to [metadata], the last section: etcd has a disk of its own, which does not fill up.
            etcd = f'dir = "{node.etcd_dir}"\n' if disks else ""
            node.settings.write_text(node.settings.read_text() + etcd + settings)
            if disks:
                node.disk = Disk(node.data_dir, library)
                stack.callback(node.disk.unmount)
                if can_mount():
                    node.disk.mount(disk_size)
        cluster = RealCluster(nodes, network)
        for node in nodes:
            stack.callback(node.kill)
        cluster.start()
        yield cluster


def port_options() -> list[str]:
    """Options with ports that nobody has, each with room for the ports behind it."""
    options: list[str] = []
    taken: list[socket.socket] = []
    for name, width in (("--kafka-port", 3), ("--http-port", 3), ("--peer-port", 3), ("--etcd-port", 22)):
        first = _free_run(width, taken)
        options += [name, str(first)]
    for one in taken:
        one.close()
    return options


def _free_run(width: int, taken: list[socket.socket]) -> int:
    for _ in range(100):
        # Below those that the kernel gives to clients: one of them would take the port of a node that is down.
        first = random.randrange(12_000, 32_000)
        bound: list[socket.socket] = []
        try:
            for port in range(first, first + width):
                one = socket.socket()
                bound.append(one)
                one.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            for one in bound:
                one.close()
            continue
        taken += bound
        return int(first)
    raise RuntimeError(f"there are no {width} free ports in a row")
