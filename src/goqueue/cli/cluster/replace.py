"""The command `goqueue cluster replace`: new hardware in place of a dead node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from goqueue.cli.cluster.store import ConfigFile, image_of, with_kv
from goqueue.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from goqueue.config import Config
    from goqueue.metadata.image import Image
    from goqueue.metadata.shared.etcd.connection import Connection
    from goqueue.node.cluster.operations.replacing import Voters
    from goqueue.node.cluster.operations.settings_file import Place, Settings


class Done(NamedTuple):
    """What was found and made, for the report."""

    copies: int
    at_risk: list[str]
    removed_member: int | None
    before: Settings
    made: Settings


def replace(
    node: Annotated[int, typer.Argument(help="Id of the node whose machine or disk is gone.", min=0)],
    config: ConfigFile,
    host: Annotated[
        str | None, typer.Option("--host", help="Name or address of the new machine. [default: that of the old one]")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Settings file to write. [default: nodeN.toml beside --config]", metavar="FILE"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only check whether it can be done; change nothing.")] = False,
    accept_data_loss: Annotated[
        bool,
        typer.Option("--accept-data-loss", help="Replace it although partitions have no other in-sync replica alive."),
    ] = False,
) -> None:
    """Replace a dead node: check that it can be done, remove its etcd member, write the new machine's settings."""
    from goqueue.metadata.shared.etcd.servers import remove_member
    from goqueue.node.cluster.etcd import connect
    from goqueue.node.cluster.operations import replacing
    from goqueue.node.cluster.operations.settings_file import settings_for
    from goqueue.node.config.addresses import check_hosts

    # Before anything is changed.
    check_hosts([] if host is None else [host], "--host")

    async def work(kv: Any, loaded: Config) -> Done:
        image = await image_of(kv, loaded)
        if not image.cluster_id:
            raise InvalidRequest("there is no cluster in this metadata store")
        connection = connect(loaded)
        try:
            return await replaced(connection, image, loaded)
        finally:
            await connection.close()

    async def replaced(connection: Connection, image: Image, loaded: Config) -> Done:
        voters = await replacing.voters_around(connection, loaded, node)
        problems = await replacing.problems_of_replacement(image, loaded, node, voters)
        at_risk = replacing.partitions_at_risk(image, node)
        if at_risk and not accept_data_loss:
            problems.append(
                f"{len(at_risk)} partitions would lose records with the disk of node {node}: "
                f"{replacing.shortened(at_risk)}. Bring the nodes that have them back, or add --accept-data-loss"
            )
        before = _base(config, node)
        if not problems:
            made = settings_for(_place(image, loaded, node, voters), before, cluster_id=image.cluster_id, host=host)
        if problems:
            raise ConfigError(problems)
        dead = None if voters is None else voters.dead
        if dead is not None and not check:
            await remove_member(connection, dead.member_id)
        removed = None if dead is None else dead.member_id
        return Done(replacing.copies_on(image, node), at_risk, removed, before, made)

    done = with_kv(config, work)
    if check:
        typer.echo(f"node {node} can be replaced; nothing was changed")
        return
    folder = _founding_folder(config)
    target = to or _beside(config, node)
    _write(target, done.made, node, folder)
    for line in _report(done, node, target, config, is_issued=folder is not None, has_moved=host is not None):
        typer.echo(line)


