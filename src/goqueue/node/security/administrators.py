"""The first administrator, and the way back in when all are locked out: written into the metadata, past the broker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any, NamedTuple

import msgspec

from goqueue.config import Config
from goqueue.metadata.events import Event, SecurityChanged
from goqueue.metadata.local import LocalMetadata
from goqueue.metadata.store import MetadataStore
from goqueue.node.cluster.belonging import refuse_clustered
from goqueue.node.listeners.claims import claim_directory
from goqueue.node.security.offline_changes import OFFLINE_CHANGE
from goqueue.node.system_clock import SystemClock
from goqueue.security.access import Access
from goqueue.security.authentication import new_key
from goqueue.security.model import Binding, User
from goqueue.security.scram import MECHANISMS, credential_of
from goqueue.security.store import BINDING, KEY, USER, SecurityStore, binding_name


class Administrator(NamedTuple):
    """Credentials that were just made; shown once and stored nowhere. Empty: they were left as they are."""

    user: str
    password: str
    api_key: str


def make_administrator(data_dir: str, user: str, *, reset: bool) -> Administrator:
    """An administrator in the metadata of a stopped broker.

    A user that is there keeps its password unless `reset`. Raises `DataDirectoryInUse` while the broker runs.
    """
    return asyncio.run(_make_in_directory(data_dir, user, reset=reset))


def make_cluster_administrator(config: Config, user: str) -> Administrator:
    """An administrator in the metadata that the nodes of a cluster share, whether they run or not."""
    # Not above: a node on its own has no use for a client of etcd.
    from goqueue.node.cluster.etcd import Renew, with_store

    async def work(metadata: MetadataStore, _renew: Renew) -> Administrator:
        return await _make(metadata, user, reset=True)

    return asyncio.run(with_store(config, work))


async def _make_in_directory(data_dir: str, user: str, *, reset: bool) -> Administrator:
    with ExitStack() as stack:
        files = claim_directory(data_dir, stack)
        refuse_clustered(files, data_dir=data_dir)
        metadata = LocalMetadata.open(files, clock=SystemClock(), rng=SystemRandom(), offload=_inline)
        try:
            return await _make(metadata, user, reset=reset)
        finally:
            await metadata.close()


async def _make(metadata: MetadataStore, user: str, *, reset: bool) -> Administrator:
    store = SecurityStore(metadata, Access())
    if user in store.users and not reset:
        return Administrator(user, "", "")
    now_ms = SystemClock().now_ms()
    password = secrets.token_urlsafe(24)
    scram = {mechanism: credential_of(mechanism, password) for mechanism in MECHANISMS}
    text, key = new_key(f"User:{user}", label="made by goqueue security", now_ms=now_ms, expires_ms=0)
    what = f"{'reset' if reset else 'made'} administrator {user} at {datetime.now(UTC).isoformat()}"
    events: list[Event] = [
        SecurityChanged(USER, user, msgspec.json.encode(User(user, scram, now_ms, now_ms))),
        SecurityChanged(KEY, key.id, msgspec.json.encode(key)),
        SecurityChanged(BINDING, binding_name(Binding(f"User:{user}", "admin", "")), b"{}"),
        SecurityChanged(OFFLINE_CHANGE, what, b"{}"),
    ]
    await store.commit(events)
    return Administrator(user, password, text)


async def _inline(work: Callable[[], Any]) -> Any:
    return work()
