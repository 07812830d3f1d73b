"""Changes that were made past the broker, by `goqueue security`: they are told to the audit log, and then forgotten.

They lie in the metadata until then. In a cluster the node that leads the audit topic tells them, so each is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.caller import INTERNAL
from goqueue.errors import GoQueueError
from goqueue.metadata.events import Delta, SecurityChanged
from goqueue.metadata.store import MetadataStore
from goqueue.security.audit import AuditLog
from goqueue.security.store import SecurityStore

# What such a change is stored as, besides users and keys.
OFFLINE_CHANGE = "offline"
_LOOK_S = 0.5


class OfflineChanges:
    """Tells what is found in the metadata."""

    def __init__(
        self, metadata: MetadataStore, store: SecurityStore, audit: AuditLog, leads_audit: Callable[[], bool]
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._audit = audit
        self._leads_audit = leads_audit
        self._news = asyncio.Event()
        # What lay there before this node started.
        self._news.set()
        metadata.subscribe(self._on_delta)

    async def tell(self) -> bool:
        """Tell what there is, if it is for this node to tell; returns whether nothing is left."""
        found = [name for kind, name in self._metadata.image.security_values() if kind == OFFLINE_CHANGE]
        if not found:
            return True
        if not self._leads_audit():
            return False
        await self._audit.changed(INTERNAL, "offline", *found)
        await self._store.commit([SecurityChanged(OFFLINE_CHANGE, name, None) for name in found])
        return True

    async def run(self) -> None:
        """Tell what comes, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while not await self._told():  # noqa: ASYNC110 - another node removes it
                # Another node leads, and removes it; if that node fails, this one may lead next.
                await asyncio.sleep(_LOOK_S)

    async def _told(self) -> bool:
        try:
            return await self.tell()
        except GoQueueError:
            return False

    def _on_delta(self, delta: Delta) -> None:
        if any(isinstance(one, SecurityChanged) and one.kind == OFFLINE_CHANGE for one in delta.events):
            self._news.set()
