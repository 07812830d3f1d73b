"""TLS between nodes: which contexts connections use, and for which nodes a certificate speaks.

A certificate may name its node, as the URI `goqueue:node:2` among its alternative names. Then it speaks for that node
alone. A certificate without such a name, from an authority of the operator's own, speaks for every node: the secret of
the cluster is what tells nodes from others then.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Protocol

NODE_URI = "goqueue:node:"


class PeerTls(Protocol):
    """The TLS of a node's connections to and from other nodes."""

    # Whether plain connections are refused. If not, they are accepted, and made to nodes that do not speak TLS yet.
    is_required: bool

    def accepting(self) -> ssl.SSLContext:
        """The context for a connection that arrives now. It asks for a certificate."""
        ...

    def connecting(self) -> ssl.SSLContext:
        """The context for a connection that is made now. It shows a certificate."""
        ...


def certificate_refusal(certificate: Mapping[str, Any] | None, node_id: int) -> str:
    """Why a certificate, as `getpeercert` shows it, does not speak for the node; empty if it does, or without TLS."""
    names = [value for kind, value in (certificate or {}).get("subjectAltName", ()) if kind == "URI"]
    nodes = [value.removeprefix(NODE_URI) for value in names if value.startswith(NODE_URI)]
    if not nodes or str(node_id) in nodes:
        return ""
    return f"the certificate is that of node {', '.join(nodes)}, not of node {node_id}"
