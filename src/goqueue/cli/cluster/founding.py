"""The commands `goqueue cluster init` and `certificates`: the files of a new cluster, and new certificates for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.errors import ConfigError
from goqueue.node.cluster.issuing import AUTHORITIES, issue, issued
from goqueue.node.config.addresses import check_hosts

if TYPE_CHECKING:
    from goqueue.node.cluster.founding import NodePlan

Folder = Annotated[Path, typer.Argument(help="New folder for the settings files, the secret and the certificates.")]
Hosts = Annotated[
    list[str] | None,
    typer.Option("--host", help="Name or address of a node, once for each. Without it, all run on this machine."),
]
Nodes = Annotated[int, typer.Option("--nodes", help="How many nodes, when no --host is given.", min=1, max=99)]
Voters = Annotated[
    int | None, typer.Option("--voters", help="How many of them run an etcd: 1, 3 or 5. [default: 3, or 1 below that]")
]
KafkaPort = Annotated[int, typer.Option("--kafka-port", help="Port of the first Kafka listener.", min=1, max=65000)]
HttpPort = Annotated[int, typer.Option("--http-port", help="Port of the first HTTP listener.", min=1, max=65000)]
PeerPort = Annotated[int, typer.Option("--peer-port", help="First port for traffic between nodes.", min=1, max=65000)]
EtcdPort = Annotated[int, typer.Option("--etcd-port", help="First port of etcd.", min=1, max=65000)]


def init(
    folder: Folder,
    host: Hosts = None,
    nodes: Nodes = 3,
    voters: Voters = None,
    kafka_port: KafkaPort = 9092,
    http_port: HttpPort = 8080,
    peer_port: PeerPort = 9192,
    etcd_port: EtcdPort = 2379,
    from_dir: Annotated[
        Path | None,
        typer.Option("--from", help="Data directory of a stopped single node, which becomes node 1.", metavar="DIR"),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="TLS and authentication, also where all nodes run on this machine.")
    ] = False,
    path: Annotated[
        Path | None,
        typer.Option("--path", help="Where a node's folder will lie on its machine. [default: where it is written]"),
    ] = None,
    allow_insecure: Annotated[
        bool, typer.Option("--allow-insecure", help="Let clients in without TLS and authentication.")
    ] = False,
) -> None:
    """Write the settings of a new cluster's nodes: a folder for each machine, with the secret and certificates."""
    from goqueue.node.cluster.founding import Manner, Ports, found, planned

    hosts = host or ["127.0.0.1"] * nodes
    check_hosts(hosts, "--host")
    plan = planned(hosts, Ports(kafka_port, http_port, peer_port, etcd_port))
    manner = Manner(voters or default_voters(len(plan)), secure, allow_insecure, path.absolute() if path else None)
    written = found(folder, plan, manner, from_dir=from_dir)
    read = [file if path is None else path.absolute() / file.name for file in written]
    if host:
        typer.echo(f"first, on all machines at the same time: goqueue cluster check {path or folder}")
    for node, file in zip(plan, read, strict=True):
        where = f"on {node.host}: " if host else ""
        typer.echo(f"{where}goqueue server --config {file}")
    if (folder / AUTHORITIES).exists():
        typer.echo(f"keep {folder / AUTHORITIES} secret: it signs certificates, and no node needs it")
        if not allow_insecure:
            # A node that is taken over may have an administrator, whose password this would replace.
            unless = "" if from_dir is None else f", unless {from_dir} has an administrator"
            typer.echo(f"then, once, on one of them{unless}: goqueue security reset-admin --config {read[0]}")
    if from_dir is not None:
        typer.echo(f"then, when all of them run: goqueue cluster copies {min(3, len(plan))} --config {read[0]}")
    if len(plan) == 2:
        typer.echo("warning: a cluster of two nodes does not survive the loss of one: use three", err=True)
    for machine in _needed_machines(plan, manner.voters):
        typer.echo(
            f"warning: {machine} runs most etcd servers: the cluster does not survive the loss of this machine",
            err=True,
        )


def certificates(
    folder: Annotated[Path, typer.Argument(help="Folder of `cluster init`, or a new one.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Name or address of a node, once for each. [default: those of the folder]"),
    ] = None,
) -> None:
    """Issue certificates for every node, signed by the authorities in the folder, which are made if there are none."""
    check_hosts(host or (), "--host")
    hosts = {node_id: [name] for node_id, name in enumerate(host, 1)} if host else issued(folder)
    if not hosts:
        raise ConfigError([f"{folder} has no certificates of nodes: name the hosts with --host, once for each node"])
    issue(folder, hosts)
    for node_id, names in hosts.items():
        typer.echo(f"node {node_id} ({', '.join(names)}): copy *.pem and *.key of {folder / f'node{node_id}'} to it")


def _needed_machines(plan: Sequence[NodePlan], voters: int) -> list[str]:
    """Of several machines, those without which the other voters have no majority."""
    machines = Counter(node.host for node in plan[:voters])
    return [host for host, count in machines.items() if voters > 1 and len({*machines}) > 1 and 2 * count > voters]


def default_voters(nodes: int) -> int:
    """Three, where there are as many."""
    return 3 if nodes >= 3 else 1
