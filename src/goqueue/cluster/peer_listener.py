"""PeerListener: takes the connections of other nodes, and gives each to whoever serves its purpose."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from goqueue.cluster.network import PeerConnection, PeerNetwork

_log = logging.getLogger("goqueue.cluster")

# (connection, purpose): serves it until it ends.
Serve = Callable[[PeerConnection, int], Awaitable[None]]


class PeerListener:
    """The one listener of a node's peer network."""

    def __init__(self, network: PeerNetwork) -> None:
        self._network = network
        self._served: dict[int, Serve] = {}

    def serve(self, purpose: int, serve: Serve) -> None:
        """Give connections of this purpose to `serve`."""
        if purpose in self._served:
            raise ValueError(f"two parts serve connections of purpose {purpose}")
        self._served[purpose] = serve

    async def start(self) -> None:
        """Take connections from now on."""
        await self._network.listen(self._accept)

    async def _accept(self, connection: PeerConnection, purpose: int) -> None:
        serve = self._served.get(purpose)
        if serve is None:
            # A newer node may ask for what this one does not know.
            _log.warning("node %d opened a connection of unknown purpose %d", connection.peer, purpose)
            return
        await serve(connection, purpose)
