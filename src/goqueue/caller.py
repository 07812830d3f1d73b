"""Who asks: the value that goes with every service call.

Authorisation, quotas, stories and the audit log are decided from it. A front-end makes one
for each connection or request; the broker's own work is done in the name of `INTERNAL`.
"""

from __future__ import annotations

import msgspec


class Caller(msgspec.Struct, frozen=True):
    """Who sent a request, from where, and through which door."""

    # Kafka's form, "User:alice": one name for one person whatever door was used.
    principal: str = "User:ANONYMOUS"
    tenant: str = ""
    # The name that the client gave itself; never trusted for a decision.
    client_id: str = ""
    # The peer's address without its port, as the socket says, never as a header says.
    address: str = ""
    # "kafka", "http", "grpc" or "internal".
    protocol: str = ""
    # W3C traceparent of the request, or empty.
    trace: str = ""
    request_id: str = ""


def printable(text: str) -> str:
    """What a client says of itself, as text that can be encoded: headers may hold bytes that are no text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def plain_address(host: str) -> str:
    """An address as rules name it: IPv4 is written as IPv4 on a socket that takes both, and without a zone."""
    if ":" not in host:
        return host
    return host.partition("%")[0].removeprefix("::ffff:")


ANONYMOUS = Caller()
INTERNAL = Caller(principal="Broker:INTERNAL", protocol="internal")
