"""Issuing: the certificates of a cluster's nodes, and the two authorities that sign them.

    ca/nodes.pem, ca/clients.pem   the authorities; their keys lie beside them and stay where they were made
    node1/nodes-ca.pem             whom node 1 trusts as a node or as an etcd
    node1/node.pem, node.key       what node 1 shows to other nodes and to etcd, and its etcd to others
    node1/ca.pem                   what clients are given
    node1/server.pem, server.key   what node 1 shows to clients

There are two authorities because etcd lets in whoever has a certificate of the first: a certificate for a client of
Kafka must not be one. Issuing again replaces certificates and keys, and keeps the authorities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.errors import ConfigError

if TYPE_CHECKING:
    from goqueue.security.certificates import Pair

AUTHORITIES = "ca"
_LOCAL_NAMES = ("localhost", "127.0.0.1")


def issue(folder: Path, hosts: Mapping[int, Sequence[str]]) -> None:
    """Certificates for these nodes, each with the names and addresses under which it is reached. Blocks."""
    # Not above: only this needs the library.
    from goqueue.security import certificates

    nodes, clients = _authority(folder, "nodes"), _authority(folder, "clients")
    for node_id, names in hosts.items():
        place = folder / f"node{node_id}"
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificates.write_certificate(nodes, place / "nodes-ca.pem")
        certificates.write_certificate(clients, place / "ca.pem")
        between = certificates.new_certificate(nodes, f"node{node_id}", names, node_id=node_id)
        certificates.write(between, place / "node.pem", place / "node.key")
        # Clients on the same machine may use its own names.
        all_names = list(dict.fromkeys([*names, *_LOCAL_NAMES]))
        server = certificates.new_certificate(clients, names[0], all_names)
        certificates.write(server, place / "server.pem", place / "server.key")


def issued(folder: Path) -> dict[int, list[str]]:
    """The nodes that have certificates in this folder, with their names and addresses."""
    from goqueue.security import certificates

    found = {}
    for path in folder.glob("node*/node.pem"):
        number = path.parent.name.removeprefix("node")
        if number.isdecimal():
            found[int(number)] = certificates.hosts_of(path)
    return dict(sorted(found.items()))


def _authority(folder: Path, name: str) -> Pair:
    from goqueue.security import certificates

    place = folder / AUTHORITIES
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key = place / f"{name}.pem", place / f"{name}.key"
    if certificate.exists() and key.exists():
        return certificates.read(certificate, key)
    if certificate.exists() or key.exists():
        raise ConfigError([f"{place} has only one of {name}.pem and {name}.key: bring the other one back"])
    made = certificates.new_authority(f"GoQueue {name} CA")
    certificates.write(made, certificate, key)
    return made
