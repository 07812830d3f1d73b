"""The command `goqueue cluster recover`: the way out when most etcd servers have lost their data."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.cluster.metadata_store import read_backup
from goqueue.cli.cluster.store import load_clustered
from goqueue.cli.session import REFUSED
from goqueue.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from goqueue.config import Config
    from goqueue.metadata.shared.kv_backup import MetadataBackup
    from goqueue.node.cluster.operations.recovering import Recovery


def recover(
    config: Annotated[
        str,
        typer.Option("--config", help="Settings file of the node whose etcd goes on, on its machine.", metavar="FILE"),
    ],
    from_backup: Annotated[
        Path | None,
        typer.Option(
            "--from-backup", help="File of `cluster backup`, when no etcd has its data any more.", metavar="FILE"
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it, with the losses that it states without this.")] = False,
) -> None:
    """Recover the metadata when most etcd servers are lost for good. All nodes are stopped; says what can be lost."""
    from goqueue.node.cluster.operations.recovering import Recovery, check_cluster, recoverable_voter

    loaded = load_clustered(config)
    voter = recoverable_voter(loaded, needs_data=from_backup is None)
    backup = None if from_backup is None else read_backup(from_backup)
    if backup is not None and from_backup is not None:
        check_cluster(loaded, backup, from_backup)
    recovery = Recovery(loaded, voter)
    done = asyncio.run(_recovered(loaded, recovery, backup, is_wanted=yes))
    if backup is not None and from_backup is not None:
        taken = datetime.fromtimestamp(from_backup.stat().st_mtime, UTC).isoformat(timespec="seconds")
        source = f"the backup {from_backup} (written {taken}, revision {backup.revision})"
        lost = "every change of metadata since that backup"
    else:
        source = f"the etcd of node {voter.node_id} in {voter.directory} (revision {done.found.revision})"
        lost = "changes of metadata that the other etcd servers had agreed on and this one had not received yet"
    for line in _statement(done.found, source, lost):
        typer.echo(line)
    if done.generation is None:
        typer.echo("nothing was changed: add --yes to do it")
        raise typer.Exit(REFUSED)
    kept = recovery.finish(done.generation)
    typer.echo(f"done: generation {done.generation} of the metadata has begun")
    for line in _next_steps(loaded, config, kept):
        typer.echo(line)


class _Done:
    """What was found, and the generation that has begun, if one has."""

    def __init__(self, found: MetadataBackup, generation: int | None) -> None:
        self.found = found
        self.generation = generation


async def _recovered(config: Config, recovery: Recovery, backup: MetadataBackup | None, *, is_wanted: bool) -> _Done:
    from goqueue.node.cluster.operations.recovering import running_nodes

    running = await running_nodes(config)
    if running:
        raise ConfigError(
            [
                (
                    f"{', '.join(running)} answers: stop all nodes of the cluster first. If most etcd servers have "
                    "their data, nothing has to be recovered: start them"
                )
            ]
        )
    is_done = False
    try:
        found = await recovery.look() if backup is None else backup
        if not found.cluster_id:
            raise InvalidRequest("there is no cluster in this metadata")
        if not is_wanted:
            return _Done(found, None)
        generation = await recovery.restore(found)
        is_done = True
        return _Done(found, generation)
    finally:
        if not is_done:
            await asyncio.to_thread(recovery.abandon)


def _statement(found: MetadataBackup, source: str, lost: str) -> list[str]:
    from goqueue.metadata import keys

    count = {key: sum(one.startswith(key) for one in found.pairs) for key in (keys.TOPICS, keys.PARTITIONS, keys.NODES)}
    return [
        f"cluster {found.cluster_id} is recovered from {source}:",
        f"  {count[keys.TOPICS]} topics, {count[keys.PARTITIONS]} partitions, {count[keys.NODES]} nodes",
        "what is lost, or can be:",
        f"  - {lost}: topics, settings, users and rules that were created, changed or deleted",
        "  - records that only some replicas have, if another one counts as in sync there that had fallen behind since",
        "  - leases of queue messages: they are delivered again",
        "the etcd data of all other nodes must never be started again: it would decide beside the recovered one",
    ]


def _next_steps(config: Config, config_file: str, kept: Path | None) -> list[str]:
    from goqueue.node.config.cluster_settings import voters_of

    others = sorted(set(voters_of(config)) - {config.broker.node_id})
    steps = [f"goqueue server --config {config_file}"]
    if others:
        steps.append(
            f"on each of nodes {', '.join(map(str, others))}: remove the directory of its etcd (metadata.dir, or "
            "`etcd` in its data directory) and nothing else, then start it; its etcd joins this one"
        )
    steps.append("start the other nodes, if there are any")
    steps.append(f"goqueue cluster partitions --offline --config {config_file}   (lists nothing when all are led)")
    if kept is not None:
        steps.append(f"when all is well: remove {kept}")
    return ["next:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]
