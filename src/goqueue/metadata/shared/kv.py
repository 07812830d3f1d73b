"""Kv: the port to a key-value store that several nodes share. Semantics are etcd's.

One revision counts all changes. A transaction compares, then writes, as one step, and gets one
revision. A watch tells every transaction once, in order, from a revision on. Keys of a lease go
with it. Reads are linearizable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Protocol

import msgspec

# etcd's own bound on compares and on writes of one transaction.
TXN_OPS_MAX = 128

NO_LEASE = 0


class KvError(Exception):
    """The store did not answer as asked."""


class KvUnavailable(KvError):
    """The call was certainly not executed."""


class KvAmbiguous(KvError):
    """The caller does not learn whether the call was executed, or will yet be."""


class KvCompacted(KvError):
    """Changes that far back are no longer kept."""


class LeaseNotFound(KvError):
    """The lease has expired or was revoked."""


class KeyValue(msgspec.Struct, frozen=True):
    """A key with its value; the revisions at which it was created and last written."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = NO_LEASE


class On(Enum):
    """What of a key is compared. Of a missing key each of them is 0."""

    MODIFIED = "mod_revision"
    CREATED = "create_revision"
    LEASE = "lease"


class Compare(msgspec.Struct, frozen=True):
    """Holds while that number of the key is this one."""

    key: str
    number: int
    on: On = On.MODIFIED


class Put(msgspec.Struct, frozen=True):
    """Write a key."""

    key: str
    value: bytes
    lease: int = NO_LEASE


class Delete(msgspec.Struct, frozen=True):
    """Remove a key, or with `is_prefix` all keys that begin so. None there is no error."""

    key: str
    is_prefix: bool = False


Write = Put | Delete


class TxnResult(msgspec.Struct, frozen=True):
    """Whether the compares held. `found` has the keys that were compared, in order, if they did not."""

    succeeded: bool
    revision: int
    found: tuple[KeyValue | None, ...] = ()


class Range(msgspec.Struct, frozen=True):
    """All pairs below a prefix at one revision."""

    pairs: tuple[KeyValue, ...]
    revision: int


class KvDelta(msgspec.Struct, frozen=True):
    """What one transaction changed below the watched prefix."""

    revision: int
    written: tuple[KeyValue, ...]
    removed: tuple[str, ...]


class Kv(Protocol):
    """The calls. Each of them may raise a `KvError`."""

    async def get(self, key: str) -> KeyValue | None:
        """One pair."""
        ...

    async def range(self, prefix: str) -> Range:
        """Everything below a prefix."""
        ...

    async def txn(self, compares: Sequence[Compare], writes: Sequence[Write]) -> TxnResult:
        """Make all writes if all compares hold. No key may be written twice."""
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncIterator[KvDelta]:
        """Every change from that revision on. After an error, watch again from behind the last one seen."""
        ...

    async def grant(self, ttl_ms: int) -> int:
        """A lease that ends after that time without `keep_alive`."""
        ...

    async def keep_alive(self, lease: int) -> None:
        """Begin the lease's time anew; raises `LeaseNotFound` if it has ended."""
        ...

    async def revoke(self, lease: int) -> None:
        """End the lease and remove its keys."""
        ...
