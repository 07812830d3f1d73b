"""KvModel: a shared key-value store in memory, and clients of it whose network misbehaves by a seed.

The model itself is exact and keeps every transaction, as the judge of what happened. A client may
be told that it cannot connect, lose a call or its reply, be late, send a call twice, and have its
watch broken, delayed or repeated.

    model = KvModel()
    kv = model.client(Random(7), KvFaults(lost_reply=0.1, late=0.1))
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import msgspec

from goqueue.metadata.shared.kv import (
    NO_LEASE,
    TXN_OPS_MAX,
    Compare,
    Delete,
    KeyValue,
    KvAmbiguous,
    KvCompacted,
    KvDelta,
    KvUnavailable,
    LeaseNotFound,
    Put,
    Range,
    TxnResult,
    Write,
)


@dataclass(frozen=True, slots=True)
class KvFaults:
    """How likely each fault is for one call; delays are drawn up to the maximum."""

    unavailable: float = 0.0
    lost_call: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    watch_broken: float = 0.0
    delay_s_max: float = 0.0


class KvModel:
    """The store. Its methods happen at once and never fail by themselves."""

    def __init__(self, *, leases_expire: bool = False) -> None:
        """Leases end only by `end_lease`; with `leases_expire` also by the running loop's time."""
        self.leases_expire = leases_expire
        self.pairs: dict[str, KeyValue] = {}
        self.revision = 1
        self.compacted = 0
        self.history: list[KvDelta] = []
        self.news = asyncio.Event()
        # The time of each in seconds, and when it is over.
        self._leases: dict[int, tuple[float, asyncio.TimerHandle | None]] = {}
        self._leases_granted = 0

    def client(self, rng: Random | None = None, faults: KvFaults | None = None) -> KvClient:
        """One node's way to it."""
        return KvClient(self, rng or Random(0), faults or KvFaults())  # noqa: S311 - repeatable on purpose

    def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """See `Kv.txn`."""
        if max(len(compares), len(writes)) > TXN_OPS_MAX:
            raise ValueError(f"a transaction has at most {TXN_OPS_MAX} compares and {TXN_OPS_MAX} writes")
        if len({write.key for write in writes}) != len(writes):
            raise ValueError("a transaction writes no key twice")
        if not all(self._holds(one) for one in compares):
            return TxnResult(False, self.revision, tuple(self.pairs.get(one.key) for one in compares))
        for write in writes:
            if isinstance(write, Put) and write.lease != NO_LEASE and write.lease not in self._leases:
                raise LeaseNotFound(str(write.lease))
        self._write(writes)
        return TxnResult(True, self.revision)

    def compact(self, revision: int) -> None:
        """Forget the changes up to that revision."""
        self.compacted = max(self.compacted, revision)

    def grant(self, ttl_ms: int = 0) -> int:
        """A new lease."""
        self._leases_granted += 1
        self._begin(self._leases_granted, ttl_ms / 1000)
        return self._leases_granted

    def renew(self, lease: int) -> None:
        """Begin its time anew; raises `LeaseNotFound` unless it is there."""
        if lease not in self._leases:
            raise LeaseNotFound(str(lease))
        ttl_s, timer = self._leases[lease]
        if timer is not None:
            timer.cancel()
        self._begin(lease, ttl_s)

    def end_lease(self, lease: int) -> None:
        """Expire or revoke: its keys go in one transaction."""
        _, timer = self._leases.pop(lease, (0, None))
        if timer is not None:
            timer.cancel()
        self._write([Delete(key) for key, pair in self.pairs.items() if pair.lease == lease])

    def _begin(self, lease: int, ttl_s: float) -> None:
        expires = self.leases_expire and ttl_s > 0
        # The store's own doing, whatever becomes of the node that asked.
        store = contextvars.Context()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(ttl_s, self.end_lease, lease, context=store) if expires else None
        self._leases[lease] = ttl_s, timer

    def _holds(self, one: Compare) -> bool:
        pair = self.pairs.get(one.key)
        return (0 if pair is None else getattr(pair, one.on.value)) == one.number

    def _write(self, writes: Sequence[Write]) -> None:
        written: list[KeyValue] = []
        removed: list[str] = []
        revision = self.revision + 1
        for write in writes:
            if isinstance(write, Put):
                old = self.pairs.get(write.key)
                created = revision if old is None else old.create_revision
                self.pairs[write.key] = KeyValue(write.key, write.value, created, revision, write.lease)
                written.append(self.pairs[write.key])
            else:
                gone = [
                    key for key in self.pairs if key == write.key or (write.is_prefix and key.startswith(write.key))
                ]
                for key in gone:
                    del self.pairs[key]
                removed += gone
        if written or removed:
            self.revision = revision
            self.history.append(KvDelta(revision, tuple(written), tuple(removed)))
            self.news.set()
            self.news = asyncio.Event()