def _report(done: Done, node: int, target: Path, config: str, *, is_issued: bool, has_moved: bool) -> Iterator[str]:
    """What was done, and what is to be done next."""
    from goqueue.node.cluster.operations.replacing import shortened
    from goqueue.node.cluster.operations.settings_file import changed_for_others, peer_hosts

    yield f"node {node} can be started on its new machine, with an empty data directory"
    yield f"  {done.copies} partitions are copied to it from the others then"
    if done.at_risk:
        yield f"  {len(done.at_risk)} partitions have no in-sync replica left: {shortened(done.at_risk)}"
    if done.removed_member is not None:
        yield f"  its former etcd member {done.removed_member:x} is removed and cannot vote again"
    yield f"  its settings are in {target}"
    yield "next:"
    steps = []
    has_certificates = any("tls_certificate" in values for values in done.made.values())
    if has_certificates and not is_issued:
        hosts = " ".join(f"--host {host}" for host in peer_hosts(done.made))
        steps.append(f"where `cluster init` was run: goqueue cluster certificates FOLDER {hosts}")
    where = f"the folder {target.parent}" if is_issued else f"{target}, with the secret and certificates that it names,"
    steps += [
        f"copy {where} to the new machine; its settings say at which paths files are expected there",
        f"there: goqueue server --config {target.name}   (data directory: {done.made['broker']['data_dir']})",
    ]
    if done.at_risk:
        steps.append(
            f"for topics whose partitions have no leader: goqueue cluster elect TOPIC --unclean --config {config}"
        )
    steps.append(f"wait until this lists nothing: goqueue cluster partitions --under-replicated --config {config}")
    changed = changed_for_others(done.before, done.made) if has_moved else []
    if changed:
        steps.append("change in the settings of every other node, for its next start: " + "; ".join(changed))
    for number, step in enumerate(steps, 1):
        yield f"  {number}. {step}"


def _beside(config: str, node: int) -> Path:
    """Where the settings of a node lie beside those of another: nodeN.toml in a shared folder, nodeN/node.toml else."""
    named = Path(config).absolute()
    if named.stem == "node" and _founding_folder(config) is not None:
        return named.parent.parent / f"node{node}" / named.name
    return named.with_name(f"node{node}.toml")


def _base(config: str, node: int) -> Settings:
    """The former settings of the node, if they are beside the file that was named, or else those of that one."""
    from goqueue.node.cluster.operations.settings_file import read_settings

    former = _beside(config, node)
    if former.exists():
        found = read_settings(former)
        if int(found.get("broker", {}).get("node_id", 0)) == node:
            return found
    return read_settings(Path(config))


def _place(image: Image, config: Config, node_id: int, voters: Voters | None) -> Place:
    from goqueue.node.cluster.operations.settings_file import Place
    from goqueue.node.config.cluster_settings import peers_of

    known = image.nodes().get(node_id)
    addresses = {} if known is None else dict(known.addresses)
    if node_id in peers_of(config):
        addresses.setdefault("peer", str(peers_of(config)[node_id]))
    dead = None if voters is None else voters.dead
    client = dead.client_urls[0] if dead is not None and dead.client_urls else ""
    return Place(node_id, addresses, "" if known is None else known.rack, client)


def _write(target: Path, made: Settings, node: int, folder: Path | None) -> None:
    from goqueue.node.cluster.founding import SECRET
    from goqueue.node.cluster.issuing import issue
    from goqueue.node.cluster.operations.settings_file import as_toml, host_of
    from goqueue.security.certificates import write_private

    if folder is not None:
        issue(folder, {node: [host_of(made, node)]})
        secret = Path(made["cluster"]["secret_file"]).name if made["cluster"].get("secret_file") else SECRET
        others = [one for one in folder.glob(f"node*/{secret}") if one.parent != target.parent]
        if not (target.parent / secret).exists() and others:
            write_private(target.parent / secret, others[0].read_bytes())
    text = as_toml(made, f"Node {node}, written by `goqueue cluster replace`. Start it with an empty data directory.")
    if target.exists():
        target.replace(target.with_suffix(".toml.replaced"))
    write_private(target, text.encode())


def _founding_folder(config: str) -> Path | None:
    """The folder that `cluster init` wrote, if the settings file lies in it and the authorities are there."""
    from goqueue.node.cluster.issuing import AUTHORITIES

    folder = Path(config).absolute().parent.parent
    return folder if (folder / AUTHORITIES / "nodes.key").exists() else None
