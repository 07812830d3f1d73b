"""The connection to etcd that the settings describe, checked before it is used."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

from goqueue.config import Config, MetadataConfig
from goqueue.errors import ConfigError, InvalidRequest, MetadataUnavailable
from goqueue.metadata.shared.etcd.connection import Connection, Credentials
from goqueue.metadata.shared.etcd.etcd_kv import EtcdKv
from goqueue.metadata.shared.etcd.servers import alarms, version_problems
from goqueue.metadata.shared.kv import Kv, KvError
from goqueue.metadata.shared.kv_snapshot import read_image
from goqueue.metadata.shared.kv_store import KvMetadata
from goqueue.node.config.cluster_settings import endpoints_of

_log = logging.getLogger("goqueue.cluster")

T = TypeVar("T")
Renew = Callable[[], Awaitable[None]]
_LEASE_MS = 60_000


def connect(config: Config) -> Connection:
    """A connection to the servers that the settings name. Needs a running loop."""
    return Connection(endpoints_of(config), partial(credentials_of, config.metadata))


def credentials_of(metadata: MetadataConfig) -> Credentials:
    """What the files of the settings hold. Blocks."""

    def content(path: str) -> bytes | None:
        return Path(path).read_bytes() if path else None

    password = content(metadata.password_file) or b""
    return Credentials(
        ca=content(metadata.tls_ca),
        certificate=content(metadata.tls_certificate),
        key=content(metadata.tls_key),
        username=metadata.username,
        password=password.decode().strip(),
    )


async def open_etcd(config: Config, stack: AsyncExitStack) -> Kv:
    """The metadata store, once no server has a version that loses data."""
    connection = connect(config)
    kv = EtcdKv(connection)
    stack.push_async_callback(kv.close)
    await refuse_unfit(config, connection)
    try:
        raised = await alarms(connection)
    except KvError:
        # It is waited for by whoever needs it first.
        raised = []
    if raised:
        _log.error("etcd has raised %s: changes of metadata are refused until it is cleared", ", ".join(raised))
    return kv


async def refuse_unfit(config: Config, connection: Connection) -> None:
    """Raise `ConfigError` if a server that answers has a version that loses data."""
    problems = await version_problems(connection, tuple(endpoints_of(config)))
    if problems:
        raise ConfigError(problems)


async def refuse_unfit_now(config: Config) -> None:
    """The same, over a connection of its own: of servers that did not answer yet when the node was started."""
    connection = connect(config)
    try:
        await refuse_unfit(config, connection)
    finally:
        await connection.close()


async def with_store(config: Config, work: Callable[[KvMetadata, Renew], Awaitable[T]]) -> T:
    """Change the metadata of a cluster from outside of it, under a lease of its own, so that nothing is left behind.

    Work that takes long renews the lease.
    """
    kv = EtcdKv(connect(config))
    try:
        if not (await read_image(kv, config.metadata.prefix)).cluster_id:
            raise InvalidRequest("there is no cluster in this metadata store: start its nodes first")
        lease = await kv.grant(_LEASE_MS)
        store = await KvMetadata.open(kv, prefix=config.metadata.prefix, rng=SystemRandom(), lease=lease)
        try:
            return await work(store, lambda: kv.keep_alive(lease))
        finally:
            await store.close()
            await kv.revoke(lease)
    except KvError as error:
        raise MetadataUnavailable(f"the metadata store does not answer: {error}") from error
    finally:
        await kv.close()
