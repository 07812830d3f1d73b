"""The command `goqueue cluster check`: whether nodes can be started, asked before they are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.times import duration
from goqueue.errors import ConfigError


def check(
    files: Annotated[
        list[Path], typer.Argument(help="Settings files of nodes, or the folder that `cluster init` wrote.")
    ],
    wait: Annotated[
        str,
        typer.Option(
            "--wait",
            help="How long to try to reach the nodes of other machines, and to listen for them. 0s: do not.",
            callback=duration,
        ),
    ] = "30s",
) -> None:
    """Check settings, secrets, addresses, etcd and certificates, and whether machines reach each other.

    Run it on all machines at the same time: each listens for the others. All problems are told at once.
    """
    from goqueue.client.durations import seconds_of
    from goqueue.node.cluster.operations import checking
    from goqueue.node.cluster.operations.probing import targets_of, unreached

    wait_s = seconds_of(wait, "--wait")
    named = [one for file in files for one in (_settings_in(file) if file.is_dir() else [file])]
    if not named:
        raise ConfigError([f"there is no node*.toml in {', '.join(map(str, files))}"])
    configs, problems = checking.load_all(named)
    problems += checking.misfits(configs)
    local = checking.here(configs)
    if configs and not local:
        problems.append(
            f"none of the {len(configs)} nodes has an address of this machine in cluster.peers: run this where they run"
        )
    for config in list(local.values() or configs.values())[:1]:
        problems += checking.unresolved(config)
    problems += checking.machine_problems(local)
    if local and wait_s and targets_of(list(local.values())):
        typer.echo(f"listening for the nodes of other machines for {wait_s:.0f} s", err=True)
        problems += asyncio.run(unreached(list(local.values()), wait_s=wait_s))
    if problems:
        raise ConfigError(problems)
    ids = ", ".join(str(one.broker.node_id) for one in local.values())
    others = len({one.node_id for one in targets_of(list(local.values()))})
    reached = f", {others} nodes of other machines were reached" if wait_s and others else ""
    typer.echo(f"{len(configs)} settings files are consistent; this machine can run node {ids}{reached}")


def _settings_in(folder: Path) -> list[Path]:
    from goqueue.cli.cluster.up import settings_in

    return settings_in(folder)
