"""Session: this node's proof that it is alive, a lease in the shared store that is renewed from the event loop.

A loop that hangs loses its session, as it must. The session counts as alive until 0.8 of its time after the *sending*
of the last renewal that succeeded, on a clock that goes on while the machine sleeps. Safety never rests on it: it only
ends stale reads, leases and coordinator answers early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from goqueue.metadata.shared.kv import NO_LEASE, Kv, KvError, LeaseNotFound

_log = logging.getLogger("goqueue.cluster")

_ALIVE_SHARE = 0.8
_RENEWALS_PER_TTL = 6
_RETRY_S = 0.2


class Session:
    """One lease after the other. `epoch` is the broker epoch under which this node is registered; 0 while it is not."""

    def __init__(self, kv: Kv, *, ttl_ms: int, boot_ms: Callable[[], int]) -> None:
        """`boot_ms` is a monotonic clock that counts the time in which the machine slept."""
        self._kv = kv
        self._ttl_ms = ttl_ms
        self._boot_ms = boot_ms
        self._renewed_ms = 0
        self._renewing: asyncio.Task[None] | None = None
        self.lease = NO_LEASE
        self.epoch = 0
        # Set when the lease has ended although nobody here ended it.
        self.lost = asyncio.Event()

    def is_alive(self) -> bool:
        """Whether this node may still speak for what it leads."""
        return self.epoch > 0 and self._boot_ms() < self._renewed_ms + _ALIVE_SHARE * self._ttl_ms

    async def begin(self) -> int:
        """Begin a new lease, after the end of the one before; raises `KvError`."""
        await self._stop_renewing()
        self.epoch = 0
        sent_ms = self._boot_ms()
        self.lease = await self._kv.grant(self._ttl_ms)
        self._renewed_ms = sent_ms
        self.lost.clear()
        self._renewing = asyncio.create_task(self._renew_forever())
        return self.lease

    async def end(self) -> None:
        """End the lease: others need not wait for its time to pass."""
        await self._stop_renewing()
        self.epoch = 0
        lease, self.lease = self.lease, NO_LEASE
        if lease != NO_LEASE:
            with suppress(KvError):
                await self._kv.revoke(lease)

    async def _renew_forever(self) -> None:
        pause_s = self._ttl_ms / _RENEWALS_PER_TTL / 1000
        while True:
            sent_ms = self._boot_ms()
            try:
                await self._kv.keep_alive(self.lease)
            except LeaseNotFound:
                _log.error("the session of this node has ended: broker epoch %d is over", self.epoch)
                self.epoch = 0
                self.lost.set()
                return
            except KvError as error:
                if self._boot_ms() - self._renewed_ms > self._ttl_ms:
                    _log.warning("the metadata store does not answer: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            except Exception:  # noqa: BLE001 - without this loop the session would end, and nobody would begin another
                _log.exception("the session of this node could not be renewed, and will be tried again")
                await asyncio.sleep(_RETRY_S)
                continue
            self._renewed_ms = sent_ms
            await asyncio.sleep(pause_s)

    async def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
