"""A lane: makes transactions one after the other, each exactly once, although replies get lost.

Every transaction also writes the lane's own key with a token of its own and compares that nobody
wrote it since. After a reply that did not come, the key tells whether the transaction was made. If
it was not, the lane writes its key once more: a late arrival of the call then fails its compare.
With a lease, the key goes with the session, and a node without a session changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from goqueue.clock import Rng
from goqueue.errors import MetadataUnavailable, SessionEnded
from goqueue.metadata.shared.kv import (
    NO_LEASE,
    Compare,
    Kv,
    KvError,
    KvUnavailable,
    LeaseNotFound,
    Put,
    TxnResult,
    Write,
)

ATTEMPTS_MAX = 50
_WAIT_S_FIRST = 0.01
_WAIT_S_MAX = 1.0


class Lane:
    """One key, and the revision at which this node wrote it last."""

    def __init__(self, kv: Kv, key: str, rng: Rng, lease: int = NO_LEASE) -> None:
        self._kv = kv
        self._key = key
        self._rng = rng
        self._lease = lease
        self._revision = 0
        self._is_known = True

    async def transact(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """Make the writes if all compares hold; raises `MetadataUnavailable` if that cannot be found out."""
        refusal = ""
        for attempt in range(ATTEMPTS_MAX):
            if not self._is_known:
                await self._settle(None)
            token = self._token()
            self._is_known = False
            try:
                result = await self._kv.txn(
                    [Compare(self._key, self._revision), *compares], [Put(self._key, token, self._lease), *writes]
                )
            except KvUnavailable as error:
                self._is_known, refusal = True, str(error)
                await _wait(attempt)
                continue
            except LeaseNotFound:
                raise SessionEnded("the node's session has ended: nothing was changed") from None
            except KvError:
                made_at = await self._settle(token)
                if made_at is not None:
                    return TxnResult(succeeded=True, revision=made_at)
                continue
            self._is_known = True
            if result.succeeded:
                self._revision = result.revision
                return result
            own, *found = result.found
            if (0 if own is None else own.mod_revision) != self._revision:
                raise SessionEnded("the node's session has ended: nothing was changed")
            return msgspec.structs.replace(result, found=tuple(found))
        raise MetadataUnavailable(f"the metadata store did not take a change in {ATTEMPTS_MAX} attempts: {refusal}")

    async def _settle(self, token: bytes | None) -> int | None:
        """The revision at which that transaction was made; None if it was not and never will be."""
        fences: set[bytes] = set()
        reason = ""
        for attempt in range(ATTEMPTS_MAX):
            try:
                own = await self._kv.get(self._key)
                if own is None and self._revision > 0:
                    raise SessionEnded("the node's session has ended: a change may or may not be made")
                if own is not None and own.value in {token, *fences}:
                    self._revision, self._is_known = own.mod_revision, True
                    return own.mod_revision if own.value == token else None
                fences.add(fence := self._token())
                seen = 0 if own is None else own.mod_revision
                result = await self._kv.txn([Compare(self._key, seen)], [Put(self._key, fence, self._lease)])
            except LeaseNotFound:
                raise SessionEnded("the node's session has ended: a change may or may not be made") from None
            except KvError as error:
                reason = str(error)
                await _wait(attempt)
                continue
            if result.succeeded:
                self._revision, self._is_known = result.revision, True
                return None
        raise MetadataUnavailable(
            f"the metadata store does not say whether a change was made, in {ATTEMPTS_MAX} attempts: {reason}"
        )

    def _token(self) -> bytes:
        return f"{self._rng.getrandbits(64):016x}".encode()


async def _wait(attempt: int) -> None:
    await asyncio.sleep(min(_WAIT_S_FIRST * 2**attempt, _WAIT_S_MAX))
