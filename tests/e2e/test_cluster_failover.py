"""Three real brokers and a real etcd: the leader is killed under load, and what librdkafka was told is there."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

NODES = (1, 2, 3)
RECORDS = 6_000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("etcd") is None, reason="etcd is not installed (apt install etcd-server)"),
]


class RealCluster:
    """Processes on this machine, on free ports."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kafka, self.http, self.peers = ({node: _port() for node in NODES} for _ in range(3))
        self.etcd = f"http://127.0.0.1:{_port()}"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        secret = root / "secret"
        secret.write_text("a secret of the cluster, for this test\n")
        secret.chmod(0o600)
        peer = f"http://127.0.0.1:{_port()}"
        urls = ["--listen-client-urls", self.etcd, "--advertise-client-urls", self.etcd, "--listen-peer-urls", peer]
        with (root / "etcd.log").open("wb") as log:
            self.store = subprocess.Popen(
                ["etcd", "--data-dir", str(root / "etcd"), *urls], stdout=log, stderr=subprocess.STDOUT
            )

    def start(self, node: int) -> None:
        peers = ", ".join(f'"{other}=127.0.0.1:{port}"' for other, port in self.peers.items())
        config = self.root / f"node{node}.toml"
        config.write_text(
            f'[broker]\nnode_id = {node}\ndata_dir = "{self.root}/data{node}"\n'
            f'[listeners]\nkafka = "127.0.0.1:{self.kafka[node]}"\nhttp = "127.0.0.1:{self.http[node]}"\n'
            f'[cluster]\npeers = [{peers}]\nsecret_file = "{self.root}/secret"\n'
            f'[metadata]\nmode = "external"\nendpoints = ["{self.etcd}"]\n'
        )
        with (self.root / f"node{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                [sys.executable, "-m", "goqueue", "server", "--config", str(config)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def answers(self, node: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http[node]}/health", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.kafka.values())

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in (*self.processes.values(), self.store):
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RealCluster]:
    started = RealCluster(tmp_path)
    try:
        for node in NODES:
            started.start(node)
        _eventually(lambda: all(started.answers(node) for node in NODES), "all nodes answer")
        yield started
    finally:
        started.stop()


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(cluster: RealCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic("orders", 3, 3)]).values():
        created.result(30)
    acknowledged: dict[tuple[int, int], bytes] = {}
    failed: list[str] = []

    def told(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            acknowledged[message.partition() or 0, message.offset() or 0] = message.value() or b""

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    victim = _replicas(admin)[0][0]
    for number in range(RECORDS):
        producer.produce("orders", value=b"%d" % number, partition=number % 3, callback=told)
        producer.poll(0)
        if number == RECORDS // 2:
            cluster.processes[victim].send_signal(signal.SIGKILL)
            cluster.processes[victim].wait()
    assert producer.flush(120) == 0
    assert failed == []
    assert len(acknowledged) == RECORDS
    leader, in_sync = _replicas(admin)[0]
    assert leader != victim
    assert victim not in in_sync
    cluster.start(victim)
    _eventually(lambda: all(len(isr) == 3 for _, isr in _replicas(admin).values()), "every replica is in sync again")
    assert _read(cluster, len(acknowledged)) == acknowledged


def test_a_damaged_replica_is_repaired_and_an_old_directory_is_copied_anew(cluster: RealCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    small = {"segment.bytes": "16384"}
    for created in admin.create_topics([NewTopic("orders", 3, 3, config=small)]).values():
        created.result(30)
    acknowledged = _produce(cluster, 0, 1_500)
    victim = _replicas(admin)[0][0]
    home = cluster.root / f"data{victim}" / "logs" / "orders" / "0"
    _kill(cluster, victim)
    segments = sorted(home.glob("*.log"))
    assert len(segments) > 4, segments
    _flip(segments[0])
    segments[1].unlink()
    with segments[2].open("r+b") as file:
        file.truncate(segments[2].stat().st_size // 2)
    for derived in (*sorted(home.glob("*.index"))[:1], *sorted(home.glob("*.timeindex"))[:1]):
        _flip(derived)
    cluster.start(victim)
    _eventually(lambda: _metric(cluster, victim, "goqueue_storage_repaired_segments_total") >= 3, "three are repaired")
    _eventually(lambda: _are_in_sync(admin), "every replica is in sync")
    assert _metric(cluster, victim, "goqueue_storage_repaired_records_total") > 0
    assert _metric(cluster, victim, 'goqueue_storage_damaged_frames{topic="orders"}') == 0
    assert len({_bytes(cluster, node) for node in NODES}) == 1, "all replicas are the same"
    # The directory as it is now comes back after the node has been started once more and has stored more.
    _kill(cluster, victim)
    shutil.copytree(cluster.root / f"data{victim}", cluster.root / "old")
    cluster.start(victim)
    _eventually(lambda: _are_in_sync(admin), "every replica is in sync")
    acknowledged |= _produce(cluster, 1_500, 300)
    _kill(cluster, victim)
    shutil.rmtree(cluster.root / f"data{victim}")
    shutil.move(cluster.root / "old", cluster.root / f"data{victim}")
    cluster.start(victim)
    _eventually(lambda: _are_in_sync(admin), "every replica is in sync")
    assert _read(cluster, len(acknowledged)) == acknowledged
    _eventually(lambda: len({_bytes(cluster, node) for node in NODES}) == 1, "all replicas are the same")


def _produce(cluster: RealCluster, first: int, count: int) -> dict[tuple[int, int], bytes]:
    stored: dict[tuple[int, int], bytes] = {}

    def told(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        stored[message.partition() or 0, message.offset() or 0] = message.value() or b""

    # Small batches, so that there are many frames.
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.num.messages": 5}
    producer = Producer(settings)
    for number in range(first, first + count):
        producer.produce("orders", value=b"%0200d" % number, partition=number % 3, callback=told)
        producer.poll(0)
    assert producer.flush(120) == 0
    assert len(stored) == count
    return stored


def _kill(cluster: RealCluster, node: int) -> None:
    cluster.processes[node].send_signal(signal.SIGKILL)
    cluster.processes[node].wait()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    if data:
        data[len(data) // 2] ^= 4
        path.write_bytes(data)


def _metric(cluster: RealCluster, node: int, name: str) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{cluster.http[node]}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
    except (urllib.error.URLError, OSError):
        return -1.0
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} ")), -1.0)


def _are_in_sync(admin: AdminClient) -> bool:
    found = _replicas(admin).values()
    return len(found) == 3 and all(len(isr) == 3 and leader >= 0 for leader, isr in found)


def _bytes(cluster: RealCluster, node: int) -> bytes:
    home = cluster.root / f"data{node}" / "logs" / "orders" / "0"
    return b"".join(path.read_bytes() for path in sorted(home.glob("*.log")))


def _replicas(admin: AdminClient) -> dict[int, tuple[int, list[int]]]:
    found = admin.list_topics("orders", timeout=30).topics["orders"].partitions
    return {number: (one.leader, one.isrs) for number, one in found.items()}


def _read(cluster: RealCluster, count: int) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "readers"})
    consumer.assign([TopicPartition("orders", number, 0) for number in range(3)])
    read: dict[tuple[int, int], bytes] = {}

    def has_all() -> bool:
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                read[message.partition() or 0, message.offset() or 0] = message.value() or b""
        return len(read) >= count

    _eventually(has_all, "everything can be read")
    consumer.close()
    return read


def _eventually(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
