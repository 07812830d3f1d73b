"""The client at the other end of a connection: who it is, and what its requests were answered with before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.caller import Caller

if TYPE_CHECKING:
    from goqueue.servers.kafka.api import Context
    from goqueue.servers.kafka.connections.gate import Gate

# Client ids are the client's choice: a few are remembered, not all that were ever sent.
_CONTEXTS_MAX = 64


class Peer:
    """One for each connection. Handlers may compare peers and keep them, nothing more."""

    __slots__ = ("_contexts", "caller", "gate")

    def __init__(self, address: str = "") -> None:
        # Without a client id, which every request names anew.
        self.caller = Caller(address=address, protocol="kafka")
        self._contexts: dict[tuple[int, str], Context] = {}
        # There with security: the login of this connection.
        self.gate: Gate | None = None

    @property
    def address(self) -> str:
        """Where it is, as the socket says."""
        return self.caller.address

    def become(self, principal: str, tenant: str = "") -> None:
        """The client has said who it is, and it was checked: its next requests are made in that name."""
        self.caller = msgspec.structs.replace(self.caller, principal=principal, tenant=tenant)
        self._contexts.clear()

    def named(self, client_id: str) -> Caller:
        """The caller of a request with this client id."""
        return msgspec.structs.replace(self.caller, client_id=client_id)

    def context(self, api_version: int, client_id: str) -> Context | None:
        """What the last request of this version and client id was answered with."""
        return self._contexts.get((api_version, client_id))

    def remember(self, context: Context) -> None:
        """Answer requests of its version and client id with this from now on."""
        if len(self._contexts) >= _CONTEXTS_MAX:
            self._contexts.clear()
        self._contexts[context.api_version, context.client_id] = context

    def forget(self) -> None:
        """The connection is closed."""
        self._contexts.clear()
