"""Settings of a cluster: every problem is told, by the setting that it concerns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from goqueue.config import ClusterConfig, Config, MetadataConfig
from goqueue.errors import ConfigError
from goqueue.metadata.local import LocalMetadata
from goqueue.node.cluster import founding
from goqueue.node.cluster.belonging import refuse_clustered
from goqueue.node.cluster.founding import Manner, Ports, found, planned
from goqueue.node.cluster.issuing import issue, issued
from goqueue.node.cluster.voter import command_of, voter_of
from goqueue.node.config.cluster_settings import cluster_problems, endpoints_of, peers_of, read_secrets
from goqueue.node.config.load_config import load
from goqueue.node.disk.os_files import OsFiles
from goqueue.testing.clock import ManualClock


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("the secret of this cluster\nthe secret before it\n")
    path.chmod(0o600)
    return str(path)


def problems(cluster: ClusterConfig, metadata: MetadataConfig) -> dict[str, str]:
    return dict(cluster_problems(replace(Config(), cluster=cluster, metadata=metadata)))


def test_a_node_on_its_own_needs_nothing() -> None:
    assert problems(ClusterConfig(), MetadataConfig()) == {}


def test_peers_without_a_shared_store_are_refused(secret: str) -> None:
    found = problems(ClusterConfig(peers=("1=a:1",), secret_file=secret), MetadataConfig())
    assert "managed or external" in found["metadata.mode"]


def test_all_problems_are_told_at_once() -> None:
    found = problems(
        ClusterConfig(peers=("2=10.0.0.2:9192", "3=0.0.0.0:9192"), replication_factor=3, listen="nowhere"),
        MetadataConfig(mode="external", endpoints=("10.0.0.1:2379",), prefix="goqueue/"),
    )
    assert set(found) == {
        "cluster.peers",
        "cluster.listen",
        "cluster.replication_factor",
        "cluster.secret_file",
        "metadata.endpoints",
        "metadata.prefix",
    }


@pytest.mark.parametrize(
    ("peers", "why"), [(("one=a:1",), "write id="), (("1=a:1", "1=b:1"), "named twice"), (("1=a",), "host:port")]
)
def test_peers_that_cannot_be_read_are_refused(peers: tuple[str, ...], why: str, secret: str) -> None:
    metadata = MetadataConfig(mode="external", endpoints=("http://a:1",))
    assert why in problems(ClusterConfig(peers=peers, secret_file=secret), metadata)["cluster.peers"]


def test_a_secret_that_others_can_read_or_guess_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("short\n")
    path.chmod(0o644)
    metadata = MetadataConfig(mode="external", endpoints=("http://a:1",))
    cluster = ClusterConfig(peers=("1=a:1",), secret_file=str(path))
    found = [reason for _, reason in cluster_problems(replace(Config(), cluster=cluster, metadata=metadata))]
    assert any("chmod 600" in one for one in found)
    assert any("16 characters" in one for one in found)


def test_a_secret_file_holds_the_current_one_first(secret: str) -> None:
    assert read_secrets(secret) == [b"the secret of this cluster", b"the secret before it"]


def test_the_files_of_a_founded_cluster_are_settings_without_problems(tmp_path: Path) -> None:
    written = found(tmp_path / "c", planned(["127.0.0.1"] * 3, Ports()), Manner(3))
    for number, path in enumerate(written, 1):
        config = load(str(path), {}, {})
        assert config.broker.node_id == number
        assert set(peers_of(config)) == {1, 2, 3}
        voter = voter_of(config)
        assert voter is not None
        assert endpoints_of(config)[0] == voter.client_url
        assert voter.is_founding
        assert "--initial-cluster-state=new" in command_of(voter, "etcd")
        voter.end_founding()
        assert "--initial-cluster-state=existing" in command_of(voter, "etcd")
    assert (tmp_path / "c" / "secret").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="not empty"):
        found(tmp_path / "c", planned(["127.0.0.1"] * 3, Ports()), Manner(3))


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """The directory of a stopped node on its own."""
    directory = tmp_path / "alone"
    with closing(OsFiles(directory, create=True)) as files:
        metadata = LocalMetadata.open(files, clock=ManualClock(), rng=Random(1), offload=at_once)
        asyncio.run(metadata.close())
    return directory


def refuse_alone(directory: Path) -> None:
    with closing(OsFiles(directory)) as files:
        refuse_clustered(files, data_dir=str(directory))


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def test_a_directory_that_cannot_be_taken_leaves_no_files_behind(tmp_path: Path) -> None:
    """Otherwise the folder would not be empty when the command is repeated with the right directory."""
    with pytest.raises(ConfigError, match="not the data directory of a broker"):
        found(tmp_path / "c", planned(HOSTS, Ports()), Manner(3), from_dir=tmp_path / "nothing")
    assert not (tmp_path / "c").exists()


def test_a_directory_is_the_clusters_only_once_all_files_of_the_cluster_are_written(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(["127.0.0.1"] * 3, Ports())
    with monkeypatch.context() as patched:
        patched.setattr(founding, "_list", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            found(tmp_path / "failed", plan, Manner(3), from_dir=alone)
    refuse_alone(alone)

    first, *others = [load(str(path), {}, {}) for path in found(tmp_path / "c", plan, Manner(3), from_dir=alone)]
    with pytest.raises(ConfigError, match="belongs to node 1 of cluster"):
        refuse_alone(alone)
    assert Path(first.broker.data_dir) == alone
    assert Path(first.metadata.import_file).exists()
    assert {one.metadata.import_file for one in others} == {""}
    assert {one.metadata.cluster_id for one in others} == {first.metadata.cluster_id} != {""}


HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]


def test_nodes_on_other_machines_get_a_folder_each_and_use_tls_everywhere(tmp_path: Path) -> None:
    written = found(tmp_path / "c", planned(HOSTS, Ports()), Manner(3))
    config = load(str(written[1]), {}, {})
    assert config.cluster.tls == "required"
    assert config.security.enabled
    assert config.listeners.kafka == "tls://10.0.0.2:9092"
    voter = voter_of(config)
    assert voter is not None
    command = command_of(voter, "etcd")
    assert {"--client-cert-auth", "--peer-client-cert-auth"} <= set(command)
    assert all(url.startswith("https://") for url in endpoints_of(config))
    # The fourth runs no etcd and asks those of the others.
    last = load(str(written[3]), {}, {})
    assert voter_of(last) is None
    assert len(endpoints_of(last)) == 3
    # The folder of a node holds its own keys, those of no other, and no authority's.
    home = tmp_path / "c" / "node2"
    assert {path.name for path in home.glob("*.key")} == {"node.key", "server.key"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*home.glob("*.key"), home / "secret"))
    assert len({(tmp_path / "c" / f"node{number}" / "secret").read_text() for number in (1, 2, 3, 4)}) == 1


def test_clients_may_be_let_in_without_tls_while_nodes_use_it(tmp_path: Path) -> None:
    written = found(tmp_path / "c", planned(HOSTS, Ports()), Manner(3, allow_insecure=True))
    config = load(str(written[0]), {}, {})
    assert config.listeners.kafka == "10.0.0.1:9092"
    assert not config.security.enabled
    assert config.cluster.tls == "required"


def test_the_folder_of_a_node_may_lie_elsewhere_on_its_machine(tmp_path: Path) -> None:
    written = found(tmp_path / "c", planned(HOSTS, Ports()), Manner(3, path=Path("/etc/goqueue")))
    text = written[0].read_text()
    assert 'secret_file = "/etc/goqueue/secret"' in text
    assert 'data_dir = "/etc/goqueue/data"' in text
    assert str(tmp_path) not in text


def test_certificates_are_issued_again_by_the_same_authorities(tmp_path: Path) -> None:
    issue(tmp_path, {1: ["a.example", "10.0.0.1"], 2: ["b.example"]})
    before = (tmp_path / "node1" / "node.pem").read_bytes()
    trusted = (tmp_path / "node1" / "nodes-ca.pem").read_bytes()
    assert issued(tmp_path) == {1: ["a.example", "10.0.0.1"], 2: ["b.example"]}
    issue(tmp_path, issued(tmp_path))
    assert (tmp_path / "node1" / "node.pem").read_bytes() != before
    assert (tmp_path / "node1" / "nodes-ca.pem").read_bytes() == trusted
    # A certificate for clients is not one for nodes.
    assert trusted != (tmp_path / "node1" / "ca.pem").read_bytes()


def test_nodes_beyond_loopback_need_tls_or_leave(secret: str) -> None:
    voters = ("1=http://10.0.0.1:2380",)
    plain = ClusterConfig(peers=("1=10.0.0.1:9192",), secret_file=secret)
    metadata = MetadataConfig(mode="managed", voters=voters, listen="http://10.0.0.1:2379")
    config = replace(Config(), cluster=plain, metadata=metadata)
    found_problems = dict(cluster_problems(config))
    assert "unencrypted" in found_problems["cluster.tls"]
    assert "let everybody in" in found_problems["metadata.listen"]
    assert "let everybody in" in found_problems["metadata.voters"]
    assert dict(cluster_problems(replace(config, cluster=replace(plain, allow_insecure=True)))) == {}
    required = dict(cluster_problems(replace(config, cluster=replace(plain, tls="required"))))
    assert required["cluster.tls_key"] == "cluster.tls is required: name the file"
    https = replace(metadata, voters=("1=https://10.0.0.1:2380",), listen="https://10.0.0.1:2379")
    missing = dict(cluster_problems(replace(config, cluster=plain, metadata=https)))
    assert "name the file" in missing["metadata.tls_ca"]


def test_voters_are_one_three_or_five(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one, three or five"):
        found(tmp_path / "c", planned(["127.0.0.1"] * 3, Ports()), Manner(2))
    with pytest.raises(ConfigError, match="there are 2 nodes"):
        found(tmp_path / "d", planned(["127.0.0.1"] * 2, Ports()), Manner(3))
