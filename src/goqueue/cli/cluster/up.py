"""The command `goqueue cluster up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.cluster.founding import EtcdPort, HttpPort, KafkaPort, PeerPort, Voters, default_voters
from goqueue.errors import ConfigError

if TYPE_CHECKING:
    from goqueue.node.cluster.founding import NodePlan

_LOGS = "log"
_NODES = 3
# What a settings file is called whose node has a folder of its own.
_OWN_FOLDER = "node"
_STOP_S_MAX = 90.0


def up(
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Folder of the whole cluster; it can be started again.")
    ] = Path("cluster"),
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="How many nodes a new one has. [default: 3]", min=1, max=99)
    ] = None,
    voters: Voters = None,
    kafka_port: KafkaPort = 9092,
    http_port: HttpPort = 8080,
    peer_port: PeerPort = 9192,
    etcd_port: EtcdPort = 2379,
    secure: Annotated[bool, typer.Option("--secure", help="A new one uses TLS and authentication.")] = False,
) -> None:
    """Run a cluster on this machine: for trying out, and for using more cores. Ctrl-C stops all of it."""
    from goqueue.node.cluster.founding import Manner, Ports, clashes, found, planned
    from goqueue.node.cluster.voter import check_program

    configs = settings_in(data_dir)
    if configs:
        problems = list(_misfits(data_dir, configs, nodes, is_secure_wanted=secure)) or _unfit(data_dir, configs)
        if problems:
            raise ConfigError(problems)
    else:
        # Before anything is written: a folder that cannot be started would be left behind, and its ports would stay.
        check_program()
        count = nodes or _NODES
        plan = planned(["127.0.0.1"] * count, Ports(kafka_port, http_port, peer_port, etcd_port))
        problems = clashes(plan) or list(_taken(plan, voters or default_voters(count)))
        if problems:
            raise ConfigError(problems)
        configs = found(data_dir, plan, Manner(voters or default_voters(count), secure=secure))
    raise typer.Exit(asyncio.run(_run(data_dir, configs)))


def settings_in(folder: Path) -> list[Path]:
    """The settings files of a cluster that was founded in this folder, in the order of the nodes."""
    folder = folder.absolute()
    found = [*folder.glob("node*.toml"), *folder.glob("node*/node.toml")]
    return sorted(found, key=lambda path: (len(str(path)), path))


def _misfits(folder: Path, configs: Sequence[Path], nodes: int | None, *, is_secure_wanted: bool) -> Iterator[str]:
    """What was asked for, and the cluster in the folder is not. Its ports are those of its settings files."""
    if nodes not in (None, len(configs)):
        yield (
            f"--nodes {nodes}: the cluster in {folder} has {len(configs)} nodes: leave the option out, or name a new "
            "folder"
        )
    if is_secure_wanted and any(config.stem != _OWN_FOLDER for config in configs):
        yield f"--secure: the cluster in {folder} was founded without TLS and authentication: name a new folder"


def _unfit(folder: Path, configs: Sequence[Path]) -> list[str]:
    """What keeps the nodes from starting, such as that they run already. Told before the first of them is started."""
    from goqueue.node.cluster.operations.checking import addresses_in_use, load_all, machine_problems

    loaded, problems = load_all(configs)
    if not problems and all(addresses_in_use(config) for config in loaded.values()):
        return [f"the cluster in {folder} runs already: every one of its nodes has an address that is in use"]
    return problems or list(machine_problems(loaded))


def _taken(plan: Sequence[NodePlan], voters: int) -> Iterator[str]:
    """Addresses that another process has, with the option that chooses others."""
    from goqueue.node.listeners.listening import CannotListen, bind

    for number, node in enumerate(plan):
        addresses = {"--kafka-port": [node.kafka], "--http-port": [node.http], "--peer-port": [node.peer]}
        addresses["--etcd-port"] = [node.etcd_client, node.etcd_peer] if number < voters else []
        for option, of_one in addresses.items():
            for address in of_one:
                try:
                    bind(address).close()
                except CannotListen as error:
                    yield f"{option}: node {node.node_id} {error}"


async def _run(folder: Path, configs: Sequence[Path]) -> int:
    from goqueue.cli.cluster.table import watch
    from goqueue.node.cluster.children import end, spawn

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked_to_stop(number: int) -> None:
        if stopping.is_set():
            # The second signal does not wait: the children die with this process.
            os._exit(128 + number)
        stopping.set()
        # The last etcd waits for others to take over from it, some seconds long.
        print("stopping all nodes; a second Ctrl-C does not wait", file=sys.stderr, flush=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop, number)
    logs = folder / _LOGS
    logs.mkdir(exist_ok=True)
    children: list[Process] = []
    try:
        for config in configs:
            with _log_of(config, logs).open("ab") as log:
                command = [sys.executable, "-m", "goqueue", "server", "--config", str(config)]
                ready = ["--ready-file", str(config.with_suffix(".ready"))]
                children.append(await spawn([*command, *ready], log=log.fileno()))
        ends = [asyncio.create_task(child.wait()) for child in children]
        showing = asyncio.create_task(watch(configs, logs))
        stopped = asyncio.create_task(stopping.wait())
        done, _ = await asyncio.wait([stopped, showing, *ends], return_when=asyncio.FIRST_COMPLETED)
        for task in (showing, stopped):
            task.cancel()
        if showing in done and (error := showing.exception()) is not None:
            raise error
        return 0 if stopped in done else _failed(configs, children, logs)
    finally:
        # All at once: the last ones have nobody to hand over to, and do not wait for it for long.
        await asyncio.gather(*(end(child, seconds_max=_STOP_S_MAX) for child in children))


def _failed(configs: Sequence[Path], children: Sequence[Process], logs: Path) -> int:
    """A node has ended by itself: say which, and what it said last."""
    problems = []
    for config, child in zip(configs, children, strict=True):
        if child.returncode is not None:
            log = _log_of(config, logs)
            said = log.read_text(errors="replace").strip().splitlines()[-5:]
            problems.append(f"{log.stem} has ended with {child.returncode} (see {log}): " + " / ".join(said))
    raise ConfigError(problems)


def _log_of(config: Path, logs: Path) -> Path:
    """The log of a node, whose name is that of its file, or of its folder if it has one of its own."""
    return logs / f"{config.parent.name if config.stem == _OWN_FOLDER else config.stem}.log"
