"""EtcdKv: the `Kv` port over etcd's gRPC API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from goqueue.metadata.shared.etcd.connection import CALL_S_MAX, Connection, ends_when_it_moves
from goqueue.metadata.shared.etcd.messages import message
from goqueue.metadata.shared.kv import (
    Compare,
    KeyValue,
    KvCompacted,
    KvDelta,
    KvUnavailable,
    LeaseNotFound,
    On,
    Put,
    Range,
    TxnResult,
    Write,
)

_DELETE_EVENT = 1
_TARGETS = {On.CREATED: (1, "create_revision"), On.MODIFIED: (2, "mod_revision"), On.LEASE: (4, "lease")}


class EtcdKv:
    """One node's way to etcd."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def get(self, key: str) -> KeyValue | None:
        """See `Kv.get`."""
        answer = await self._connection.call("KV/Range", message("RangeRequest", key=key.encode()), "RangeResponse")
        return _pair(answer.kvs[0]) if answer.kvs else None

    async def range(self, prefix: str) -> Range:
        """See `Kv.range`."""
        wanted = message("RangeRequest", key=prefix.encode(), range_end=_behind(prefix))
        answer = await self._connection.call("KV/Range", wanted, "RangeResponse")
        return Range(tuple(map(_pair, answer.kvs)), answer.header.revision)

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """See `Kv.txn`."""
        request = message(
            "TxnRequest",
            compare=[_compare(one) for one in compares],
            success=[_operation(one) for one in writes],
            failure=[
                message("RequestOp", request_range=message("RangeRequest", key=one.key.encode())) for one in compares
            ],
        )
        answer = await self._connection.call("KV/Txn", request, "TxnResponse")
        if answer.succeeded:
            return TxnResult(succeeded=True, revision=answer.header.revision)
        ranges = [one.response_range.kvs for one in answer.responses]
        found = tuple(_pair(kvs[0]) if kvs else None for kvs in ranges)
        return TxnResult(succeeded=False, revision=answer.header.revision, found=found)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        """See `Kv.watch`."""
        wanted = message(
            "WatchCreateRequest",
            key=prefix.encode(),
            range_end=_behind(prefix),
            start_revision=from_revision,
            fragment=True,
        )
        stream = await self._connection.stream(
            "Watch/Watch", "WatchResponse", message("WatchRequest", create_request=wanted)
        )
        events: list[Any] = []
        try:
            while True:
                answer = await self._next(stream)
                if answer.compact_revision:
                    raise KvCompacted(f"revision {from_revision} is compacted, {answer.compact_revision} is the oldest")
                if answer.canceled:
                    self._connection.next_server()
                    raise KvUnavailable(f"the watch was ended: {answer.cancel_reason}")
                events += answer.events
                if not answer.fragment:
                    for delta in _deltas(events):
                        yield delta
                    events = []
        finally:
            stream.cancel()

    async def grant(self, ttl_ms: int) -> int:
        """See `Kv.grant`. etcd counts in seconds."""
        request = message("LeaseGrantRequest", TTL=-(-ttl_ms // 1000))
        answer = await self._connection.call("Lease/LeaseGrant", request, "LeaseGrantResponse")
        return int(answer.ID)

    async def keep_alive(self, lease: int) -> None:
        """See `Kv.keep_alive`."""
        stream = await self._connection.stream(
            "Lease/LeaseKeepAlive", "LeaseKeepAliveResponse", message("LeaseKeepAliveRequest", ID=lease)
        )
        try:
            async with asyncio.timeout(CALL_S_MAX):
                answer = await self._next(stream)
        except TimeoutError:
            self._connection.next_server()
            raise KvUnavailable(f"no answer to a keep-alive in {CALL_S_MAX} s") from None
        finally:
            stream.cancel()
        if answer.TTL <= 0:
            raise LeaseNotFound(str(lease))

    async def revoke(self, lease: int) -> None:
        """See `Kv.revoke`. One that has ended already is no error."""
        try:
            await self._connection.call("Lease/LeaseRevoke", message("LeaseRevokeRequest", ID=lease), "Nothing")
        except LeaseNotFound:
            return

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def _next(self, stream: Any) -> Any:
        try:
            with ends_when_it_moves():
                answer = await stream.read()
        except grpc.aio.AioRpcError as error:
            raise self._connection.failed(error) from error
        if answer is grpc.aio.EOF:
            self._connection.next_server()
            raise KvUnavailable("the server closed the stream")
        return answer


def _deltas(events: Sequence[Any]) -> list[KvDelta]:
    """The events by transaction: those of one have its revision, and lie together."""
    deltas: list[KvDelta] = []
    at = 0
    while at < len(events):
        revision = events[at].kv.mod_revision
        end = at
        while end < len(events) and events[end].kv.mod_revision == revision:
            end += 1
        written = tuple(_pair(one.kv) for one in events[at:end] if one.type != _DELETE_EVENT)
        removed = tuple(one.kv.key.decode() for one in events[at:end] if one.type == _DELETE_EVENT)
        deltas.append(KvDelta(revision, written, removed))
        at = end
    return deltas


def _pair(found: Any) -> KeyValue:
    return KeyValue(found.key.decode(), found.value, found.create_revision, found.mod_revision, found.lease)


def _compare(one: Compare) -> Any:
    target, number = _TARGETS[one.on]
    return message("Compare", target=target, key=one.key.encode(), **{number: one.number})


def _operation(write: Write) -> Any:
    key = write.key.encode()
    if isinstance(write, Put):
        return message("RequestOp", request_put=message("PutRequest", key=key, value=write.value, lease=write.lease))
    end = _behind(write.key) if write.is_prefix else b""
    return message("RequestOp", request_delete_range=message("DeleteRangeRequest", key=key, range_end=end))


def _behind(prefix: str) -> bytes:
    """The first key behind all that begin so."""
    raw = prefix.encode()
    return raw[:-1] + bytes([raw[-1] + 1]) if raw and raw[-1] < 0xFF else b"\0"
