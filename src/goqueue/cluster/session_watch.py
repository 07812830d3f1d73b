"""Notes among the events of the cluster when this node has joined and caught up, loses its session, and has one again.

The metadata cannot say so in time: a node without a session is often one that does not reach the metadata store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.cluster.cluster_events import ClusterEvents

_EVERY_S = 0.5

_log = logging.getLogger("goqueue.cluster")


class SessionWatch:
    """Looks at one node's session every half second."""

    def __init__(
        self, node_id: int, is_alive: Callable[[], bool], has_caught_up: Callable[[], bool], events: ClusterEvents
    ) -> None:
        self._node_id = node_id
        self._is_alive = is_alive
        self._has_caught_up = has_caught_up
        self._is_complete = False
        self._events = events
        self._was_alive = True
        self._task: asyncio.Task[None] | None = None
        events.note("JoinedCluster", node_id)

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """The node stops, and looks no more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            self._events.note("LeftCluster", self._node_id)

    def look(self) -> None:
        """Note a change since the last look."""
        is_alive = self._is_alive()
        if is_alive != self._was_alive:
            self._was_alive = is_alive
            kind = "QuorumRestored" if is_alive else "QuorumLost"
            detail = "" if is_alive else "this node has no session with the metadata store"
            self._events.note(kind, self._node_id, detail)
        if is_alive and not self._is_complete and self._has_caught_up():
            self._is_complete = True
            self._events.note("BootstrapComplete", self._node_id)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                self.look()
            except Exception:  # noqa: BLE001 - without this loop no event would tell that the session is lost
                _log.exception("whether this node has a session could not be noted")
