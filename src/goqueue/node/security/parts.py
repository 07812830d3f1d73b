"""Security of a node, put together: what is stored, who checks it, and where the audit log is written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import msgspec

from goqueue.anywhere.asking import Asking
from goqueue.anywhere.writing.auditing import AuditAnywhere
from goqueue.broker.replicas.partitions import Partitions
from goqueue.broker.topics import TopicService
from goqueue.clock import Clock
from goqueue.codec.batch_encode import encode_batch
from goqueue.config import SecurityConfig
from goqueue.metadata.store import MetadataStore
from goqueue.node.security.offline_changes import OfflineChanges
from goqueue.ports import Offload
from goqueue.records import NewRecord, TopicPartition
from goqueue.security.access import Access
from goqueue.security.admin import SecurityAdmin
from goqueue.security.audit import AUDIT_TOPIC, AuditLog
from goqueue.security.audit_topic import AuditTopic
from goqueue.security.authentication import Authenticator
from goqueue.security.certificate_names import parse_rules
from goqueue.security.service import Security
from goqueue.security.store import SecurityStore
from goqueue.security.tokens import TokenVerifier
from goqueue.servers.access.doorkeeper import AuthorisingDoorkeeper
from goqueue.servers.services import Services

_LAST_USED_SECONDS = 60.0
_KEYS_BYTES_MAX = 1024 * 1024
_AUDIT_RETENTION_MS = 90 * 24 * 3600 * 1000


async def open_security(
    config: SecurityConfig,
    *,
    metadata: MetadataStore,
    topics: TopicService,
    partitions: Partitions,
    offload: Offload,
    clock: Clock,
    stack: AsyncExitStack,
    node_id: int,
    asking: Asking | None = None,
) -> Security:
    """Everything that security is made of; closed again by the stack. `asking` is there in a cluster."""
    access = Access(config.super_users)
    store = SecurityStore(metadata, access)
    await store.keep_secrets()
    audit = AuditLog(
        clock,
        with_data=config.audit_data,
        is_required=config.audit_required,
        node_id=0 if asking is None else node_id,
    )
    if config.audit_file:
        audit.add_sink(partial(_append_lines, config.audit_file))
    await topics.ensure_internal(AUDIT_TOPIC, 1, {"retention.ms": str(_AUDIT_RETENTION_MS)})
    append_here = partial(_append_records, partitions, clock)
    place = TopicPartition(AUDIT_TOPIC, 0)
    audit.write_to(AuditTopic(append_here, None if asking is None else AuditAnywhere(place, append_here, asking)))
    tokens = _tokens(config, offload, clock)
    authenticator = Authenticator(
        store,
        mechanisms=config.sasl_mechanisms,
        rules=parse_rules(config.principal_mapping_rules),
        tokens=tokens,
        offload=offload,
        clock=clock,
        on_login=audit.login,
        failed_login_ms_max=config.failed_login_ms_max,
    )
    audit.start()
    stack.push_async_callback(audit.close)
    offline = OfflineChanges(metadata, store, audit, lambda: asking is None or asking.homes.is_here(place))
    await offline.tell()
    for work in (_keep_last_used(authenticator), offline.run()):
        stack.push_async_callback(_ended, asyncio.create_task(work))
    admin = SecurityAdmin(store, authenticator, audit, offload, clock)
    return Security(config, store, access, authenticator, clock, audit, admin)


def secured(services: Services, security: Security) -> Services:
    """The services behind a doorkeeper that authorises."""
    return msgspec.structs.replace(
        services,
        security=security.admin,
        doorkeeper=AuthorisingDoorkeeper(security.access, security.audit),
    )


def _tokens(config: SecurityConfig, offload: Offload, clock: Clock) -> TokenVerifier | None:
    where = config.token_keys
    if not where:
        return None
    load: Callable[[], Awaitable[bytes]]
    load = partial(_download, where) if "://" in where else partial(offload, Path(where).read_bytes)
    return TokenVerifier(
        load,
        issuer=config.token_issuer,
        audience=config.token_audience,
        claim=config.token_claim,
        refresh_ms=config.token_refresh_ms,
        clock=clock,
    )


async def _download(url: str) -> bytes:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url, allow_redirects=False) as answer:
        answer.raise_for_status()
        return await answer.content.read(_KEYS_BYTES_MAX)


def _append_lines(path: str, lines: Sequence[bytes]) -> None:
    """Opened for every write: whoever rotates the file only has to move it away."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"".join(line + b"\n" for line in lines))
    finally:
        os.close(descriptor)


def _append_records(partitions: Partitions, clock: Clock, lines: Sequence[bytes]) -> None:
    now_ms = clock.now_ms()
    batch = encode_batch([NewRecord(None, line) for line in lines], now_ms=now_ms)
    partitions.leader(AUDIT_TOPIC, 0).writer.append(batch, now_ms=now_ms)


async def _keep_last_used(authenticator: Authenticator) -> None:
    while True:
        await asyncio.sleep(_LAST_USED_SECONDS)
        await authenticator.keep_last_used()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
