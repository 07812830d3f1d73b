"""The metadata store that the settings of a node name, opened for one command, whether or not a broker answers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from goqueue.config import Config
from goqueue.errors import ConfigError, MetadataUnavailable
from goqueue.metadata.image import Image

T = TypeVar("T")

ConfigFile = Annotated[str, typer.Option("--config", help="Settings file of any node of the cluster.", metavar="FILE")]
_QUORUM_HINT = "if most etcd servers are lost for good, see 'goqueue cluster recover --help'"


def load_clustered(config_file: str) -> Config:
    """The settings of a node that is in a cluster; raises `ConfigError`."""
    from goqueue.node.config.cluster_settings import is_clustered
    from goqueue.node.config.load_config import load

    loaded = load(config_file, os.environ, {})
    if not is_clustered(loaded):
        raise ConfigError([f"{config_file}: metadata.mode is embedded: this node is in no cluster"])
    return loaded


async def image_of(kv: Any, config: Config) -> Image:
    """All metadata of the cluster, read once."""
    from goqueue.metadata.shared.kv_snapshot import read_image

    return await read_image(kv, config.metadata.prefix)


def with_kv(config_file: str, work: Callable[[Any, Config], Awaitable[T]]) -> T:
    """Do something with the metadata store that the settings of a node name."""
    from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
    from goqueue.metadata.shared.kv import KvError
    from goqueue.node.cluster.etcd import connect

    loaded = load_clustered(config_file)

    async def connected() -> T:
        kv = EtcdKv(connect(loaded))
        try:
            return await work(kv, loaded)
        except KvError as error:
            refused = MetadataUnavailable(f"the metadata store does not answer: {error}")
            refused.hint = _QUORUM_HINT
            raise refused from error
        finally:
            await kv.close()

    return asyncio.run(connected())


def with_store(config_file: str, work: Callable[[Any, Config, Callable[[], Awaitable[None]]], Awaitable[T]]) -> T:
    """Do something that changes metadata. Whoever takes long renews the lease by what it is given."""
    from goqueue.node.cluster.etcd import with_store as with_metadata

    loaded = load_clustered(config_file)
    try:
        return asyncio.run(with_metadata(loaded, lambda store, renew: work(store, loaded, renew)))
    except MetadataUnavailable as error:
        error.hint = _QUORUM_HINT
        raise
