"""Founding: the settings files of the nodes of a new cluster, their secret, and their certificates.

On this machine alone, all files lie in one folder, and nodes talk without TLS. Otherwise each node has a folder of its
own, with nothing of the others in it, and every connection uses TLS: of clients, between nodes, and with etcd.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from goqueue.errors import ConfigError
from goqueue.node.cluster.issuing import issue
from goqueue.node.config.addresses import Address

SECRET = "secret"  # noqa: S105 - a file name
IMPORT = "metadata.json"

_SETTINGS = """\
# Node {node_id}, written by `goqueue cluster init`. Start with: goqueue server --config {config}
[broker]
node_id = {node_id}
data_dir = "{data_dir}"

[listeners]
kafka = "{kafka}"
http = "{http}"
{listeners}
[cluster]
# Every node, with its address for traffic between nodes.
peers = [{peers}]
# One secret per line; the first is used, all are accepted. Only the owner may read it.
secret_file = "{secret_file}"
{cluster_tls}
[metadata]
# This node starts an etcd together with the broker if it is among the voters.
mode = "managed"
voters = [{voters}]
listen = "{listen}"
endpoints = [{endpoints}]
token = "{token}"
prefix = "/goqueue-{token}"
founding_file = "{founding_file}"
{imported}{metadata_tls}"""

_SECURITY = """
[tls]
certificate = "{place}/server.pem"
key = "{place}/server.key"
client_ca = "{place}/ca.pem"

