"""Three nodes as an operator sets them up with `cluster init --secure`: everything over TLS, everybody logs in."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from cryptography import x509
from tests.e2e.cluster.real_nodes import RealCluster, RealNode, real_cluster
from tests.e2e.secured import PASSWORD, basic, soon
from tests.etcd_server import require_etcd

from goqueue.security import certificates

_GOQUEUE = [sys.executable, "-m", "goqueue"]


class SecuredCluster:
    """The cluster, and its administrator."""

    def __init__(self, cluster: RealCluster) -> None:
        self.nodes = cluster.nodes
        self.cluster = cluster
        self.folder = cluster.nodes[0].settings.parent.parent
        self.ca = cluster.nodes[0].ca
        self.password, self.api_key = self.reset_admin()

    def run(self, *words: str, environment: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*_GOQUEUE, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, **(environment or {})},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def reset_admin(self) -> tuple[str, str]:
        shown = self.run("security", "reset-admin", "--config", str(self.nodes[0].settings))
        rows = dict(line.split(maxsplit=1) for line in shown.replace("API key", "key").splitlines()[:3])
        return rows["password"], rows["key"]

    def call(
        self, node: RealNode, method: str, path: str, body: object = None, shown: str | None = None
    ) -> tuple[int, Any]:
        host, _, port = node.http.removeprefix("https://").rpartition(":")
        connection = http.client.HTTPSConnection(
            host, int(port), timeout=20, context=ssl.create_default_context(cafile=str(self.ca))
        )
        try:
            return answered(connection, method, path, shown or f"Bearer {self.api_key}", body)
        finally:
            connection.close()

    def done(self, node: RealNode, method: str, path: str, body: object = None) -> Any:
        status, reply = self.call(node, method, path, body)
        assert status < 300, reply
        return reply

    def kafka(self, name: str, password: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": name,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }


def answered(
    connection: http.client.HTTPConnection, method: str, path: str, shown: str, body: object = None
) -> tuple[int, Any]:
    headers = {"Authorization": shown, "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    require_etcd()
    home = tmp_path_factory.mktemp("secured")
    with real_cluster(home, options=["--secure"]) as cluster:
        yield SecuredCluster(cluster)


class Load(threading.Thread):
    """A producer with acks=all that goes on until it is told to stop, and knows what was acknowledged."""

    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
        self._topic = topic
        self._stopping = threading.Event()
        self.acknowledged: set[int] = set()
        self.failures: list[str] = []

    def run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            self._producer.produce(self._topic, str(number).encode(), on_delivery=self._told)
            number += 1
            self._producer.poll(0)
            time.sleep(0.005)
        self._producer.flush(60)

    def _told(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))
        else:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._stopping.set()
        self.join(90)


def read_all(settings: dict[str, Any], topic: str, partitions: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": "reader", "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"only {len(ended)} of {partitions} partitions were read"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found.append(message.value())
        else:
            ended.add(message.partition())
    consumer.close()
    return found


def peer_of(node: RealNode) -> tuple[str, int]:
    stored = tomllib.loads(node.settings.read_text())["cluster"]["peers"]
    host, _, port = stored[node.number - 1].partition("=")[2].rpartition(":")
    return host, int(port)


def shown_certificate(address: tuple[str, int], context: ssl.SSLContext) -> int:
    """The serial number of the certificate that is shown there."""
    with socket.create_connection(address, timeout=10) as plain, context.wrap_socket(plain) as wrapped:
        return x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"").serial_number


def greet(address: tuple[str, int], context: ssl.SSLContext) -> None:
    """Say something and wait for an answer: with TLS 1.3 a refused certificate is told only then."""
    with socket.create_connection(address, 10) as plain, context.wrap_socket(plain) as wrapped:
        wrapped.sendall(bytes(8))
        if wrapped.recv(1) == b"":
            raise ConnectionResetError("the connection was closed without a word")


def trusting(place: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(place / "nodes-ca.pem"))
    context.check_hostname = False
    context.load_cert_chain(certificate, key)
    return context


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_node_and_new_certificates_cost_no_message(secured: SecuredCluster) -> None:
    one, two, three = secured.nodes
    secured.done(one, "POST", "/topics", {"name": "orders", "num_partitions": 6})
    secured.done(one, "PUT", "/admin/security/users/shop", {"password": PASSWORD})
    secured.done(one, "POST", "/admin/security/bindings", {"principal": "User:shop", "role": "producer"})
    load = Load(secured.kafka("shop", PASSWORD), "orders")
    load.start()
    soon(lambda: len(load.acknowledged) > 100, 60)
    two.kill()
    at_kill = len(load.acknowledged)
    soon(lambda: len(load.acknowledged) > at_kill + 100, 60)
    # New certificates from the same authority, while two nodes run and the third is away.
    place = three.settings.parent
    before = shown_certificate(peer_of(three), trusting(place, place / "node.pem", place / "node.key"))
    secured.run("cluster", "certificates", str(secured.folder))
    written = x509.load_pem_x509_certificate((place / "node.pem").read_bytes()).serial_number
    assert written != before
    context = trusting(place, place / "node.pem", place / "node.key")
    soon(lambda: shown_certificate(peer_of(three), context) == written, 20)
    two.start()
    secured.cluster.wait_ready()
    config = ["--config", str(one.settings), "-o", "json", "--under-replicated"]
    soon(lambda: json.loads(secured.run("cluster", "partitions", *config)) == [], 60)
    at_return = len(load.acknowledged)
    soon(lambda: len(load.acknowledged) > at_return + 100, 60)
    load.stop()
    assert load.failures == []
    found = read_all(secured.kafka("admin", secured.password), "orders", 6)
    assert {int(value) for value in found} >= load.acknowledged
    assert len(found) == len(set(found)), "a record is there twice"
    for node in secured.nodes:
        assert "cluster.tls is optional" not in node.log.read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_strangers_get_nothing_of_the_ports_between_nodes(secured: SecuredCluster, tmp_path: Path) -> None:
    node = secured.nodes[0]
    place = node.settings.parent
    stranger = certificates.new_authority("a stranger")
    made = certificates.new_certificate(stranger, "node2", ["127.0.0.1"], node_id=2)
    certificates.write(made, tmp_path / "s.pem", tmp_path / "s.key")
    etcd = tomllib.loads(node.settings.read_text())["metadata"]["listen"].removeprefix("https://").rpartition(":")
    ports = {"broker": peer_of(node), "etcd": (etcd[0], int(etcd[2])), "etcd's peers": (etcd[0], int(etcd[2]) + 1)}
    # A client of Kafka may have a certificate of the authority for clients. It is none for nodes.
    clients = certificates.read(secured.folder / "ca/clients.pem", secured.folder / "ca/clients.key")
    client = certificates.new_certificate(clients, "alice", is_client=True)
    certificates.write(client, tmp_path / "c.pem", tmp_path / "c.key")
    for name, address in ports.items():
        for file in ("s", "c"):
            context = trusting(place, tmp_path / f"{file}.pem", tmp_path / f"{file}.key")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                greet(address, context)
        with socket.create_connection(address, 10) as plain:
            plain.sendall(b"\x00\x00\x00\x02\x90\x90" if name == "broker" else b"GET /v2/keys HTTP/1.0\r\n\r\n")
            plain.settimeout(10)
            with suppress(ConnectionResetError):
                said = plain.recv(1000)
                # etcd and the broker may say in TLS or in clear that this is not TLS; nothing else.
                assert said == b"" or said[0] == 0x15 or b"400 Bad Request" in said, said
    assert node.is_ready()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_is_changed_on_one_node_holds_on_the_others_within_a_second(secured: SecuredCluster) -> None:
    one, two, three = secured.nodes
    shown = basic("alice", PASSWORD)
    secured.done(one, "POST", "/topics", {"name": "accounts", "num_partitions": 3})
    secured.done(one, "PUT", "/admin/security/users/alice", {"password": PASSWORD})
    for node in (three, two):
        took(lambda node=node: secured.call(node, "GET", "/admin/security/whoami", shown=shown)[0] == 200)
    secured.done(
        one, "POST", "/admin/security/bindings", {"principal": "User:alice", "role": "consumer", "prefix": "acc"}
    )
    took(lambda: secured.call(three, "GET", "/topics/accounts", shown=shown)[0] == 200)
    key = secured.done(one, "POST", "/admin/security/keys", {"principal": "User:alice", "label": "x"})
    took(lambda: secured.call(three, "GET", "/topics/accounts", shown=f"Bearer {key['key']}")[0] == 200)
    secured.done(three, "DELETE", f"/admin/security/keys/{key['id']}")
    took(lambda: secured.call(one, "GET", "/topics/accounts", shown=f"Bearer {key['key']}")[0] == 401)
    # Open connections: a long poll at node 3, and a consumer that has joined its group.
    poll_ended = threading.Event()

    def poll() -> None:
        path = "/topics/accounts/partitions/0/messages?from=latest&wait=30s"
        with suppress(OSError, http.client.HTTPException):
            secured.call(three, "GET", path, shown=shown)
        poll_ended.set()

    denied: list[str] = []
    settings = secured.kafka("alice", PASSWORD, group_id="accounts-g")
    consumer = Consumer({**settings, "error_cb": lambda error: _note(error, denied)})
    consumer.subscribe(["accounts"])
    soon(lambda: consumer.poll(0.2) is None and consumer.assignment(), 60)
    threading.Thread(target=poll, daemon=True).start()
    time.sleep(0.5)
    assert not poll_ended.is_set()
    assert denied == []
    secured.done(one, "DELETE", "/admin/security/users/alice")
    took(poll_ended.is_set)
    soon(lambda: consumer_denied(consumer, denied), 30)
    consumer.close()
    # Every node has written what it saw, to the one topic and to nowhere else.
    lines = [json.loads(value) for value in read_all(secured.kafka("admin", secured.password), "__audit", 1)]
    assert {line["node_id"] for line in lines if line["event"] == "login"} == {1, 2, 3}
    changes = [(line["operation"], line["node_id"]) for line in lines if line["event"] == "change"]
    assert ("delete_key", 3) in changes
    assert ("delete_user", 1) in changes


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lost_administrator_is_made_anew_while_the_cluster_runs(secured: SecuredCluster) -> None:
    old = basic("admin", secured.password)
    secured.password, secured.api_key = secured.reset_admin()
    for node in secured.nodes:
        took(lambda node=node: secured.call(node, "GET", "/admin/security/whoami")[0] == 200)
        took(lambda node=node: secured.call(node, "GET", "/admin/security/whoami", shown=old)[0] == 401)
    settings = secured.kafka("admin", secured.password)

    def told() -> int:
        lines = [json.loads(value) for value in read_all(settings, "__audit", 1)]
        return sum(line["event"] == "change" and line["operation"] == "offline" for line in lines)

    # Once for each of the two resets: the node that leads the topic tells them, no other does.
    soon(lambda: told() == 2, 20)


def took(check: Callable[[], Any]) -> None:
    """It is so within a second."""
    began = time.monotonic()
    soon(check, 20)
    seconds = time.monotonic() - began
    assert seconds < 1.0, f"it took {seconds:.2f} s at a load of {os.getloadavg()[0]:.0f}"


def consumer_denied(consumer: Consumer, denied: list[str]) -> bool:
    with suppress(KafkaException):
        consumer.poll(0.1)
    return bool(denied)


def _note(error: Any, denied: list[str]) -> None:
    if error.code() == KafkaError._AUTHENTICATION:
        denied.append(str(error))
