"""A cluster that is founded from the directory of a node on its own.

`taken_over` reads that node's metadata, and marks the directory as the cluster's once the files of the cluster are
written, so that it is not started on its own again. The first start of the node imports the metadata; the others wait
until the store has the cluster's id, which is written last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from goqueue.config import Config
from goqueue.errors import ConfigError
from goqueue.metadata import keys
from goqueue.metadata.image import Image
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.shared.kv import Delete, Kv, KvError
from goqueue.metadata.shared.kv_backup import MetadataBackup, decode_backup, restore_backup
from goqueue.metadata.shared.kv_export import exported
from goqueue.node.cluster.belonging import belonging_of, keep_belonging
from goqueue.node.listeners.claims import claim_directory
from goqueue.node.migration.layout import former_topics
from goqueue.node.system_clock import SystemClock
from goqueue.ports import Files

_log = logging.getLogger("goqueue.cluster")

_RETRY_S = 0.2
_TOLD_EVERY = 25


@contextmanager
def taken_over(data_dir: Path, node_id: int) -> Iterator[MetadataBackup]:
    """The metadata in a stopped node's directory, which is the cluster's if the block ends well. Blocks."""
    if not (data_dir / "metadata").is_dir():
        raise ConfigError([f"--from {data_dir}: this is not the data directory of a broker"])
    with ExitStack() as stack:
        files = claim_directory(str(data_dir), stack)
        if belonging_of(files) is not None:
            raise ConfigError([f"--from {data_dir}: it belongs to a cluster already"])
        image = asyncio.run(_image_in(files))
        if former := " and ".join(former_topics(image)):
            problem = f"an earlier version wrote it, and {former} is not taken over yet"
            raise ConfigError(
                [f"--from {data_dir}: {problem}: start it once on its own with this version, and stop it"]
            )
        others = image.leaders() - {node_id}
        if others:
            raise ConfigError(
                [f"--from {data_dir}: its data belongs to node {min(others)}, and only that of node {node_id} is taken"]
            )
        yield exported(image)
        keep_belonging(files, node_id=node_id, cluster_id=image.cluster_id)


async def _image_in(files: Files) -> Image:
    metadata = LocalMetadata.open(files, clock=SystemClock(), rng=SystemRandom(), offload=_inline)
    await metadata.close()
    return metadata.image


async def _inline(work: Callable[[], Any]) -> Any:
    return work()


async def founded(kv: Kv, config: Config) -> None:
    """Import the metadata that this node brings, if it does, and wait until the store is that of the right cluster."""
    wanted, prefix = config.metadata.cluster_id, config.metadata.prefix
    if not wanted:
        return
    waited = 0
    while True:
        try:
            found = await kv.get(prefix + keys.CLUSTER)
            if found is None and _brings(config):
                await _import(kv, prefix, _read_import(config))
                continue
        except KvError as error:
            _log.warning("the metadata store does not answer: %s", error)
            found = None
        if found is not None and found.value.decode() != wanted:
            raise ConfigError(
                [f"metadata.cluster_id is {wanted}, but the metadata store holds cluster {found.value.decode()}"]
            )
        if found is not None:
            _end_import(config)
            return
        waited += 1
        if waited % _TOLD_EVERY == 0:
            _log.warning("waiting for the node that brings the metadata of cluster %s", wanted)
        await asyncio.sleep(_RETRY_S)


def _brings(config: Config) -> bool:
    return bool(config.metadata.import_file) and Path(config.metadata.import_file).exists()


def _end_import(config: Config) -> None:
    if config.metadata.import_file:
        Path(config.metadata.import_file).unlink(missing_ok=True)


def _read_import(config: Config) -> MetadataBackup:
    return decode_backup(Path(config.metadata.import_file).read_bytes())


async def _import(kv: Kv, prefix: str, backup: MetadataBackup) -> None:
    # What a start that died in the middle has left; the cluster's id is written last, so nobody has read it.
    await kv.txn([], [Delete(prefix, is_prefix=True)])
    await restore_backup(kv, prefix, backup)
    _log.info("%d keys of metadata of cluster %s are imported", len(backup.pairs), backup.cluster_id)