[security]
enabled = true
"""


class NodePlan(msgspec.Struct, frozen=True):
    """One node of the cluster that is founded."""

    node_id: int
    kafka: Address
    http: Address
    peer: Address
    # Where its etcd takes other voters, and clients.
    etcd_peer: Address
    etcd_client: Address

    @property
    def host(self) -> str:
        """The machine that it runs on."""
        return self.peer.host


class Ports(msgspec.Struct, frozen=True):
    """The first port of each kind. Nodes on one machine take the ones that follow."""

    kafka: int = 9092
    http: int = 8080
    peer: int = 9192
    # Clients; other voters take the next port.
    etcd: int = 2379


def planned(hosts: Sequence[str], ports: Ports) -> list[NodePlan]:
    """A node per host; several on one host get ports of their own."""
    seen: dict[str, int] = {}
    nodes = []
    for node_id, host in enumerate(hosts, 1):
        step = seen.get(host, 0)
        seen[host] = step + 1
        nodes.append(
            NodePlan(
                node_id,
                kafka=Address(host, ports.kafka + step),
                http=Address(host, ports.http + step),
                peer=Address(host, ports.peer + step),
                etcd_peer=Address(host, ports.etcd + 10 * step + 1),
                etcd_client=Address(host, ports.etcd + 10 * step),
            )
        )
    return nodes


def clashes(nodes: Sequence[NodePlan]) -> list[str]:
    """Addresses that two listeners would share, by the options that choose their ports."""
    taken: dict[Address, str] = {}
    problems: list[str] = []
    for node in nodes:
        addresses = (
            ("--kafka-port", node.kafka),
            ("--http-port", node.http),
            ("--peer-port", node.peer),
            ("--etcd-port", node.etcd_client),
            ("--etcd-port", node.etcd_peer),
        )
        for option, address in addresses:
            what = f"{option} of node {node.node_id}"
            if address in taken:
                problems.append(f"{what} is {address}, which {taken[address]} is too: choose ports further apart")
            taken.setdefault(address, what)
    return problems


class Manner(msgspec.Struct, frozen=True):
    """How the nodes of a new cluster are set up."""

    voters: int
    # Certificates, TLS and authentication even where all nodes run on this machine.
    secure: bool = False
    # Listeners for clients without TLS and authentication. Nodes use TLS among themselves all the same.
    allow_insecure: bool = False
    # Where the folder of a node will lie on its machine; None: where it is written.
    path: Path | None = None


class _Taken(msgspec.Struct, frozen=True):
    """The directory of a node on its own that becomes the first of the cluster, and its metadata."""

    data_dir: Path
    cluster_id: str
    metadata: bytes


class _Place(msgspec.Struct, frozen=True):
    """Where the files of a node are written, and where it will read them."""

    written: Path
    read: Path
    # What its files are called.
    name: str
    has_own_folder: bool

    @property
    def data_dir(self) -> Path:
        return self.read / ("data" if self.has_own_folder else self.name)


def found(folder: Path, nodes: Sequence[NodePlan], manner: Manner, *, from_dir: Path | None = None) -> list[Path]:
    """Write the files of a new cluster into a folder; returns the settings files. Nothing is overwritten.

    `from_dir` is the data directory of a stopped node on its own, which becomes the first of the cluster.
    """
    problems = [*_problems(folder, nodes, manner.voters), *clashes(nodes)]
    if problems:
        raise ConfigError(problems)
    if from_dir is None:
        return _write_all(folder, nodes, manner)
    # Not above: only this opens a data directory.
    from goqueue.node.cluster.importing import taken_over

    # Around all that is written: a directory that cannot be taken leaves no folder behind, and is marked last.
    with taken_over(from_dir, nodes[0].node_id) as metadata:
        return _write_all(folder, nodes, manner, _Taken(from_dir.absolute(), metadata.cluster_id, metadata.encoded()))


def _write_all(folder: Path, nodes: Sequence[NodePlan], manner: Manner, taken: _Taken | None = None) -> list[Path]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = folder.absolute()
    is_tls = manner.secure or not all(node.peer.is_loopback for node in nodes)
    places = {node.node_id: _place(folder, node, manner, is_tls=is_tls) for node in nodes}
    if is_tls:
        issue(folder, {node.node_id: [node.host] for node in nodes})
    if taken is not None:
        _write_bytes(places[nodes[0].node_id].written / IMPORT, taken.metadata)
    voting = nodes[: manner.voters]
    scheme = "https" if is_tls else "http"
    shared = {
        "peers": _list(f"{node.node_id}={node.peer}" for node in nodes),
        "voters": _list(f"{node.node_id}={scheme}://{node.etcd_peer}" for node in voting),
        "endpoints": _list(f"{scheme}://{node.etcd_client}" for node in voting),
        "token": secrets.token_hex(8),
        "listeners": "allow_insecure = true\n" if manner.allow_insecure else "",
    }
    secret = secrets.token_urlsafe(32) + "\n"
    is_secure = is_tls and not manner.allow_insecure
    listener = "tls://" if is_secure else ""
    written = []
    for node in nodes:
        place = places[node.node_id]
        path = place.written / f"{place.name}.toml"
        is_first = node is nodes[0]
        text = _SETTINGS.format(
            node_id=node.node_id,
            config=place.read / path.name,
            data_dir=taken.data_dir if taken is not None and is_first else place.data_dir,
            imported="" if taken is None else _import_settings(taken, place.read / IMPORT if is_first else None),
            kafka=f"{listener}{node.kafka}",
            http=f"{listener}{node.http}",
            listen=f"{scheme}://{node.etcd_client}",
            secret_file=place.read / SECRET,
            founding_file=place.read / f"{place.name}.founding",
            cluster_tls=f'tls = "required"\n{_tls_files(place.read)}' if is_tls else "",
            metadata_tls=_tls_files(place.read) if is_tls else "",
            **shared,
        )
        _write(path, text + (_SECURITY.format(place=place.read) if is_secure else ""))
        _write(place.written / SECRET, secret)
        if node in voting:
            founding = place.written / f"{place.name}.founding"
            _write(founding, "The first start of this node's etcd removes this file.\n")
        written.append(path)
    return written


def _place(folder: Path, node: NodePlan, manner: Manner, *, is_tls: bool) -> _Place:
    if not is_tls:
        return _Place(folder, folder, f"node{node.node_id}", has_own_folder=False)
    written = folder / f"node{node.node_id}"
    return _Place(written, manner.path or written, "node", has_own_folder=True)


def _import_settings(taken: _Taken, file: Path | None) -> str:
    return f'cluster_id = "{taken.cluster_id}"\n' + ("" if file is None else f'import_file = "{file}"\n')


def _problems(folder: Path, nodes: Sequence[NodePlan], voters: int) -> list[str]:
    problems = []
    if folder.exists() and any(folder.iterdir()):
        problems.append(f"{folder} is not empty: name a new folder")
    if voters not in (1, 3, 5):
        problems.append(f"--voters {voters}: one, three or five nodes run an etcd")
    elif voters > len(nodes):
        problems.append(f"--voters {voters}: there are {len(nodes)} nodes")
    return problems


def _tls_files(place: Path) -> str:
    files = {"tls_ca": "nodes-ca.pem", "tls_certificate": "node.pem", "tls_key": "node.key"}
    return "".join(f'{setting} = "{place / file}"\n' for setting, file in files.items())


def _list(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _write(path: Path, text: str) -> None:
    _write_bytes(path, text.encode())


def _write_bytes(path: Path, content: bytes) -> None:
    # Not above: only founding needs the library.
    from goqueue.security.certificates import write_private

    write_private(path, content)