class KvClient:
    """A `Kv` over the model, with the faults of one node's network."""

    def __init__(self, model: KvModel, rng: Random, faults: KvFaults) -> None:
        self._model = model
        self._rng = rng
        self.faults = faults

    async def get(self, key: str) -> KeyValue | None:
        """See `Kv.get`."""
        await self._read()
        return self._model.pairs.get(key)

    async def range(self, prefix: str) -> Range:
        """See `Kv.range`."""
        await self._read()
        pairs = (pair for key, pair in sorted(self._model.pairs.items()) if key.startswith(prefix))
        return Range(tuple(pairs), self._model.revision)

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """See `Kv.txn`."""
        faults = self.faults
        if self._happens(faults.unavailable):
            raise KvUnavailable("no connection")
        await self._delay()
        if self._happens(faults.lost_call):
            raise KvAmbiguous("the call was lost")
        if self._happens(faults.late):
            wait_s = self._rng.random() * 10 * faults.delay_s_max
            loop = asyncio.get_running_loop()
            loop.call_later(wait_s, self._late_txn, compares, writes, context=contextvars.Context())
            raise KvAmbiguous("the call is late")
        result = self._model.txn(compares, writes)
        if self._happens(faults.repeated):
            self._model.txn(compares, writes)
        await self._delay()
        if self._happens(faults.lost_reply):
            raise KvAmbiguous("the reply was lost")
        return result

    def _late_txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> None:
        # Its lease may have ended meanwhile; nobody is told.
        with suppress(LeaseNotFound):
            self._model.txn(compares, writes)

    async def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        """See `Kv.watch`."""
        next_revision = from_revision - self._rng.randrange(3) if self._happens(self.faults.repeated) else from_revision
        while True:
            if next_revision <= self._model.compacted:
                raise KvCompacted(f"revision {next_revision} is compacted")
            news = self._model.news
            # The first change has revision 2, and none is missing.
            for delta in self._model.history[max(next_revision - 2, 0) :]:
                await self._delay()
                if self._happens(self.faults.watch_broken):
                    raise KvUnavailable("the watch is broken")
                next_revision = delta.revision + 1
                written = tuple(pair for pair in delta.written if pair.key.startswith(prefix))
                removed = tuple(key for key in delta.removed if key.startswith(prefix))
                if written or removed:
                    yield msgspec.structs.replace(delta, written=written, removed=removed)
            if news is self._model.news:
                await news.wait()

    async def grant(self, ttl_ms: int) -> int:
        """See `Kv.grant`."""
        await self._read()
        return self._model.grant(ttl_ms)

    async def keep_alive(self, lease: int) -> None:
        """See `Kv.keep_alive`."""
        await self._read()
        self._model.renew(lease)

    async def revoke(self, lease: int) -> None:
        """See `Kv.revoke`."""
        await self._read()
        self._model.end_lease(lease)

    async def _read(self) -> None:
        if self._happens(self.faults.unavailable):
            raise KvUnavailable("no connection")
        await self._delay()

    async def _delay(self) -> None:
        await asyncio.sleep(self._rng.random() * self.faults.delay_s_max)

    def _happens(self, likelihood: float) -> bool:
        return self._rng.random() < likelihood
