"""The way out of a lost majority of etcd: the metadata goes on with one server, from what it has or from a backup.

All nodes are stopped. The metadata is read from a copy of this node's etcd directory, by an etcd that only this process
talks to, and written to a new etcd, whose directory takes the place of the former one; that is kept beside it. The
others join it with empty directories (`rejoining`). A new generation begins, so that no epoch is used twice and a node
that has seen it refuses a store from before it.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
from msgspec import structs

from goqueue.config import Config
from goqueue.errors import ConfigError, MetadataUnavailable
from goqueue.metadata.directory import IDENTITY, Start
from goqueue.metadata.membership import generation_of
from goqueue.metadata.shared.etcd.connection import Connection
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.kv import Kv, KvError
from goqueue.metadata.shared.kv_backup import MetadataBackup, restore_backup, take_backup
from goqueue.node.cluster import belonging
from goqueue.node.cluster.children import end, spawn
from goqueue.node.cluster.etcd import credentials_of
from goqueue.node.cluster.operations.reachable import answering
from goqueue.node.cluster.voter import Voter, check_program, command_of, voter_of
from goqueue.node.config.addresses import Address
from goqueue.node.config.cluster_settings import parse_url, peers_of, voters_of
from goqueue.node.listeners.listening import bind

_START_S_MAX = 60.0
_STOP_S_MAX = 20.0
_RETRY_S = 0.2
_COPY = "recovering"
_FORMER = "before-generation"


def recoverable_voter(config: Config, *, needs_data: bool) -> Voter:
    """The etcd of this node, of which the metadata is to be recovered; raises `ConfigError`."""
    if config.metadata.mode != "managed":
        raise ConfigError(
            ["metadata.mode is external: recover that etcd with its own tools, then use 'goqueue cluster restore'"]
        )
    voter = voter_of(config)
    if voter is None:
        raise ConfigError(
            [f"node {config.broker.node_id} runs no etcd: use the settings of one of {sorted(voters_of(config))}"]
        )
    if needs_data and not voter.has_data:
        raise ConfigError(
            [
                (
                    f"{voter.directory} holds no data of etcd: run this on the node whose etcd still has its data, or "
                    "name a file of 'goqueue cluster backup' with --from-backup"
                )
            ]
        )
    return voter


async def running_nodes(config: Config) -> list[str]:
    """Addresses of brokers and etcd servers of this cluster at which something answers: all have to be stopped."""
    places: dict[Address, str] = {address: f"node {node}" for node, address in peers_of(config).items()}
    for node, url in voters_of(config).items():
        places[parse_url(url)] = f"the etcd of node {node}"
    places[parse_url(config.metadata.listen)] = f"the etcd of node {config.broker.node_id}"
    return [f"{places[one]} at {one}" for one in await answering(places)]


def check_cluster(config: Config, backup: MetadataBackup, file: Path) -> None:
    """Refuse the backup of another cluster than that of this node's data directory. Blocks."""
    data_dir = Path(config.broker.data_dir)
    try:
        own = msgspec.json.decode((data_dir / belonging.FILE).read_bytes(), type=belonging.Belonging)
    except (OSError, msgspec.DecodeError):
        return
    if own.cluster_id != backup.cluster_id:
        raise ConfigError(
            [
                (
                    f"{file} is a backup of cluster {backup.cluster_id}, and the data in {data_dir} is of cluster "
                    f"{own.cluster_id}: name a backup of that one"
                )
            ]
        )


def generation_seen(config: Config) -> int:
    """The generation that this node's data directory has seen last. Blocks."""
    try:
        found = msgspec.json.decode((Path(config.broker.data_dir) / IDENTITY).read_bytes(), type=Start)
    except (OSError, msgspec.DecodeError):
        return 0
    return generation_of(found.epoch)


class Recovery:
    """The copy on which the metadata is recovered."""

    def __init__(self, config: Config, voter: Voter) -> None:
        self._config = config
        self._voter = voter
        self._directory = Path(voter.directory)
        self._copy = self._directory.with_name(f"{self._directory.name}.{_COPY}")
        scheme = voter.client_url.partition("://")[0]
        # The host that its certificate is for, at ports that nobody knows.
        host = parse_url(voter.client_url).host
        client, peer = (f"{scheme}://{Address(host, port)}" for port in _free_ports(host))
        self._private = structs.replace(
            voter, client_url=client, listen_url=peer, directory=str(self._copy), founding_file=""
        )

    def abandon(self) -> None:
        """Leave everything as it was. Blocks."""
        shutil.rmtree(self._copy, ignore_errors=True)

    def finish(self, generation: int) -> Path | None:
        """Put the new directory in the place of the former one; returns where that is kept, if any. Blocks."""
        kept = None
        if self._directory.exists():
            kept = self._directory.with_name(f"{self._directory.name}.{_FORMER}-{generation}")
            self._directory.rename(kept)
        self._copy.rename(self._directory)
        self._voter.end_founding()
        return kept

    async def look(self) -> MetadataBackup:
        """What the surviving data holds, read from a copy of it."""
        await asyncio.to_thread(self._begin, with_data=True)
        async with self._etcd(["--force-new-cluster"]) as kv:
            return await take_backup(kv, self._config.metadata.prefix)

    async def restore(self, backup: MetadataBackup) -> int:
        """Begin a new etcd of this server alone with that metadata in it; returns the number of the generation.

        Never on the surviving data itself: an etcd 3.4 that was forced to go on alone was seen to differ
        from the servers that joined it. It had skipped a write that they applied, and both had a controller.
        """
        await asyncio.to_thread(self._begin, with_data=False)
        # A token of its own: servers of the former cluster, should one come back, do not take it for theirs.
        token = secrets.token_hex(8)
        flags = ["--initial-cluster-state=new", f"--initial-cluster-token={token}"]
        async with self._etcd(flags) as kv:
            return await restore_backup(kv, self._config.metadata.prefix, backup, generation_min=self._generation_min)

    def _begin(self, *, with_data: bool) -> None:
        self.abandon()
        if with_data:
            shutil.copytree(self._directory, self._copy)
        else:
            self._copy.mkdir(mode=0o700, parents=True)

    @property
    def _generation_min(self) -> int:
        return generation_seen(self._config) + 1

    @asynccontextmanager
    async def _etcd(self, flags: list[str]) -> AsyncIterator[Kv]:
        """The store in the copy, while an etcd of this process serves it. Flags overrule those of the settings."""
        alone: Mapping[str, str] = {self._voter.name: self._voter.url}
        command = command_of(self._private, check_program(), alone)
        chosen = {one.partition("=")[0] for one in flags}
        process = await spawn([*(one for one in command if one.partition("=")[0] not in chosen), *flags])
        kv = EtcdKv(Connection([self._private.client_url], partial(credentials_of, self._config.metadata)))
        try:
            for _ in range(int(_START_S_MAX / _RETRY_S)):
                if process.returncode is not None:
                    break
                try:
                    await kv.get(self._config.metadata.prefix)
                except KvError:
                    await asyncio.sleep(_RETRY_S)
                else:
                    yield kv
                    return
            raise MetadataUnavailable(f"an etcd on a copy of {self._directory} did not start: see its output above")
        finally:
            await kv.close()
            await end(process, seconds_max=_STOP_S_MAX)


def _free_ports(host: str) -> list[int]:
    with bind(Address(host, 0)) as first, bind(Address(host, 0)) as second:
        return [int(one.getsockname()[1]) for one in (first, second)]
