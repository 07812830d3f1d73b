"""Who calls: made in one place for every call, from the connection and the metadata of the call."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from goqueue.caller import Caller, plain_address

_CHARS_MAX = 255
# What a client may say of itself.
_CLIENT_ID, _TRACE, _REQUEST_ID = "x-client-id", "traceparent", "x-request-id"


def caller_of(context: Any) -> Caller:
    """The caller of a gRPC call. Metadata is the client's word; the address is the socket's."""
    said = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    return Caller(
        client_id=said.get(_CLIENT_ID, "")[:_CHARS_MAX],
        address=address_of(context.peer()),
        protocol="grpc",
        trace=said.get(_TRACE, "")[:_CHARS_MAX],
        request_id=said.get(_REQUEST_ID, "")[:_CHARS_MAX],
    )


def address_of(peer: str) -> str:
    """The address in `ipv4:127.0.0.1:53211`, `ipv6:%5B::1%5D:53211` or `unix:...`, without the port."""
    family, _, rest = peer.partition(":")
    if family not in {"ipv4", "ipv6"}:
        return peer
    host = unquote(rest).rpartition(":")[0]
    return plain_address(host.removeprefix("[").removesuffix("]"))
